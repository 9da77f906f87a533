"""
Limits of TOML text, because `tomllib` has none.

`tomllib` needs quadratic time for dotted keys and recursion for brackets. `require_limits` reads
each character once, and distinguishes keys, brackets and values from the content of strings.
"""

import re
from collections.abc import Mapping
from typing import Final

from parsers.errors import DocumentRefused
from parsers.limits import TOML

_TOKEN: Final = re.compile(
    r"""
    (?P<text>\"{3}(?:[^"\\]|\\.|"(?!""))*+\"{0,5}+|'{3}(?:[^']|'(?!''))*+'{0,5}+
        |"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?)
    |(?P<comment>\#[^\n]*+)
    |(?P<opening>[\[{])
    |(?P<closing>[\]}])
    |(?P<number>[+-]?[0-9][^\s\#\[{\]}.=,"']{200,}+)
    |(?P<point>\.)
    |(?P<value>[=,])
    |(?P<line>\n)
    |(?P<other>[^"'\#\[{\]}.=,\s]++|[^\S\n]++|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS_KEY: Final[Mapping[str | None, int]] = {"opening": 1, "closing": -1, "value": 0, "line": 0}
"""Tokens that end a key, and by how much they change the depth."""
_COUNTED: Final = frozenset({"opening", "value"})


def require_limits(text: str) -> None:
    """
    Raise DocumentRefused if a text exceeds the limits `TOML`.

    These limit characters, nested brackets, parts of a key, and values.
    """
    if len(text) > TOML.size:
        raise DocumentRefused(f"more than {TOML.size:,} characters")
    depth = points = values = outermost = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind in _ENDS_KEY:
            points = 0
            outermost = outermost if depth else token.start()
            depth = max(0, depth + _ENDS_KEY[kind])
            values += kind in _COUNTED
        points += kind == "point"
        if reason := _reason(kind, depth, points, values):
            raise _refused(text, outermost if depth > TOML.depth else token.start(), reason)


def _reason(kind: str | None, depth: int, points: int, values: int) -> str:
    """Return the exceeded limit, empty if none."""
    if kind == "number":
        return "a number has too many digits"
    if depth > TOML.depth:
        return "tables or lists are nested too deeply"
    if points >= TOML.depth:
        return f"a key has more than {TOML.depth} parts"
    return f"more than {TOML.count:,} values" if values > TOML.count else ""


def _refused(text: str, offset: int, reason: str) -> DocumentRefused:
    before = text[:offset]
    return DocumentRefused(reason, before.count("\n") + 1, offset - before.rfind("\n"))
