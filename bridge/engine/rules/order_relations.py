"""
Relations between orders: linked reports (interface reference, link-orders) and prior studies.

The functions for linking return the first broken rule. Priors are ranked by similarity and date.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bridge.contract.errors import ErrorCode
from bridge.engine.rules.lifecycle import SIGNED, Status
from bridge.engine.rules.patients import same_patient, unambiguous_date

MIN_LINKED_ORDERS = 2


@dataclass(frozen=True, slots=True)
class Candidate:
    """The state of one requested order: its report, and its index in the request."""

    place: int
    report_id: str
    status: Status
    has_content: bool
    is_anchor: bool  # of its link group
    mrn: str = field(repr=False)
    patients: Sequence[Mapping[str, Any]] = field(repr=False)  # tags of its orders with PatientMRN


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A broken rule and the index of the order that breaks it."""

    reason: ErrorCode
    place: int


def already_linked(candidates: Sequence[Candidate]) -> bool:
    """True if all orders share one report already (rule 8)."""
    return len({each.report_id for each in candidates}) == 1


def refuse_link(anchor: Candidate, others: Sequence[Candidate]) -> BrokenRule | None:
    """Return the first broken rule, None when all may be linked to the anchor's report."""
    if reason := _refuse_anchor(anchor):
        return BrokenRule(reason, anchor.place)
    for other in others:
        if other.report_id == anchor.report_id:
            continue
        if reason := _refuse_other(other) or _refuse_patient(anchor, other):
            return BrokenRule(reason, other.place)
    return None


def _refuse_anchor(anchor: Candidate) -> ErrorCode | None:
    if anchor.status in SIGNED:
        return ErrorCode.REPORT_SIGNED  # rule 2
    if not anchor.is_anchor:
        return ErrorCode.ANCHOR_IN_ANOTHER_GROUP  # rule 3
    if anchor.status not in (Status.ORDERED, Status.DRAFT):
        return ErrorCode.ANCHOR_NOT_ORDERED_OR_DRAFT  # rule 1
    if anchor.status is Status.ORDERED and anchor.has_content:
        return ErrorCode.ANCHOR_HAS_CONTENT  # rule 7
    return None


def _refuse_other(other: Candidate) -> ErrorCode | None:
    if other.status in SIGNED:
        return ErrorCode.REPORT_SIGNED  # rule 2
    if other.status is not Status.ORDERED:
        return ErrorCode.ORDER_NOT_ORDERED  # rules 1 and 7
    return ErrorCode.ORDER_HAS_CONTENT if other.has_content else None


def _refuse_patient(anchor: Candidate, other: Candidate) -> ErrorCode | None:
    """Apply rule 5: another PatientMRN is permitted if name and birth date match the anchor."""
    anchor_tags = anchor.patients[0]
    for tags in other.patients:
        if tags.get("PatientMRN") != anchor.mrn and not same_patient(anchor_tags, tags):
            return ErrorCode.PATIENTS_DIFFER
    return None


def refuse_unlink(status: Status, *, has_content: bool) -> ErrorCode | None:
    """Return why a group cannot be unlinked, None if it can (unlink-orders, rule 1)."""
    if status in SIGNED:
        return ErrorCode.REPORT_SIGNED
    if status is not Status.ORDERED:
        return ErrorCode.GROUP_NOT_ORDERED
    return ErrorCode.GROUP_HAS_CONTENT if has_content else None


AUTO_COMPARED = 3
"""Number of priors that the app opens for comparison."""


@dataclass(frozen=True, slots=True)
class Study:
    """The anchor order of a report: tags, and the time of signing (ms since the epoch)."""

    tags: Mapping[str, Any]
    signed_at: int = 0

    @property
    def day(self) -> str:
        """The study date in ISO 8601, empty if it is missing or ambiguous."""
        found = unambiguous_date(str(self.tags.get("StudyDate", "")))
        return found.isoformat() if found else ""

    def similarity(self, other: "Study") -> int:
        """Return the number of equal attributes: modality and body part."""
        return sum(
            bool(_folded_tag(self, name)) and _folded_tag(self, name) == _folded_tag(other, name)
            for name in ("Modality", "BodyPartExamined")
        )


def _folded_tag(study: Study, name: str) -> str:
    return str(study.tags.get(name, "")).strip().casefold()


def rank_priors(current: Study, others: Sequence[Study]) -> list[int]:
    """Return the indexes of the priors among `others`, the best comparison first."""
    earlier = [
        index
        for index, other in enumerate(others)
        if not (current.day and other.day and other.day > current.day)
    ]
    return sorted(
        earlier,
        key=lambda index: (
            current.similarity(others[index]),
            others[index].day,
            others[index].signed_at,
            index,
        ),
        reverse=True,
    )
