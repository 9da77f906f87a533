"""
When two names, or two dates of birth, are those of one patient.

Names are compared after folding, so that `DOE^JOHN` and `Doe John` are one, group by group; dates
only by what they certainly say. Nothing here looks at a patient identifier.
"""

import re
import unicodedata
from collections.abc import Mapping
from datetime import date

_DATE = re.compile(
    r"(?P<year>\d{4})(?P<dash>-?)(?P<month>\d{2})(?P=dash)(?P<day>\d{2})(?:[T ]?\d.*)?$"
)


def folded_name(name: str) -> str:
    """Fold a name for comparison: NFC, case, `^` and `=` and spaces as one space."""
    plain = unicodedata.normalize("NFC", name).casefold()
    return " ".join(plain.replace("^", " ").replace("=", " ").split())


def same_name(one: str, other: str) -> bool:
    """
    Tell whether two names are alike; a missing name is like no other.

    The component groups of a DICOM person name (`Yamada^Tarou=山田^太郎`) spell one name in several
    scripts. Where both names have an ideographic group, that one decides; else one group that both
    have is enough.
    """
    folded = folded_name(one)
    if not folded:
        return False
    if folded == folded_name(other):
        return True
    groups, others = _groups(one), _groups(other)
    if groups[1] and others[1]:
        return groups[1] == others[1]
    return bool({*groups} & {*others} - {""})


def _groups(name: str) -> list[str]:
    """Return the folded groups of a name: alphabetic, ideographic, phonetic."""
    found = [folded_name(each) for each in name.split("=")]
    return found + [""] * (3 - len(found))


def names_conflict(known: str, given: str) -> bool:
    """Tell whether a launch's PatientName contradicts a known one; a missing one never does."""
    return bool(folded_name(known) and folded_name(given)) and not same_name(known, given)


def certain_date(text: str) -> date | None:
    """
    Read DICOM DA (`19750201`), HL7 with a time behind it, or ISO (`1975-02-01`); else None.

    `01021975` could be two dates, and years before 1800 hint at such a form: neither is read.
    """
    found = _DATE.match(text.strip())
    if not found or int(found["year"]) < _OLDEST:
        return None
    try:
        return date(int(found["year"]), int(found["month"]), int(found["day"]))
    except ValueError:
        return None


_OLDEST = 1800


def same_birth_date(one: str, other: str) -> bool:
    """Tell whether two dates of birth are the same; a missing one is like no other."""
    first, second = certain_date(one), certain_date(other)
    if first and second:
        return first == second
    return bool(one.strip()) and one.strip() == other.strip()


def same_patient(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Tell whether two orders' tags name one patient (interface document, link-orders rule 5)."""
    return same_name(one.get("PatientName", ""), other.get("PatientName", "")) and same_birth_date(
        one.get("PatientBirthDate", ""), other.get("PatientBirthDate", "")
    )
