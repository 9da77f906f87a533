"""
Comparison of patients by name and date of birth, and of a DICOM file with an order.

Names are folded and compared group by group, so that `DOE^JOHN` and `Doe John` are equal. A date is
compared only if its format is unambiguous. A missing value contradicts nothing.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from mappings.hl7.person_names import are_compatible, is_name, share_script

_DATE = re.compile(
    r"(?P<year>\d{4})(?P<dash>-?)(?P<month>\d{2})(?P=dash)(?P<day>\d{2})(?:[T ]?\d.*)?$"
)
_FIRST_YEAR = 1800
_AUTHORITY = 2  # CX.4, counted after CX.1


def folded_name(name: str) -> str:
    """Fold a name for comparison: NFC, case, `^` and `=` and spaces as one space."""
    plain = unicodedata.normalize("NFC", name).casefold()
    return " ".join(plain.replace("^", " ").replace("=", " ").split())


def same_name(one: str, other: str) -> bool:
    """
    True if two names are equal; a missing name equals no other.

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
    found = [folded_name(part) for part in name.split("=")]
    return found + [""] * (3 - len(found))


def names_conflict(known: str, given: str) -> bool:
    """True if two names contradict each other; a missing name contradicts none."""
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
    """True if two dates of birth are the same; a missing date equals no other."""
    first, second = unambiguous_date(one), unambiguous_date(other)
    if first and second:
        return first == second
    return bool(one.strip()) and one.strip() == other.strip()


def same_patient(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """True if two orders' tags name one patient (interface reference, link-orders rule 5)."""
    return same_name(one.get("PatientName", ""), other.get("PatientName", "")) and same_birth_date(
        one.get("PatientBirthDate", ""), other.get("PatientBirthDate", "")
    )


MRN, NAME, BIRTH_DATE = "PatientMRN", "PatientName", "PatientBirthDate"


@dataclass(frozen=True, slots=True)
class PatientComparison:
    """The tags in which a file differs from a patient, and whether it is another patient's file."""

    tags: tuple[str, ...]
    other_patient: bool


def compare_patient(
    file: Mapping[str, str],
    *,
    mrns: Iterable[str],
    names: Iterable[str],
    birth_dates: Iterable[str],
    id_is_given: bool = True,
) -> PatientComparison:
    """
    Compare the tags of a file with the known values of a patient.

    Several known values are alternatives: the file must match one of them. With the PatientID of
    the order, another name or another birth date alone is an error in one of the two: the file is
    this patient's, and clinicalInfo overrides its values (interface reference, launch). Both
    together, another PatientID, or a difference without a PatientID mean another patient.
    `id_is_given` is false if the order has its identifier from the files: then it proves nothing.
    """
    known_ids = [mrn for mrn in mrns if mrn.strip()]
    given_id = file.get(MRN, "").strip()
    same_id = any(_same_identifier(given_id, identifier) for identifier in known_ids)
    found = [MRN] if given_id and known_ids and not same_id else []
    known_names = [name for name in names if is_name(name)]
    given_name = file.get(NAME, "")
    if known_names and is_name(given_name):
        names_match = (
            _may_be_same_person(given_name, name, same_id=same_id) for name in known_names
        )
        if not any(names_match):
            found.append(NAME)
    dates = {day for birth_date in birth_dates if (day := unambiguous_date(birth_date))}
    born = unambiguous_date(file.get(BIRTH_DATE, ""))
    if born and dates and born not in dates:
        found.append(BIRTH_DATE)
    is_other = len(found) > (1 if same_id and id_is_given else 0)
    return PatientComparison(tuple(found), is_other)


def _same_identifier(given: str, known: str) -> bool:
    """
    Compare two patient identifiers; `123^^^HOSPITAL` names the assigning authority of `123`.

    Case and leading zeros belong to the identifier. A missing authority contradicts none.
    """
    (number, *more), (other, *others) = (text.strip().split("^") for text in (given, known))
    if not number.strip() or number.strip() != other.strip():
        return False
    authorities = {rest[2].strip() for rest in (more, others) if len(rest) > _AUTHORITY} - {""}
    return len(authorities) <= 1


def _may_be_same_person(one: str, other: str, *, same_id: bool) -> bool:
    """Compare names; names in different scripts match only if the patient ids match."""
    if not share_script(one, other):
        return same_id
    return are_compatible(one, other, same_id=same_id)
