"""Code tables: CSV files `codes/NAME.csv` with the columns `code` and `value`.

Looked up by code (any case, ends trimmed) on the way in, by value on the way out: the
first row with that value wins. Further columns are the author's remarks. No files here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mappings.language.definition_files import warn_if_not_utf8
from mappings.language.diagnostics import Diagnostics, Sources, YamlNode
from parsers.csv import read_rows
from parsers.errors import DocumentRefused
from parsers.limits import TABLE

FOLDER = "codes/"
COLUMNS = ("code", "value")


class UnmappedCode(NamedTuple):
    """
    A code that a message had and a table has not, where it stood, and what becomes of it.

    `back`: it was looked up as a value, from right to left.
    """

    table: str
    code: str
    place: str
    policy: str
    back: bool = False


@dataclass(frozen=True, slots=True)
class CodeTable:
    """A two-way table."""

    name: str
    forward: Mapping[str, str]
    backward: Mapping[str, str]

    def value(self, code: str) -> str | None:
        """Translate a sender's code; None when the table has no such row."""
        return self.forward.get(code.strip().upper())

    def code(self, value: str) -> str | None:
        """Translate back; None when no row has this value."""
        return self.backward.get(value.strip().upper())


def file_of(name: str) -> str:
    """Name the file of a table."""
    return f"{FOLDER}{name}.csv"


def names(sources: Sources) -> list[str]:
    """List the tables of a folder."""
    return sorted(
        file.removeprefix(FOLDER).removesuffix(".csv")
        for file in sources
        if file.startswith(FOLDER) and file.endswith(".csv")
    )


def read_table(sources: Sources, name: str, notebook: Diagnostics) -> CodeTable:
    """Read a table that exists; its mistakes become issues with their lines."""
    file = file_of(name)
    forward: dict[str, str] = {}
    backward: dict[str, str] = {}
    warn_if_not_utf8(sources[file], file, notebook)
    try:
        rows = read_rows(sources[file], TABLE)
        _, names_of_columns = next(rows, (1, []))
        header = [cell.strip().lower() for cell in names_of_columns]
        if not set(COLUMNS) <= set(header):
            notebook.error(
                YamlNode(None, file, 1, 1), "codes", "the columns code,value are expected"
            )
            return CodeTable(name, forward, backward)
        for line, row in rows:
            _add(row, header, YamlNode(None, file, line, 1), notebook, forward, backward)
    except DocumentRefused as refused:
        place = YamlNode(None, file, max(1, refused.line), 1)
        notebook.error(place, "codes", refused.reason)
    return CodeTable(name, forward, backward)


def _add(
    row: list[str],
    header: list[str],
    place: YamlNode,
    notebook: Diagnostics,
    forward: dict[str, str],
    backward: dict[str, str],
) -> None:
    if not any(row):
        return
    if len(row) < len(COLUMNS):
        notebook.error(place, "codes", "this line has no value")
        return
    if any(row[len(header) :]):
        notebook.warn(place, "codes", 'more cells than columns: a comma within a value wants "…"')
    cells = dict(zip(header, (cell.strip() for cell in row), strict=False))
    code, value = cells.get("code", "").upper(), cells.get("value", "")
    if forward.get(code, value) != value:
        notebook.error(place, "codes", "this code stands in an earlier line with another value")
    forward.setdefault(code, value)
    backward.setdefault(value.upper(), cells.get("code", ""))
