"""
Billing codes from a site's own code maps; no code is shipped and none is guessed.

A CPT row matches the order's ProcedureCode, else its StudyDescription. An ICD-10 row matches a
phrase in the exam's reason or in the report that is not denied there (`negation`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bridge.engine.rules.negation import affirms, split


class CodeSystem(StrEnum):
    """Which codes a row of a code map gives."""

    CPT = "cpt"
    ICD10 = "icd10"


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One row of a code map: what it matches, and the code that follows."""

    system: CodeSystem
    match: str
    code: str
    description: str


def derive(
    rows: Sequence[CodeRow], orders: Sequence[Mapping[str, Any]], content: str
) -> dict[str, Any]:
    """Return `{cpt: {Code, Description} | None, icd10: [{Code, Description}]}` for a report."""
    cpt = {row.match.casefold(): row for row in rows if row.system is CodeSystem.CPT}
    keys = (str(order.get(tag, "")).strip().casefold() for tag in _KEYS for order in orders)
    procedure = next((cpt[key] for key in keys if key in cpt), None)
    texts = [*(str(order.get("ReasonForExam", "")) for order in orders), content]
    sentences = split("\n".join(texts))
    stated = "\n".join(sentences)
    found = {
        row.code: row
        for row in rows
        if row.system is CodeSystem.ICD10
        and row.match.split()[0].casefold() in stated  # spares the patterns of a long map
        and affirms(sentences, row.match)
    }
    return {
        "cpt": None if procedure is None else _json(procedure),
        "icd10": [_json(row) for row in found.values()],
    }


_KEYS = ("ProcedureCode", "StudyDescription")


def _json(row: CodeRow) -> dict[str, str]:
    return {"Code": row.code, "Description": row.description}
