"""Messages with a merged number: are they about the survivor, or did the merge join two people?

Pure. A wrong merge makes the number of one person lead to another one. Until it is undone, a
message of the first person must not be applied to the second one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bridge.intake.patients.demographics import (
    IDENTIFYING,
    has_other_birth_date,
    has_other_sex,
)
from bridge.store.records.merged_patients import Patient
from mappings.hl7.person_names import are_compatible, have_same_given_name, share_script
from mappings.inbound.events import OrderAction, OrderEvent

Tags = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MergedIdentity:
    """What is known of a survivor, and what was known of the merged patient before the merge."""

    survivor: Sequence[Tags]
    former: Tags = field(default_factory=dict)


def survivor_tags(demographics: Tags, at_merge: Tags, orders: Iterable[Tags]) -> Sequence[Tags]:
    """
    Return what is known of a survivor: now, and when the merge was sent.

    A sender that does not know the merge does not know later corrections either. The tags of the
    survivor's orders are used where both have no value.
    """
    known = [demographics, at_merge]
    missing = [tag for tag in IDENTIFYING if not any(tags.get(tag) for tags in known)]
    others = [{tag: tags[tag] for tag in missing if tags.get(tag)} for tags in orders]
    return [tags for tags in (*known, *others) if tags]


def is_of_other_person(event: OrderEvent, identity: MergedIdentity) -> bool:
    """
    True if an event with a merged number is about another person than the survivor.

    Orders: another date of birth, another sex, or another name. A family name may change; the given
    name may not. Corrections: another name and another date of birth, or the former value of the
    merged patient.
    """
    tags, known = event.clinical_info, identity.survivor
    other_birth_date = _differs("PatientBirthDate", tags, known)
    other_sex = _differs("PatientSex", tags, known)
    other_name = _differs("PatientName", tags, known)
    if event.action is not OrderAction.PATIENT_UPDATE:
        return other_birth_date or other_sex or other_name
    repeats = {tag: _repeats(tag, tags, identity.former) for tag in IDENTIFYING}
    return (
        (other_name and (other_birth_date or repeats["PatientName"]))
        or (other_birth_date and repeats["PatientBirthDate"])
        or (other_sex and repeats["PatientSex"])
    )


def _differs(tag: str, tags: Tags, known: Sequence[Tags]) -> bool:
    values = [each for each in known if each.get(tag)]
    return bool(tags.get(tag) and values) and all(_differ(tag, tags, each) for each in values)


def _repeats(tag: str, tags: Tags, former: Tags) -> bool:
    return bool(tags.get(tag) and former.get(tag)) and not _differ(tag, tags, former)


def _differ(tag: str, one: Tags, other: Tags) -> bool:
    if tag == "PatientBirthDate":
        return has_other_birth_date(one, other)
    if tag == "PatientSex":
        return has_other_sex(one, other)
    first, second = str(one[tag]), str(other[tag])
    if not share_script(first, second):  # the report engine compares them, too
        return False
    return not (are_compatible(first, second) or have_same_given_name(first, second))


def moves_to_merged(event: OrderEvent, survivors: Mapping[Patient, str]) -> bool:
    now = survivors.get((event.site, event.mrn))
    prior = survivors.get((event.site, event.prior_mrn), event.prior_mrn)
    is_move = event.action is OrderAction.VISIT_MOVE and event.mrn != event.prior_mrn
    return is_move and now is not None and now == prior
