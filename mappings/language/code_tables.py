"""
Code tables: CSV files `codes/NAME.csv` with the columns `code` and `value`.

Inbound rules look up the code (any case, trimmed), outbound rules the value; the first row with the
value applies. Other columns are remarks. This module works on texts and does not read files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mappings.language.definition_files import warn_if_not_utf8
from mappings.language.diagnostics import Diagnostics, Issue, IssueSeverity, Sources, YamlNode
from parsers.limits import TABLE, DocumentRefused
from parsers.readers import read_csv

FOLDER = "codes/"
COLUMNS = ("code", "value")


class UnmappedCode(NamedTuple):
    """
    A code that a code table does not contain: the table, the code, its location and the policy.

    `back`: the code was looked up among the values.
    """

    table: str
    code: str
    place: str
    policy: str
    back: bool = False

    @property
    def issue(self) -> Issue:
        """The warning that an author of definitions sees; it contains the code."""
        effect = {"keep": "it is kept", "empty": "it is left out", "refuse": "it is refused"}
        text = f"the code {self.code} is not in the code table {self.table}; "
        text += effect.get(self.policy, self.policy)
        return Issue(self.place, "unmapped_code", text, IssueSeverity.WARNING)


@dataclass(frozen=True, slots=True)
class CodeTable:
    name: str
    forward: Mapping[str, str]
    backward: Mapping[str, str]

    def value(self, code: str) -> str | None:
        """Translate a code; None if the table has no such row."""
        return self.forward.get(code.strip().upper())

    def code(self, value: str) -> str | None:
        """Translate a value back to its code; None if no row has this value."""
        return self.backward.get(value.strip().upper())


def table_file(name: str) -> str:
    return f"{FOLDER}{name}.csv"


def table_names(sources: Sources) -> list[str]:
    return sorted(
        file.removeprefix(FOLDER).removesuffix(".csv")
        for file in sources
        if file.startswith(FOLDER) and file.endswith(".csv")
    )


def read_table(sources: Sources, name: str, diagnostics: Diagnostics) -> CodeTable:
    """Read a table that exists. Errors are reported with their lines."""
    file = table_file(name)
    forward: dict[str, str] = {}
    backward: dict[str, str] = {}
    warn_if_not_utf8(sources[file], file, diagnostics)
    try:
        rows = read_csv(sources[file], TABLE)
        _, names_of_columns = next(rows, (1, []))
        header = [cell.strip().lower() for cell in names_of_columns]
        if not set(COLUMNS) <= set(header):
            diagnostics.error(
                YamlNode(None, file, 1, 1), "codes", "the columns code,value are expected"
            )
            return CodeTable(name, forward, backward)
        for line, row in rows:
            _add(row, header, YamlNode(None, file, line, 1), diagnostics, forward, backward)
    except DocumentRefused as refused:
        place = YamlNode(None, file, max(1, refused.line), 1)
        diagnostics.error(place, "codes", refused.reason)
    return CodeTable(name, forward, backward)


def _add(
    row: list[str],
    header: list[str],
    place: YamlNode,
    diagnostics: Diagnostics,
    forward: dict[str, str],
    backward: dict[str, str],
) -> None:
    if not any(row):
        return
    if len(row) < len(COLUMNS):
        diagnostics.error(place, "codes", "this line has no value")
        return
    if any(row[len(header) :]):
        diagnostics.warn(place, "codes", 'more cells than columns: a value with a comma needs "…"')
    cells = dict(zip(header, (cell.strip() for cell in row), strict=False))
    code, value = cells.get("code", "").upper(), cells.get("value", "")
    if forward.get(code, value) != value:
        diagnostics.error(place, "codes", "an earlier line has another value for this code")
    forward.setdefault(code, value)
    backward.setdefault(value.upper(), cells.get("code", ""))
