"""
An order: its key, its clinicalInfo tags, and its priority.

A launch is refused if a patient identifier is an e-mail address or the identity of the user
(interface reference, Authentication 8). Identity (SiteID, SiteLocation, PatientMRN, Accession) and
Metadata are stored apart from the tags. The priority is a code of HL7 table 0485 in the member
`Priority` of the Metadata; words that senders use are converted, other values are kept.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from bridge.contract import OrderKey
from bridge.engine.rules.patients import folded_name
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
    local_parts = {each.partition("@")[0].casefold() for each in emails}
    return frozenset({_folded(each) for each in emails | names} | local_parts) - {""}


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
