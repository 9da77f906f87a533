"""Patient identifiers of type CX: number, assigning authority, type (HL7 v2.5.1 §2A.14)."""

from collections.abc import Sequence
from typing import NamedTuple

from mappings.hl7.elements import without_null
from mappings.language.scope import MessageScope


class Identifier(NamedTuple):
    """A repetition of type CX: number, namespace and universal id of the authority, type."""

    number: str
    namespace: str
    universal: str
    kind: str

    @property
    def assigned(self) -> bool:
        return bool(self.namespace or self.universal)

    def differs_in_authority(self, other: "Identifier") -> bool:
        """
        True if both have an authority and the authorities differ. Universal ids take
        precedence.
        """
        if self.universal and other.universal:
            return self.universal != other.universal
        return bool(self.namespace and other.namespace) and self.namespace != other.namespace


def read_identifiers(scope: MessageScope, segment: str, field: int) -> Sequence[Identifier]:
    """
    Return the identifiers of a field, in order, with authority names in lower case. A field is
    parsed once for each scope: a small message may have thousands of repetitions.
    """
    found: Sequence[Identifier] | None = scope.parsed.get((segment, field))
    if found is None:
        found = scope.parsed[segment, field] = _parsed_identifiers(scope, segment, field)
    return found


def _parsed_identifiers(scope: MessageScope, segment: str, field: int) -> list[Identifier]:
    parts = (f"{field}.1", f"{field}.4.1", f"{field}.4.2", f"{field}.5")
    rows = map(scope.message.segment, scope.all_positions(segment))
    repetitions = [each for row in rows for each in zip(*map(row.values, parts), strict=True)]
    return [
        Identifier(number, namespace.casefold(), universal, kind)
        for number, namespace, universal, kind in [map(without_null, each) for each in repetitions]
    ]


MAX_OTHER_NUMBERS = 50
"""Numbers beside the patient's own one. A small message may have thousands of repetitions."""


def other_numbers(scope: MessageScope, mrn: str) -> tuple[str, ...]:
    """
    Return the other numbers in PID-3 with the type and the authority of the patient's number.

    They identify the same person. A number with neither type nor authority is not used.
    """
    if not mrn or not _repeats(scope):
        return ()
    found = read_identifiers(scope, "PID", 3)
    own = [each for each in found if each.number == mrn and (each.kind or each.assigned)]
    others = (
        each.number
        for each in found
        if each.number not in {"", mrn}
        and (each.kind or each.assigned)
        and any(each.kind == known.kind and not each.differs_in_authority(known) for known in own)
    )
    return tuple(dict.fromkeys(others))[:MAX_OTHER_NUMBERS]


def _repeats(scope: MessageScope) -> bool:
    """True if PID-3 has repetitions. Most messages have one identifier."""
    mark = scope.delimiters.repetition
    rows = map(scope.message.segment, scope.all_positions("PID"))
    return bool(mark) and any(mark in row.field_text(3) for row in rows)
