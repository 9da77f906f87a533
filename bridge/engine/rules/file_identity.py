"""
Whether a DICOM file is of the patient of an order.

A file contradicts an order by its PatientID, name or date of birth. A value that the file or the
order lacks contradicts nothing. Names are compared as those of orders are
(`mappings.hl7.name_variants`).
"""

from collections.abc import Iterable, Mapping

from bridge.engine.rules.patients import certain_date
from mappings.hl7.name_variants import are_compatible, is_name, share_script

MRN, NAME, BIRTH_DATE = "PatientMRN", "PatientName", "PatientBirthDate"


def contradictions(
    file: Mapping[str, str],
    *,
    mrns: Iterable[str],
    names: Iterable[str],
    birth_dates: Iterable[str],
) -> tuple[str, ...]:
    """
    Return the tags by which a file contradicts what is known of a patient.

    Several known values are alternatives: the file has to agree with one of them.
    """
    known_ids = {each.strip() for each in mrns} - {""}
    given_id = file.get(MRN, "").strip()
    found = [MRN] if given_id and known_ids and given_id not in known_ids else []
    known_names = [each for each in names if is_name(each)]
    given_name = file.get(NAME, "")
    if is_name(given_name) and known_names:
        certain = bool(given_id) and given_id in known_ids
        if not any(_may_be_one(given_name, each, same_id=certain) for each in known_names):
            found.append(NAME)
    dates = {day for each in birth_dates if (day := certain_date(each))}
    born = certain_date(file.get(BIRTH_DATE, ""))
    if born and dates and born not in dates:
        found.append(BIRTH_DATE)
    return tuple(found)


def _may_be_one(one: str, other: str, *, same_id: bool) -> bool:
    """Compare names; those in different scripts cannot be, and contradict only without an id."""
    if not share_script(one, other):
        return same_id
    return are_compatible(one, other, same_id=same_id)
