"""
Who assigned an identifier (CX-4), and whether two of them were assigned by different ones.

A number says nothing without its authority: two hospitals number alike (HL7 v2.5.1 §2A.14.4).
"""

from typing import NamedTuple

from mappings.fetch import NULL
from mappings.scope import Scope


class Identifier(NamedTuple):
    """A repetition of type CX: its number, its authority's name and universal id, its type."""

    number: str
    namespace: str
    universal: str
    kind: str

    @property
    def assigned(self) -> bool:
        """Whether it says by whom."""
        return bool(self.namespace or self.universal)

    def differs(self, other: "Identifier") -> bool:
        """Whether both say by whom, and not by the same; universal ids decide if both have one."""
        if self.universal and other.universal:
            return self.universal != other.universal
        return bool(self.namespace and other.namespace) and self.namespace != other.namespace


def identifiers(scope: Scope, segment: str, field: int) -> list[Identifier]:
    """Read all identifiers of a field, in order; names of authorities in one case."""
    parts = (f"{field}.1", f"{field}.4.1", f"{field}.4.2", f"{field}.5")
    return [
        Identifier(_said(number), _said(namespace).casefold(), _said(universal), _said(kind))
        for row in map(scope.message.segment, scope.every(segment))
        for number, namespace, universal, kind in zip(*map(row.values, parts), strict=True)
    ]


def _said(text: str) -> str:
    return "" if text.strip() == NULL else text.strip()


def reassigned(scope: Scope, prior: str, now: str) -> str | None:
    """
    Give the prior number that was assigned by whoever assigned the one of now.

    That is `prior` unless its authority is another; then the first of its type in MRG-1 that the
    right one assigned; None where there is none.
    """
    before = [each for each in identifiers(scope, "MRG", 1) if each.number]
    mine = [each for each in before if each.number == prior]
    ours = [each for each in identifiers(scope, "PID", 3) if each.number == now]
    if not mine or not ours or any(not one.differs(own) for one in mine for own in ours):
        return prior
    kinds = {each.kind for each in mine}
    for each in before:
        if each.assigned and each.kind in kinds and any(not each.differs(own) for own in ours):
            return each.number
    return None


def _is_anothers(one: Identifier, ours: list[Identifier]) -> bool:
    """Whether one was assigned by somebody else than all of ours were."""
    return bool(ours) and all(one.differs(own) for own in ours)


def alike(scope: Scope, prior: str, now: str) -> list[str]:
    """
    Give the other prior numbers that MRG-1 names of the type and authority of one of them.

    Senders list all that a merge retires. Numbers of no type are of no kind: they may be anything.
    """
    before = [each for each in identifiers(scope, "MRG", 1) if each.number not in ("", NULL)]
    ours = [each for each in identifiers(scope, "PID", 3) if each.number == now]
    chosen = next(
        (each for each in before if each.number == prior and not _is_anothers(each, ours)), None
    )
    if chosen is None or not chosen.kind:
        return []
    found = [each.number for each in before if each[1:] == chosen[1:]]
    return [number for number in dict.fromkeys(found) if number not in (prior, now)]
