r"""Regular expressions that people write, matched in linear time by RE2; letter case does not
count.

The one door to `re2`. Python's `re` backtracks: a pattern such as `(a+)+$` can take for ever, and
cannot be interrupted. RE2 has no such patterns. It lacks look-around, backreferences, atomic
groups, possessive quantifiers, conditionals, comments and the flag `x`; a check refuses them with
their place. `\d`, `\w`, `\s` and `\b` mean ASCII; `\pL` is any letter. The end of the text is `$`
or `\z`. Syntax: https://github.com/google/re2/wiki/Syntax.

The size of a compiled pattern and the length of a value are limited, since the time of a search is
their product at most.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import re2

from mappings.language.diagnostics import Diagnostics, YamlNode

MAX_MATCHED = 4096
"""Only so many characters of a value meet a regular expression."""
MAX_PATTERN = 2000
"""Characters of a pattern."""

_SHORT, _REMEMBERED = 32, 512
"""Results for so many short values are kept: codes repeat, and a search takes a microsecond."""
_MAX_STEPS = 2000  # instructions of a compiled pattern
_FEW_STEPS = 300  # a pattern of so many takes a millisecond or two, at worst
_MAX_MEMORY = 2**20  # bytes of one compiled pattern, with what it caches

Search = Callable[[str], str | None]
"""Gives the first group of a match, or all of it where there is no group; None without one."""

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
"""An escape, a set of characters, the start of a special group or of a repetition."""


def compile_pattern(node: YamlNode, notebook: Diagnostics) -> Search:
    """Compile a pattern; after a mistake it matches nothing."""
    text = notebook.text(node)
    try:
        found = _compiled(text, case_sensitive=False)
    except ValueError as error:
        notebook.error(node, "pattern", str(error))
        return lambda value: None
    notebook.takes_long |= found.programsize > _FEW_STEPS
    return _search(found)


def compile_search(pattern: str) -> Search:
    """Compile a pattern. Raises ValueError, which says what is wrong with it."""
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
    Compile a text with wildcards, `*` for any characters and `?` for one; letter case counts.

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
    options.log_errors = False  # its log is our standard error
    try:
        found = re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0]
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise ValueError(f"not a regular expression: {text}; {_ENGINE}") from None
    except UnicodeError:
        raise ValueError("not a regular expression: it has no valid characters") from None
    if found.programsize > _MAX_STEPS:
        raise ValueError("the pattern is too large: it repeats too much")
    return found


def _lacking(pattern: str) -> str:
    """Name the first construct of Python's expressions that RE2 lacks; empty where all is well."""
    for found in _TOKEN.finditer(pattern):
        token = found[0]
        if token in _LACKING:
            return _LACKING[token]
        if token.startswith("\\") and token[1] in "123456789":
            return f"the backreference {token}"
        if token.startswith("(?") and set(token[2:]) & set("xaLu"):
            return f"the flag in {token})"
    return ""
