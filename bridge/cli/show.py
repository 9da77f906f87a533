"""Print rows as a table for people or as JSON for scripts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def rows(items: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print a list: JSON has every member, the table just `columns`."""
    if as_json:
        print(json.dumps(list(items), ensure_ascii=False, indent=2, default=str))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for item in items:
        table.add_row(*("" if item.get(each) is None else str(item[each]) for each in columns))
    Console(soft_wrap=True).print(table)


def one(item: Mapping[str, Any], *, as_json: bool) -> None:
    """Print one record: JSON, or a name and a value a line."""
    if as_json:
        print(json.dumps(item, ensure_ascii=False, indent=2, default=str))
        return
    width = max((len(name) for name in item), default=0)
    for name, value in item.items():
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
        print(f"{name.replace('_', ' '):<{width}}  {'' if text is None else text}")
