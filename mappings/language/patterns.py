r"""
Regular expressions of definitions, matched in linear time by RE2, without regard to letter case.

Only this module uses `re2`. Python's `re` backtracks: a pattern such as `(a+)+$` can take
exponential time, and cannot be interrupted. RE2 has no look-around, backreferences, atomic groups,
possessive quantifiers, conditionals, comments and flag `x`; such patterns are reported with their
location. `\d`, `\w`, `\s` and `\b` mean ASCII; `\pL` is any letter. The end of the text is `$` or
`\z`. Syntax: https://github.com/google/re2/wiki/Syntax.

The size of a compiled pattern and the length of a value are limited, because their product bounds
the time of a search.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import re2

from mappings.language.diagnostics import Diagnostics, YamlNode

MAX_MATCHED = 4096
"""The number of characters of a value that are searched."""
MAX_PATTERN = 2000
"""The limit of the characters of a pattern."""

_SHORT, _REMEMBERED = 32, 512
"""Length and number of values whose results are cached: codes repeat in messages."""
_MAX_STEPS = 2000  # instructions of a compiled pattern
_FEW_STEPS = 300  # such a pattern takes at most two milliseconds
_MAX_MEMORY = 2**20  # bytes of one compiled pattern with its cache

Search = Callable[[str], str | None]
"""Returns the first group of a match, the whole match without groups, None if nothing matches."""

_ENGINE = "patterns are matched in linear time (RE2)"
_LACKING = {
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


def _search(found: "re2._Regexp") -> Search:
    group = 1 if found.groups else 0

    def search(value: str) -> str | None:
        match = found.search(value[:MAX_MATCHED].encode("utf-8", "surrogatepass"))
        if match is None:
            return None
        text: bytes | None = match[group]
        return text.decode("utf-8", "replace") if text else ""

    known = lru_cache(maxsize=_REMEMBERED)(search)
    return lambda value: known(value) if len(value) <= _SHORT else search(value)


@lru_cache(maxsize=1024)
def compile_wildcards(pattern: str) -> Callable[[str], bool]:
    """
    Compile a text with wildcards: `*` for any characters, `?` for one. Letter case matters.

    Raises ValueError.
    """
    parts = {"*": ".*", "?": "."}
    text = "".join(parts.get(each) or re.escape(each) for each in pattern)
    found = _compiled(rf"(?s)\A(?:{text})\z", case_sensitive=True)
    return lambda value: (
        len(value) <= MAX_MATCHED
        and found.search(value.encode("utf-8", "surrogatepass")) is not None
    )


def _compiled(pattern: str, *, case_sensitive: bool) -> "re2._Regexp":
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a pattern has at most {MAX_PATTERN} characters")
    lacking = _lacking(pattern)
    if lacking:
        raise ValueError(f"not supported in a pattern: {lacking}; {_ENGINE}")
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


def _lacking(pattern: str) -> str:
    """Return the first construct that RE2 does not support; "" if there is none."""
    for found in _TOKEN.finditer(pattern):
        token = found[0]
        if token in _LACKING:
            return _LACKING[token]
        if token.startswith("\\") and token[1] in "123456789":
            return f"the backreference {token}"
        if token.startswith("(?") and set(token[2:]) & set("xaLu"):
            return f"the flag in {token})"
    return ""
