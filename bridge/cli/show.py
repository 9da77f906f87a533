"""Print rows as a table for people or as JSON for scripts."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_PAPER = 200  # columns, where no terminal says how wide it is


def rows(items: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print a list: JSON has every member, the table just `columns`."""
    if as_json:
        print(json.dumps(list(items), ensure_ascii=False, indent=2, default=str))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), no_wrap=True)
    for item in items:
        table.add_row(*(_cell(item.get(each)) for each in columns))
    console = Console()
    console = console if console.is_terminal else Console(width=_PAPER)
    console.print(table)


def one(item: Mapping[str, Any], texts: Mapping[str, str], *, as_json: bool) -> None:
    """Print one record: JSON, or a name and a value a line, then the long texts."""
    if as_json:
        print(json.dumps({**item, **texts}, ensure_ascii=False, indent=2, default=str))
        return
    width = max(len(name) for name in item)
    for name, value in item.items():
        print(f"{name.replace('_', ' '):<{width}}  {_cell(value)}")
    for name, text in texts.items():
        print(f"\n{name}\n{text or '(nothing)'}")


def times(item: dict[str, Any]) -> dict[str, Any]:
    """Write every time of a row, kept in milliseconds, as ISO 8601."""
    return {
        name: iso(value) if name.endswith("_at") or name == "not_before" else value
        for name, value in item.items()
    }


def readable(data: bytes | None) -> str:
    """Show a message a segment a line; bytes that are no UTF-8 as escapes."""
    if data is None:
        return ""
    return data.replace(b"\r", b"\n").decode("utf-8", "backslashreplace").strip("\n")


def iso(value: int | None) -> str | None:
    """Write a time in milliseconds as ISO 8601; None where there is none."""
    if not value:
        return None
    return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
