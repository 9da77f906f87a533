"""Entries of code tables: set an entry in a CSV, and list unmapped codes of messages."""

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


def set_entry(text: str, code: str, value: str) -> str:
    """Return the text of a table with an entry, which replaces an existing one of the code."""
    rows = [row for _, row in read_rows(text, TABLE)]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if not set(COLUMNS) <= set(header):
        header = list(COLUMNS)
        rows = [header, *rows]
    code_at, value_at = header.index("code"), header.index("value")
    for row in rows[1:]:
        if (
            len(row) > max(code_at, value_at)
            and row[code_at].strip().upper() == code.strip().upper()
        ):
            row[value_at] = value
            return _as_csv(rows)
    entry = [""] * len(header)
    entry[code_at], entry[value_at] = code, value
    return f"{text.rstrip()}\n{_as_csv([entry])}" if text.strip() else _as_csv([*rows, entry])


def list_unmapped_codes(
    database: Database, draft_of: Callable[[str], Sources]
) -> list[Mapping[str, Any]]:
    """
    List unmapped codes, most recent first.

    `value` is the value in the author's draft; `draft_of` returns the files of a draft.
    """
    found = unmapped_codes.list_active(database, _MOST)
    drafts = {name: draft_of(name) for name in {each.mapping for each in found}}
    return [
        {
            **asdict(each),
            "value": _value_in(drafts[each.mapping], each.code_table, each.code, back=each.back),
        }
        for each in found
    ]


def _value_in(files: Sources, table: str, code: str, *, back: bool) -> str:
    if not code or file_of(table) not in files:
        return ""
    read = read_table(files, table, Diagnostics())
    return (read.code(code) if back else read.value(code)) or ""


def _as_csv(rows: list[list[str]]) -> str:
    out = StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()
