r"""
Regular expressions of definitions, matched in linear time by RE2, without regard to letter case.

Only this module uses `re2`. Python's `re` backtracks: a pattern such as `(a+)+$` can take
exponential time, and cannot be interrupted. RE2 has no look-around, backreferences, atomic groups,
possessive quantifiers, conditionals, comments and flag `x`; such patterns are reported with their
location. `\d`, `\w`, `\s` and `\b` mean ASCII; `\pL` is any letter. The end of the text is `$` or
`\z`. Syntax: https://github.com/google/re2/wiki/Syntax.

The size of a compiled pattern and the length of a value are limited, because their product bounds
the time of a search. `bounded_patterns` bounds the searches of a message together: the event loop
gives up a message whose patterns take long, and a thread evaluates it.
"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import re2

from mappings.language.diagnostics import Diagnostics, YamlNode

MAX_SEARCHED_CHARACTERS = 4096
"""Limit of the characters of a value that a pattern searches."""
MAX_PATTERN_CHARACTERS = 2000
"""The limit of the characters of a pattern."""

_MAX_CACHED_LENGTH, _MAX_CACHED = 32, 512
"""Length and number of values whose results are cached: codes repeat in messages."""
_MAX_STEPS = 2000  # instructions of a compiled pattern
_FEW_STEPS = 300  # larger patterns are not searched on the event loop
_BOUNDED_STEPS = 2**16  # instructions times bytes of all searches of a block: two milliseconds
_MAX_MEMORY = 2**20  # bytes of one compiled pattern with its cache

Search = Callable[[str], str | None]
"""Returns the first group of a match, the whole match without groups, None if nothing matches."""


class PatternsTakeLong(Exception):
    """The searches of a block of `bounded_patterns` would take long together."""


class _Bound(threading.local):
    left: int | None = None
    """The steps that the current block of this thread may still take; None without a block."""


_bound = _Bound()


@contextmanager
def bounded_patterns() -> Iterator[None]:
    """Bound all searches of this thread in a block. They raise PatternsTakeLong."""
    before, _bound.left = _bound.left, _BOUNDED_STEPS
    try:
        yield
    finally:
        _bound.left = before


def _spend(pattern: "re2._Regexp", text: bytes) -> None:
    """Count a search; raise PatternsTakeLong if the block has no steps left."""
    if _bound.left is not None:
        _bound.left -= pattern.programsize * len(text)
        if _bound.left < 0:
            raise PatternsTakeLong


_ENGINE = "patterns are matched in linear time (RE2)"
_UNSUPPORTED = {
    "(?=": "look-ahead (?=",
    "(?!": "negative look-ahead (?!",
    "(?<=": "look-behind (?<=",
    "(?<!": "negative look-behind (?<!",
    "(?P=": "the backreference (?P=",
    "(?>": "the atomic group (?>",
    "(?(": "the conditional group (?(",
    "(?#": "the comment (?#",
    "{,": "a repetition such as {,3} (write {0,3})",
    r"\Z": r"\Z (write \z)",
    r"\C": r"\C",
    r"\N": r"\N (write the character itself)",
    r"\u": r"\u (write the character itself)",
    r"\U": r"\U (write the character itself)",
}
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:<[=!]|P=|[a-zA-Z-]+(?=[:)])|[=!>(#])|\{,(?=\d)",
    re.DOTALL,
)
"""An escape, a character set, or the start of a special group or of a repetition."""


def compile_pattern(node: YamlNode, diagnostics: Diagnostics) -> Search:
    """Compile a pattern. A pattern with errors never matches."""
    text = diagnostics.read_text(node)
    try:
        found = _compiled(text, case_sensitive=False)
    except ValueError as error:
        diagnostics.error(node, "pattern", str(error))
        return lambda value: None
    diagnostics.takes_long |= found.programsize > _FEW_STEPS
    return _search(found)


def compile_search(pattern: str) -> Search:
    """Compile a pattern. Raises ValueError with the reason."""
    return _search(_compiled(pattern, case_sensitive=False))


def _search(pattern: "re2._Regexp") -> Search:
    group = 1 if pattern.groups else 0

    def search(value: str) -> str | None:
        encoded = value[:MAX_SEARCHED_CHARACTERS].encode("utf-8", "surrogatepass")
        _spend(pattern, encoded)
        match = pattern.search(encoded)
        if match is None:
            return None
        text: bytes | None = match[group]
        return text.decode("utf-8", "replace") if text else ""

    cached = lru_cache(maxsize=_MAX_CACHED)(search)
    return lambda value: cached(value) if len(value) <= _MAX_CACHED_LENGTH else search(value)


@lru_cache(maxsize=1024)
def compile_wildcards(pattern: str) -> Callable[[str], bool]:
    """
    Compile a text with wildcards: `*` for any characters, `?` for one. Letter case matters.

    Raises ValueError.
    """
    parts = {"*": ".*", "?": "."}
    text = "".join(parts.get(each) or re.escape(each) for each in pattern)
    found = _compiled(rf"(?s)\A(?:{text})\z", case_sensitive=True)

    def matches(value: str) -> bool:
        if len(value) > MAX_SEARCHED_CHARACTERS:
            return False
        encoded = value.encode("utf-8", "surrogatepass")
        _spend(found, encoded)
        return found.search(encoded) is not None

    return matches


def _compiled(pattern: str, *, case_sensitive: bool) -> "re2._Regexp":
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise ValueError(f"a pattern has at most {MAX_PATTERN_CHARACTERS} characters")
    unsupported = _unsupported(pattern)
    if unsupported:
        raise ValueError(f"not supported in a pattern: {unsupported}; {_ENGINE}")
    options = re2.Options()
    options.case_sensitive = case_sensitive
    options.max_mem = _MAX_MEMORY
    options.log_errors = False  # RE2 logs to standard error
    try:
        found = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"not a regular expression: {text}; {_ENGINE}") from None
    except UnicodeError:
        raise ValueError("not a regular expression: it has no valid characters") from None
    if found.programsize > _MAX_STEPS:
        raise ValueError("the pattern is too large: it repeats too much")
    return found


def _unsupported(pattern: str) -> str:
    """Return the first construct that RE2 does not support; "" if there is none."""
    for found in _TOKEN.finditer(pattern):
        token = found[0]
        if token in _UNSUPPORTED:
            return _UNSUPPORTED[token]
        if token.startswith("\\") and token[1] in "123456789":
            return f"the backreference {token}"
        if token.startswith("(?") and set(token[2:]) & set("xaLu"):
            return f"the flag in {token})"
    return ""
