"""
What is known of patients: demographics, names, merged identifiers.

The later one of an order and a correction takes precedence. A correction changes known orders.
Orders that were sent before a correction and arrive after it get the corrected values.

Patients are identified by their numbers. The names that are known under a number (spelling
variants, former names) show whether a message means another person. A wrong merge makes the number
of one person lead to another one. Until it is undone, a message of the first person must not be
applied to the second one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from bridge.orders.order import Order, Patient
from bridge.orders.rules import ADDRESSED_ACTIONS
from bridge.orders.times import (
    UNKNOWN,
    MessageTime,
    are_comparable,
    comparable_time,
    is_earlier,
)
from bridge.orders.values import as_moved_by_merge
from mappings.hl7.path import Path
from mappings.hl7.person_names import (
    are_compatible,
    has_all_forms,
    have_same_given_name,
    is_name,
    share_script,
)
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.procedures import replace_identifiers
from mappings.language.transforms import age_at
from mappings.outbound.echo import Echo

Tags = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DemographicsUpdate:
    """
    An update of a patient's demographics: when it was sent, and its tags.

    If MSH-7 cannot be trusted, `sent_at` is the time of arrival and `clock` is 0.
    """

    site: str
    mrn: str
    sent_at: int
    tags: Mapping[str, str]
    clock: int = UNKNOWN

    @property
    def sent(self) -> MessageTime | None:
        return comparable_time(self.sent_at, self.clock)


@dataclass(frozen=True, slots=True)
class MergePointer:
    """
    A merged identifier and its survivor.

    `merged_into` is what the merge named; it differs from `mrn` if that one was merged later.
    `identity` are the demographics that the merge named for the survivor. `sent` is when the last
    message about this merge was sent. Pointers that were stored by an earlier version have no
    `merged_at` (ms), no identity and no `sent`.
    """

    site: str
    prior_mrn: str
    mrn: str
    merged_into: str
    merged_at: int | None = None
    identity: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sent: MessageTime | None = None


class Separation(NamedTuple):
    """
    A number that does not lead to another one, by a message that was sent at this time.

    Of a merge and an undo of two numbers, the one that was sent later takes precedence.
    """

    site: str
    prior_mrn: str
    mrn: str
    sent: MessageTime


KnownDemographics = Mapping[Patient, DemographicsUpdate]
"""The latest demographics of patients."""

_NAME = Path.parse("PID-5")


def has_conflicting_name(
    event: OrderEvent, sent_at: MessageTime | None, demographics: KnownDemographics
) -> bool:
    """
    True if an order names its patient differently from a correction that may be later.

    A middle name or a title that one of them leaves out is no difference.
    """
    correction = demographics.get((event.site, event.mrn))
    if correction is None or event.action not in ADDRESSED_ACTIONS:
        return False
    if are_comparable(sent_at, correction.sent) and not is_earlier(sent_at, correction.sent):
        return False
    given, known = (
        _name_parts(tags.get("PatientName")) for tags in (event.clinical_info, correction.tags)
    )
    shorter, longer = sorted((given, known), key=len)
    alike = given == known or (len(shorter) > 1 and shorter <= longer)
    alike = alike or are_compatible(
        *map(str, (event.clinical_info.get("PatientName"), correction.tags.get("PatientName")))
    )
    return bool(shorter) and not alike and not names_former_identity(event, demographics)


def known_spellings(tags: Mapping[str, Any], known: Iterable[Mapping[str, Any]]) -> list[str]:
    """
    Return the known names of a patient that are spelling variants of an order's name.

    `known` are the tags of the patient's other orders. Returns none if date of birth or sex
    differs: that is another person. A name in another script cannot be compared; it is a variant
    if the date of birth is the same.
    """
    order_name = str(tags.get("PatientName") or "")
    own = list(known)
    if any(_contradict(tags, other) for other in own):
        return []
    names = dict.fromkeys(str(other.get("PatientName") or "") for other in own)
    born = tags.get("PatientBirthDate")
    same_birth_date = bool(born) and any(other.get("PatientBirthDate") == born for other in own)
    return [
        name
        for name in names
        if is_name(name)
        and (
            are_compatible(order_name, name)
            or (same_birth_date and is_name(order_name) and not share_script(order_name, name))
        )
    ]


def _contradict(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return has_other_birth_date(one, other) or has_other_sex(one, other)


def has_other_birth_date(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if two dates of birth differ. A year does not differ from a day of that year."""
    shorter, longer = sorted(
        (str(tags.get("PatientBirthDate") or "") for tags in (one, other)), key=len
    )
    return not longer.startswith(shorter)


def has_other_sex(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if one is male and the other female. Other values contradict nothing."""
    return {tags.get("PatientSex") for tags in (one, other)} >= {"M", "F"}


def with_known_name(event: OrderEvent, known: Mapping[str, Any]) -> OrderEvent:
    """
    Return an event with the name that its order has, if the event has a spelling of it.

    A name with further forms (ideographic, phonetic) replaces the known one.
    """
    name = str(known.get("PatientName") or "")
    given = str(event.clinical_info.get("PatientName") or "")
    if not name or not given or given == name or has_all_forms(given, name):
        return event
    if not known_spellings(event.clinical_info, [known]):
        return event
    return replace(event, clinical_info={**event.clinical_info, "PatientName": name})


def is_other_name(event: OrderEvent, known: Mapping[str, Any]) -> bool:
    name = str(known.get("PatientName") or "")
    given = str(event.clinical_info.get("PatientName") or "")
    return (
        bool(name and given) and given != name and not known_spellings(event.clinical_info, [known])
    )


def had_current_name_before(
    event: OrderEvent, sent_at: MessageTime, name: str, orders: Iterable[Order]
) -> bool:
    """
    True if a patient had today's name before an order was sent, and never the order's name.

    If so, no correction explains the difference: the order is about another person. The names
    come from the PID segments of the patient's orders.
    """
    order_name = str(event.clinical_info["PatientName"])
    own = [order for order in orders if order.patient == (event.site, event.mrn)]
    names_by_order = [
        (order, {text.casefold() for text in Echo(order.echo).texts(_NAME)}) for order in own
    ]
    if any(_name_parts(order_name) <= texts for _, texts in names_by_order):
        return False
    return any(
        _name_parts(name) <= texts and _is_before(order, sent_at) for order, texts in names_by_order
    )


def _is_before(order: Order, sent_at: MessageTime) -> bool:
    return any(is_earlier(time, sent_at) for time in (order.opened_at, order.tags_sent_at))


def matches_former_name(
    event: OrderEvent, correction: DemographicsUpdate, orders: Iterable[Order]
) -> bool:
    """
    True if an order has the name that the patient's earlier orders have.

    Used if the times of order and correction cannot be compared. Another date of birth than the
    corrected one means another person.
    """
    given, known = (tags.get("PatientBirthDate") for tags in (event.clinical_info, correction.tags))
    if given and known and given != known:
        return False
    name = _name_parts(event.clinical_info.get("PatientName"))
    own = [order for order in orders if order.patient == (event.site, event.mrn)]
    return bool(name) and any(
        name <= {text.casefold() for text in Echo(order.echo).texts(_NAME)} for order in own
    )


def _name_parts(name: object) -> set[str]:
    return {part.casefold() for part in re.split("[=^]", str(name or "")) if part}


def names_former_identity(event: OrderEvent, demographics: KnownDemographics) -> bool:
    """
    True if an order names a merged identifier together with that patient's name.

    The name may be the one before the merge or the survivor's.
    """
    if event.action not in ADDRESSED_ACTIONS:
        return False
    given = _folded_name(event.clinical_info.get("PatientName"))
    known = (demographics.get((event.site, mrn)) for mrn in (event.prior_mrn, event.mrn))
    names = [
        _folded_name(correction.tags.get("PatientName"))
        for correction in known
        if correction is not None
    ]
    return bool(event.prior_mrn and given) and given in names


def takes_identifier_of_other(
    event: OrderEvent, demographics: KnownDemographics, orders: Iterable[Order]
) -> bool:
    """
    True if a patient's new identifier belongs to another patient, by the known names.

    It does not if the known names match the message, or the patient's name under the former
    identifier: orders may have arrived under the new identifier first.
    """
    if not event.renumbers:
        return False
    now, prior = (event.site, event.mrn), (event.site, event.prior_mrn)
    known_names: dict[Patient, list[object]] = {now: [], prior: [event.prior_name]}
    for patient in (now, prior):
        known_names[patient] += [
            order.tags.get("PatientName") for order in orders if order.patient == patient
        ]
        known_names[patient] += (
            [demographics[patient].tags.get("PatientName")] if patient in demographics else []
        )
    own_names = [
        _folded_name(name) for name in (event.clinical_info.get("PatientName"), *known_names[prior])
    ]
    other_names = [_folded_name(name) for name in known_names[now] if name]
    if any(name in own_names for name in other_names):
        return False
    own = [
        str(name or "") for name in (event.clinical_info.get("PatientName"), *known_names[prior])
    ]
    alike = any(
        are_compatible(one, str(other)) for one in own for other in known_names[now] if other
    )
    return any(own_names) and bool(other_names) and not alike


def _folded_name(name: object) -> list[str]:
    return re.sub("[=^]", " ", str(name or "").casefold()).split()


DEMOGRAPHICS = (
    "PatientName",
    "PatientBirthDate",
    "PatientAge",
    "PatientSex",
    "Race",
    "Ethnicity",
)


IDENTIFYING = ("PatientName", "PatientBirthDate", "PatientSex")
"""Demographics that tell one person from another."""


def demographics_of(event: OrderEvent) -> dict[str, str]:
    """Return the demographics in an event; '' deletes a value, but not the name."""
    info = event.clinical_info
    given = {tag: str(info[tag]) for tag in DEMOGRAPHICS if tag in info}
    return {tag: value for tag, value in given.items() if value or tag != "PatientName"}


def updates_of(
    event: OrderEvent, known: DemographicsUpdate | None, *, stale: bool
) -> dict[str, str]:
    """
    Return the demographics to set after an event; none if it is `stale`: a later event was applied.

    After a merge the reports of the prior patient get all known values of the survivor.
    """
    given = {} if stale else demographics_of(event)
    if known is None or event.action is not OrderAction.PATIENT_MERGE:
        return given
    return {**known.tags, **given}


def with_correction(
    event: OrderEvent,
    sent_at: MessageTime | None,
    demographics: KnownDemographics,
    orders: Iterable[Order] = (),
) -> OrderEvent:
    """
    Apply the correction of its patient to an order that was sent before it.

    This includes an order of a sender that does not know of a merge: it has the former number
    and name. An order that was sent after the correction gets only values that it does not have.
    `orders` are those of patients with conflicting names.
    """
    correction = demographics.get((event.site, event.mrn))
    if correction is None or event.action not in ADDRESSED_ACTIONS | {OrderAction.VISIT_MOVE}:
        return event
    if not (
        _predates_correction(event, sent_at, demographics, list(orders))
        or names_former_identity(event, demographics)
    ):
        known = {tag: value for tag, value in correction.tags.items() if value}
        return replace(event, clinical_info={**known, **event.clinical_info})
    return replace(event, clinical_info=with_demographics(event.clinical_info, correction.tags))


def _predates_correction(
    event: OrderEvent,
    sent_at: MessageTime | None,
    demographics: KnownDemographics,
    orders: Sequence[Order],
) -> bool:
    correction = demographics[event.site, event.mrn]
    is_conflicting = has_conflicting_name(event, sent_at, demographics)
    if sent_at is None or not are_comparable(sent_at, correction.sent):
        return is_conflicting and matches_former_name(event, correction, orders)
    if not is_earlier(sent_at, correction.sent):
        return False
    return not is_conflicting or not had_current_name_before(
        event, sent_at, str(correction.tags["PatientName"]), orders
    )


def former_identity(
    event: OrderEvent,
    sent: MessageTime,
    demographics: KnownDemographics,
    orders: Iterable[Order],
) -> list[DemographicsUpdate]:
    """
    Return the demographics to store for a merged patient.

    They identify its late orders, and are its own again if the merge is undone.
    """
    prior = (event.site, event.prior_mrn)
    own = [order.tags for order in orders if order.patient == prior]
    known: dict[str, str] = dict(demographics[prior].tags) if prior in demographics else {}
    for tag in IDENTIFYING:
        values = (str(tags[tag]) for tags in own if tags.get(tag))
        if value := next(values, event.prior_name if tag == "PatientName" else ""):
            known[tag] = value
    if not known.get("PatientName"):
        return []
    return [DemographicsUpdate(*prior, sent.at, known, sent.clock)]


def corrections(
    event: OrderEvent, updates: Mapping[str, str], orders: Iterable[Order]
) -> list[Order]:
    """Return the changed orders of a patient and of the patient merged into it."""
    patients = {(event.site, event.mrn), (event.site, event.prior_mrn)}
    own = [order for order in orders if order.patient in patients]
    kept = {order.key.accession for order in own if order.key.mrn == event.mrn}
    found = []
    for order in own:
        moves = order.key.mrn != event.mrn
        if moves and order.key.accession in kept:
            continue  # the survivor has an order with this accession
        echo = replace_identifiers(order.echo, event.echo) if moves else order.echo
        after = replace(order, tags=with_demographics(order.tags, updates), echo=echo)
        after = as_moved_by_merge(after, order.key.mrn) if moves else after
        if after != order:
            found.append(after)
    return found


def with_new_patient(tags: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """Return an order's tags with the demographics of another patient."""
    updates = {tag: value for tag, value in given.items() if value}
    birth, study = updates.get("PatientBirthDate", ""), str(tags.get("StudyDate", ""))
    age = age_at(birth, study) if birth and "PatientAge" not in updates else ""
    others = {tag: value for tag, value in tags.items() if tag not in DEMOGRAPHICS}
    return {**others, **({"PatientAge": age} if age else {}), **updates}


def with_demographics(tags: Mapping[str, Any], updates: Mapping[str, str]) -> dict[str, Any]:
    """Return an order's tags with these demographics; the age follows the date of birth."""
    merged = {**tags, **updates}
    new_birth_date = merged.get("PatientBirthDate") != tags.get("PatientBirthDate")
    if new_birth_date and merged.get("PatientAge") and "PatientAge" not in updates:
        birth, study = (str(merged.get(tag, "")) for tag in ("PatientBirthDate", "StudyDate"))
        merged["PatientAge"] = age_at(birth, study)
    return merged


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
        return contradicts(tags, known)
    repeats = {tag: _repeats(tag, tags, identity.former) for tag in IDENTIFYING}
    return (
        (other_name and (other_birth_date or repeats["PatientName"]))
        or (other_birth_date and repeats["PatientBirthDate"])
        or (other_sex and repeats["PatientSex"])
    )


def contradicts(tags: Tags, known: Sequence[Tags]) -> bool:
    """True if the name, date of birth or sex of an order is that of another person."""
    return any(_differs(tag, tags, known) for tag in IDENTIFYING)


def _differs(tag: str, tags: Tags, known: Sequence[Tags]) -> bool:
    values = [other for other in known if other.get(tag)]
    return bool(tags.get(tag) and values) and all(_differ(tag, tags, other) for other in values)


def names_new_owner(event: OrderEvent, order: Tags) -> bool:
    """
    True if a correction of a freed number is about another person than an order of this number.

    The name of a person is corrected only if the date of birth is the same and the sex does not
    differ: a hospital may give the number to somebody else.
    """
    tags = event.clinical_info
    if not _differs("PatientName", tags, [order]):
        return False
    has_birth_dates = bool(tags.get("PatientBirthDate") and order.get("PatientBirthDate"))
    return not has_birth_dates or has_other_birth_date(tags, order) or has_other_sex(tags, order)


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
