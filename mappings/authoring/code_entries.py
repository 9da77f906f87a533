"""
Entries of a code table, changed in its CSV text.

An entry is one line. The other lines, the other columns and the line ends stay as they are.
"""

import csv
from io import StringIO

from mappings.authoring.text_edits import EditRefused, TextEdit
from mappings.language.code_tables import COLUMNS
from parsers.limits import TABLE, DocumentRefused
from parsers.readers import read_csv


def entry_edit(text: str, code: str, value: str | None) -> tuple[TextEdit, ...]:
    """
    Return the edit that sets the value of a code, or removes its entry if the value is None.

    Codes are compared as inbound rules do: in any case, trimmed. Raises EditRefused.
    """
    code = code.strip()
    if not (code + (value or "")).isprintable():
        raise EditRefused("a code and its value are one line")
    try:
        rows = list(read_csv(text, TABLE))
    except DocumentRefused as refused:
        raise EditRefused(f"the code table is not CSV: {refused.reason}") from None
    if not any(any(row) for _, row in rows):
        return () if value is None else (TextEdit(0, len(text), _table(code, value)),)
    header = [cell.strip().lower() for cell in rows[0][1]]
    if not set(COLUMNS) <= set(header):
        raise EditRefused("the code table does not begin with the columns code,value")
    at, value_at = (header.index(column) for column in COLUMNS)
    before = rows[0][0]
    for line, row in rows[1:]:
        if len(row) > at and row[at].strip().upper() == code.upper():
            start, end = _extent(text, before, line)
            if value is None:
                return (TextEdit(start, min(len(text), end + len(_line_end(text))), ""),)
            cells = [*row, *[""] * (len(header) - len(row))]
            cells[value_at] = value
            return (TextEdit(start, end, _line(cells)),)
        before = line
    if value is None:
        raise EditRefused("the code table has no entry for this code")
    entry = [""] * len(header)
    entry[at], entry[value_at] = code, value
    end = len(text.rstrip())
    return (TextEdit(end, len(text), f"{_line_end(text)}{_line(entry)}{_line_end(text)}"),)


def _table(code: str, value: str) -> str:
    return f"{_line(list(COLUMNS))}\n{_line([code, value])}\n"


def _line(cells: list[str]) -> str:
    out = StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _extent(text: str, before: int, line: int) -> tuple[int, int]:
    """Return the offsets of the lines after `before` up to `line`, without the last line end."""
    ends = [at for at, character in enumerate(text) if character == "\n"]
    start = ends[before - 1] + 1 if before else 0
    end = ends[line - 1] if line <= len(ends) else len(text)
    return start, end - (1 if text[start:end].endswith("\r") else 0)
