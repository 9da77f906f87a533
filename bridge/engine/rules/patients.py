"""
Comparison of patients by name and date of birth, and of a DICOM file with an order.

Names are folded and compared group by group, so that `DOE^JOHN` and `Doe John` are equal. A date is
compared only if its format is unambiguous. A file contradicts an order by PatientID, name or date
of birth; a missing value contradicts nothing.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import date

from mappings.hl7.person_names import are_compatible, is_name, share_script

_DATE = re.compile(
    r"(?P<year>\d{4})(?P<dash>-?)(?P<month>\d{2})(?P=dash)(?P<day>\d{2})(?:[T ]?\d.*)?$"
)
_FIRST_YEAR = 1800


def folded_name(name: str) -> str:
    """Fold a name for comparison: NFC, case, `^` and `=` and spaces as one space."""
    plain = unicodedata.normalize("NFC", name).casefold()
    return " ".join(plain.replace("^", " ").replace("=", " ").split())


def same_name(one: str, other: str) -> bool:
    """
    Tell whether two names are equal; a missing name equals no other.

    The component groups of a DICOM person name (`Yamada^Tarou=山田^太郎`) spell one name in several
    scripts. If both names have an ideographic group, only these groups are compared; else one
    common group is sufficient.
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
    """Tell whether two names contradict each other; a missing name contradicts none."""
    return bool(folded_name(known) and folded_name(given)) and not same_name(known, given)


def unambiguous_date(text: str) -> date | None:
    """
    Parse DICOM DA (`19750201`), HL7 with a time, or ISO (`1975-02-01`); None for other texts.

    `01021975` is ambiguous, and a year before 1800 indicates such a form: both give None.
    """
    found = _DATE.match(text.strip())
    if not found or int(found["year"]) < _FIRST_YEAR:
        return None
    try:
        return date(int(found["year"]), int(found["month"]), int(found["day"]))
    except ValueError:
        return None


def same_birth_date(one: str, other: str) -> bool:
    """Tell whether two dates of birth are the same; a missing date equals no other."""
    first, second = unambiguous_date(one), unambiguous_date(other)
    if first and second:
        return first == second
    return bool(one.strip()) and one.strip() == other.strip()


def same_patient(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Tell whether two orders' tags name one patient (interface reference, link-orders rule 5)."""
    return same_name(one.get("PatientName", ""), other.get("PatientName", "")) and same_birth_date(
        one.get("PatientBirthDate", ""), other.get("PatientBirthDate", "")
    )


MRN, NAME, BIRTH_DATE = "PatientMRN", "PatientName", "PatientBirthDate"


def contradictions(
    file: Mapping[str, str],
    *,
    mrns: Iterable[str],
    names: Iterable[str],
    birth_dates: Iterable[str],
) -> tuple[str, ...]:
    """
    Return the tags by which a file contradicts the known values of a patient.

    Several known values are alternatives: the file must match one of them.
    """
    known_ids = {each.strip() for each in mrns} - {""}
    given_id = file.get(MRN, "").strip()
    found = [MRN] if given_id and known_ids and given_id not in known_ids else []
    known_names = [each for each in names if is_name(each)]
    given_name = file.get(NAME, "")
    if is_name(given_name) and known_names:
        same_id = bool(given_id) and given_id in known_ids
        if not any(_may_be_same_person(given_name, each, same_id=same_id) for each in known_names):
            found.append(NAME)
    dates = {day for each in birth_dates if (day := unambiguous_date(each))}
    born = unambiguous_date(file.get(BIRTH_DATE, ""))
    if born and dates and born not in dates:
        found.append(BIRTH_DATE)
    return tuple(found)


def _may_be_same_person(one: str, other: str, *, same_id: bool) -> bool:
    """Compare names; names in different scripts match only if the patient ids match."""
    if not share_script(one, other):
        return same_id
    return are_compatible(one, other, same_id=same_id)
