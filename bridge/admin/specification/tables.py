"""The code tables of a definition, as a partner needs them."""

import csv
from collections.abc import Mapping
from typing import Final

from bridge.admin.specification.model import CodeRow, CodeTableSpecification
from mappings.language.code_tables import table_file, table_names
from mappings.language.outline import Outline

_MAX_ROWS: Final = 2_000
_UNKNOWN: Final = {
    "refuse": "A message with another code is refused.",
    "empty": "Another code counts as no value.",
    "keep": "Another code is kept as sent.",
}


def code_tables(sources: Mapping[str, str], outline: Outline) -> dict[str, CodeTableSpecification]:
    """Return the tables that the rules of a definition name, by name."""
    found: dict[str, CodeTableSpecification] = {}
    for rule in outline.rules:
        for modifiers in (rule.modifiers, *(source.modifiers for source in rule.sources)):
            name = modifiers.get("codes", "")
            if name and table_file(name) in sources and name not in found:
                note = _UNKNOWN.get(modifiers.get("unknown", ""), "")
                found[name] = CodeTableSpecification(name, _rows(sources, name), note)
    return found


def first_codes(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the first code of each table."""
    return {name: rows[0].code for name in table_names(sources) if (rows := _rows(sources, name))}


def _rows(sources: Mapping[str, str], name: str) -> list[CodeRow]:
    """Read a table that was compiled, so its form is valid."""
    rows = csv.DictReader(sources[table_file(name)].splitlines())
    found = []
    for row in rows:
        cells = {str(key).strip().lower(): (value or "") for key, value in row.items() if key}
        code = str(cells.get("code", "")).strip()
        if code:
            value, remark = str(cells.get("value", "")), str(cells.get("remark", ""))
            found.append(CodeRow(code, value.strip(), remark.strip()))
        if len(found) >= _MAX_ROWS:
            break
    return found
