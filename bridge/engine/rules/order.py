"""
An order: its key, its clinicalInfo tags, its priority, its linked orders and its prior studies.

A launch is refused if a patient identifier is an e-mail address or the identity of the user
(interface reference, Authentication 8). Identity (SiteID, SiteLocation, PatientMRN, Accession) and
Metadata are stored apart from the tags. The priority is a code of HL7 table 0485 in the member
`Priority` of the Metadata; words that senders use are converted, other values are kept.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from bridge.contract import SIGNED, OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.rules.patients import folded_name, same_patient, unambiguous_date
from bridge.index_key import keyed_text
from mappings.language.transforms import age_at

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")


def looks_like_email(text: str) -> bool:
    """True if a text is an e-mail address."""
    return "@" in text and _EMAIL.fullmatch(text.strip()) is not None


def is_placeholder(identifier: str, *, emails: frozenset[str], names: frozenset[str]) -> bool:
    """
    True if a patient identifier is a placeholder.

    `emails` and `names` are those of the caller and of the user for whom the caller launches.
    """
    folded = _folded(identifier)
    return bool(folded) and (looks_like_email(folded) or folded in _user_identities(emails, names))


@lru_cache(maxsize=256)
def _user_identities(emails: frozenset[str], names: frozenset[str]) -> frozenset[str]:
    """Return the folded identities of users: names, addresses, local parts."""
    local_parts = {email.partition("@")[0].casefold() for email in emails}
    return frozenset({_folded(name) for name in emails | names} | local_parts) - {""}


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def link_target(identity: OrderKey) -> str:
    """Return a keyed hash of an order, to find its links without storing its identifiers."""
    text = f"{identity.site}\x1f{identity.mrn}\x1f{identity.accession}"
    return keyed_text(hashlib.sha256(text.encode()).hexdigest())


IDENTITY = ("SiteID", "SiteLocation", "PatientMRN", "Accession")
PATIENT = ("PatientName", "PatientBirthDate", "PatientAge", "PatientSex", "Race", "Ethnicity")
_SEARCHED = ("PatientName", "StudyDescription", "Modality", "BodyPartExamined", "ProcedureCode")


def merged_tags(
    known: Mapping[str, Any], given: Mapping[str, Any], *, clears: bool
) -> dict[str, Any]:
    """
    Return the tags of an order with the given values merged in.

    An empty value removes the tag if `clears` is true, and is ignored otherwise.
    """
    merged = dict(known)
    for name, value in given.items():
        if name in IDENTITY:
            continue
        if value != "":
            merged[name] = value
        elif clears:
            merged.pop(name, None)
    return merged


def corrected_tags(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the tags of an order with corrected demographics; empty values remove tags.

    If the date of birth changes and no age is given, the age is computed again or removed.
    """
    tags = merged_tags(known, given, clears=True)
    birth_date_changed = tags.get("PatientBirthDate") != known.get("PatientBirthDate")
    if birth_date_changed and tags.get("PatientAge") and not given.get("PatientAge"):
        age = age_at(str(tags.get("PatientBirthDate", "")), str(tags.get("StudyDate", "")))
        return merged_tags(tags, {"PatientAge": age}, clears=True)
    return tags


def search_text(mrn: str, accession: str, tags: Mapping[str, Any]) -> str:
    """Return the folded text that the worklist searches for `q`."""
    parts = [mrn, accession, *(str(tags.get(name, "")) for name in _SEARCHED)]
    return folded_name(" ".join(parts))


_PRIORITY: Final = "Priority"
"""The member of an order's Metadata that has the priority."""


class Priority(StrEnum):
    """The codes of HL7 table 0485, the most urgent first."""

    STAT = "S"
    ASAP = "A"
    TIMING_CRITICAL = "T"
    CALLBACK = "C"
    PREOPERATIVE = "P"
    ROUTINE = "R"
    AS_NEEDED = "PRN"


_MOST_URGENT_FIRST: Final = tuple(code.value for code in Priority)
_WORDS: Final = {
    "STAT": "S",
    "EMERGENCY": "S",
    "EMERGENT": "S",
    "ASAP": "A",
    "URGENT": "A",
    "HIGH": "A",
    "TIMING CRITICAL": "T",
    "CALLBACK": "C",
    "PREOP": "P",
    "PRE-OP": "P",
    "PREOPERATIVE": "P",
    "ROUTINE": "R",
    "NORMAL": "R",
    "ELECTIVE": "R",
    "AS NEEDED": "PRN",
}


PRIORITY_RANKS: Final[Mapping[str, int]] = {
    **{code: rank for rank, code in enumerate(_MOST_URGENT_FIRST)},
    **{word: _MOST_URGENT_FIRST.index(code) for word, code in _WORDS.items()},
}
"""The ranks of the codes and words in lists, in upper case; 0 is the most urgent."""

ROUTINE_RANK: Final = PRIORITY_RANKS[Priority.ROUTINE]
"""The rank of an order without a priority, or with an unknown one: it must not wait longer."""


def priority_code(order_metadata: Mapping[str, Any]) -> str | None:
    """Return the priority code of an order, None if its Metadata has none."""
    value = order_metadata.get(_PRIORITY)
    sent = value.strip() if isinstance(value, str) else ""
    code = _WORDS.get(sent.upper(), sent.upper())
    return (code if code in _MOST_URGENT_FIRST else sent) or None


def most_urgent(codes: Iterable[str | None]) -> str | None:
    """Return the most urgent of the codes of a group; values outside the table come last."""
    return min((code for code in codes if code), key=_rank, default=None)


def _rank(code: str) -> int:
    is_known = code in _MOST_URGENT_FIRST
    return _MOST_URGENT_FIRST.index(code) if is_known else len(_MOST_URGENT_FIRST)


MIN_LINKED_ORDERS = 2
"""The rules for linking (interface reference, link-orders) return the first broken rule."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The state of one requested order: its report, and its index in the request."""

    place: int
    report_id: str
    status: ReportStatus
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
    return len({candidate.report_id for candidate in candidates}) == 1


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
    if anchor.status not in (ReportStatus.ORDERED, ReportStatus.DRAFT):
        return ErrorCode.ANCHOR_NOT_ORDERED_OR_DRAFT  # rule 1
    if anchor.status is ReportStatus.ORDERED and anchor.has_content:
        return ErrorCode.ANCHOR_HAS_CONTENT  # rule 7
    return None


def _refuse_other(other: Candidate) -> ErrorCode | None:
    if other.status in SIGNED:
        return ErrorCode.REPORT_SIGNED  # rule 2
    if other.status is not ReportStatus.ORDERED:
        return ErrorCode.ORDER_NOT_ORDERED  # rules 1 and 7
    return ErrorCode.ORDER_HAS_CONTENT if other.has_content else None


def _refuse_patient(anchor: Candidate, other: Candidate) -> ErrorCode | None:
    """Apply rule 5: another PatientMRN is permitted if name and birth date match the anchor."""
    anchor_tags = anchor.patients[0]
    for tags in other.patients:
        if tags.get("PatientMRN") != anchor.mrn and not same_patient(anchor_tags, tags):
            return ErrorCode.PATIENTS_DIFFER
    return None


def refuse_unlink(status: ReportStatus, *, has_content: bool) -> ErrorCode | None:
    """Return why a group cannot be unlinked, None if it can (unlink-orders, rule 1)."""
    if status in SIGNED:
        return ErrorCode.REPORT_SIGNED
    if status is not ReportStatus.ORDERED:
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
