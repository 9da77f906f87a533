"""
The clinicalInfo tags of an order: how a later message changes them, and what a search looks at.

Identity (SiteID, SiteLocation, PatientMRN, Accession) and Metadata are kept apart from the tags.
"""

from collections.abc import Mapping
from typing import Any

from bridge.engine.rules.patients import folded_name
from mappings.language.transforms import age_at

IDENTITY = ("SiteID", "SiteLocation", "PatientMRN", "Accession")
PATIENT = ("PatientName", "PatientBirthDate", "PatientAge", "PatientSex", "Race", "Ethnicity")
_SEARCHED = ("PatientName", "StudyDescription", "Modality", "BodyPartExamined", "ProcedureCode")


def merged_tags(
    known: Mapping[str, Any], given: Mapping[str, Any], *, clears: bool
) -> dict[str, Any]:
    """
    Return an order's tags after a message: values win over what was known.

    An empty value leaves a tag as it is, or, where `clears` says so, removes it.
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
    Return an order's tags after its patient's demographics were corrected; empty values clear.

    An age that was told goes by another date of birth then: it is reckoned anew, or goes.
    """
    tags = merged_tags(known, given, clears=True)
    reborn = tags.get("PatientBirthDate") != known.get("PatientBirthDate")
    if reborn and tags.get("PatientAge") and not given.get("PatientAge"):
        age = age_at(str(tags.get("PatientBirthDate", "")), str(tags.get("StudyDate", "")))
        return merged_tags(tags, {"PatientAge": age}, clears=True)
    return tags


def search_text(mrn: str, accession: str, tags: Mapping[str, Any]) -> str:
    """Return the folded text that the worklist's `q` looks through."""
    parts = [mrn, accession, *(str(tags.get(name, "")) for name in _SEARCHED)]
    return folded_name(" ".join(parts))
