"""
The clinicalInfo tags of an order: merging of later values, and the search text.

Identity (SiteID, SiteLocation, PatientMRN, Accession) and Metadata are stored separately.
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
