"""Print rows as a table for people or as JSON for scripts."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from unicodedata import category

_BEGINNING = 40  # characters
_EMBEDDED = re.compile(r"[A-Za-z0-9+/]{400,}={0,2}")
"""An embedded document, such as a PDF in OBX-5."""


def rows(items: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """
    Print a list: JSON has every member, the table just `columns`.

    A line that is too long for the terminal is wrapped by it: nothing is cut, ids least of all.
    """
    if as_json:
        print(json.dumps(list(items), ensure_ascii=False, indent=2, default=str))
        return
    written = [
        [name.replace("_", " "), *(_line(_cell(item.get(name))) for item in items)]
        for name in columns
    ]
    widths = [max(map(len, column)) for column in written]
    for line in zip(*written, strict=True):
        print("  ".join(map(str.ljust, line, widths)).rstrip())


def one(item: Mapping[str, Any], texts: Mapping[str, str], *, as_json: bool) -> None:
    """
    Print one record: JSON, or a name and a value a line, then the long texts.

    Embedded documents (base64) are shortened; JSON has them whole.
    """
    if as_json:
        print(json.dumps({**item, **texts}, ensure_ascii=False, indent=2, default=str))
        return
    width = max(len(name) for name in item)
    for name, value in item.items():
        print(f"{name.replace('_', ' '):<{width}}  {_line(_cell(value))}")
    for name, text in texts.items():
        lines = map(_line, _EMBEDDED.sub(_shortened, text).split("\n"))
        print(f"\n{name}", *(lines if text else ["(nothing)"]), sep="\n")


def times(item: dict[str, Any]) -> dict[str, Any]:
    """Write every time of a row, kept in milliseconds, as ISO 8601."""
    return {
        name: iso(value) if name.endswith("_at") or name == "not_before" else value
        for name, value in item.items()
    }


def _shortened(found: re.Match[str]) -> str:
    return f"{found[0][:_BEGINNING]}… ({len(found[0])} characters of base64; --json has them all)"


def iso(value: int | None) -> str | None:
    """Write a time in milliseconds as ISO 8601; None where there is none."""
    if not value:
        return None
    return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")


def _line(text: str) -> str:
    """Write what a terminal would obey (a sender may have sent it) as an escape."""
    if text.isprintable():
        return text
    return "".join(ascii(c)[1:-1] if category(c).startswith("C") else c for c in text)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
