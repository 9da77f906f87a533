"""Entries of code tables: one more in a CSV's text, and codes that messages had without one."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import asdict
from io import StringIO
from typing import Any

from bridge.store.database import Database
from bridge.store.records import unmapped_codes
from mappings.language.code_tables import COLUMNS, file_of, read_table
from mappings.language.diagnostics import Diagnostics, Sources
from parsers.csv import read_rows
from parsers.limits import TABLE

_MOST = 500


def with_entry(text: str, code: str, value: str) -> str:
    """Give a table's text with an entry, in the place of one that the code has already."""
    rows = [row for _, row in read_rows(text, TABLE)]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if not set(COLUMNS) <= set(header):
        header = list(COLUMNS)
        rows = [header, *rows]
    place, worth = header.index("code"), header.index("value")
    for row in rows[1:]:
        if len(row) > max(place, worth) and row[place].strip().upper() == code.strip().upper():
            row[worth] = value
            return _written(rows)
    entry = [""] * len(header)
    entry[place], entry[worth] = code, value
    return f"{text.rstrip()}\n{_written([entry])}" if text.strip() else _written([*rows, entry])


def listed(database: Database, draft_of: Callable[[str], Sources]) -> list[Mapping[str, Any]]:
    """
    List codes without an entry, the last met first.

    `value` is what the author's own draft says by now; `draft_of` gives its files.
    """
    found = unmapped_codes.list_active(database, _MOST)
    drafts = {name: draft_of(name) for name in {each.mapping for each in found}}
    return [
        {
            **asdict(each),
            "value": _said(drafts[each.mapping], each.code_table, each.code, back=each.back),
        }
        for each in found
    ]


def _said(files: Sources, table: str, code: str, *, back: bool) -> str:
    if not code or file_of(table) not in files:
        return ""
    read = read_table(files, table, Diagnostics())
    return (read.code(code) if back else read.value(code)) or ""


def _written(rows: list[list[str]]) -> str:
    out = StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()
