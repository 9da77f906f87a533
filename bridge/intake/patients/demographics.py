"""Demographics of patients: the later one of an order and a correction takes precedence.

Pure. A correction changes known orders. Orders that were sent before a correction and arrive after
it get the corrected values.

Patients are identified by their numbers. The names that are known under a number (spelling
variants, former names) show whether a message means another person.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridge.intake.process.order_rules import ORDER_ACTIONS
from bridge.intake.process.order_values import as_moved_by_merge
from bridge.store.records.merged_patients import Patient
from bridge.store.records.message_time import MessageTime, are_comparable, is_earlier
from bridge.store.records.order_index import IndexedOrder
from bridge.store.records.patient_demographics import DemographicsUpdate
from mappings.hl7.path import Path
from mappings.hl7.person_names import are_compatible, has_all_forms, is_name, share_script
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.procedures import replace_identifiers
from mappings.language.transforms import age_at
from mappings.outbound.echo import Echo

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
    if correction is None or event.action not in ORDER_ACTIONS:
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
    if any(_contradict(tags, each) for each in own):
        return []
    names = dict.fromkeys(str(each.get("PatientName") or "") for each in own)
    born = tags.get("PatientBirthDate")
    same_birth_date = bool(born) and any(each.get("PatientBirthDate") == born for each in own)
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
    event: OrderEvent, sent_at: MessageTime, name: str, orders: Iterable[IndexedOrder]
) -> bool:
    """
    True if a patient had today's name before an order was sent, and never the order's name.

    If so, no correction explains the difference: the order is about another person. The names
    come from the PID segments of the patient's orders.
    """
    order_name = str(event.clinical_info["PatientName"])
    own = [each for each in orders if each.key[:2] == (event.site, event.mrn)]
    names_by_order = [
        (each, {text.casefold() for text in Echo(each.echo).texts(_NAME)}) for each in own
    ]
    if any(_name_parts(order_name) <= texts for _, texts in names_by_order):
        return False
    return any(
        _name_parts(name) <= texts and _is_before(each, sent_at) for each, texts in names_by_order
    )


def _is_before(order: IndexedOrder, sent_at: MessageTime) -> bool:
    return any(is_earlier(time, sent_at) for time in (order.opened_at, order.tags_sent_at))


def matches_former_name(
    event: OrderEvent, correction: DemographicsUpdate, orders: Iterable[IndexedOrder]
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
    own = [each for each in orders if each.key[:2] == (event.site, event.mrn)]
    return bool(name) and any(
        name <= {text.casefold() for text in Echo(each.echo).texts(_NAME)} for each in own
    )


def _name_parts(name: object) -> set[str]:
    return {part.casefold() for part in re.split("[=^]", str(name or "")) if part}


def names_former_identity(event: OrderEvent, demographics: KnownDemographics) -> bool:
    """
    True if an order names a merged identifier together with that patient's name.

    The name may be the one before the merge or the survivor's.
    """
    if event.action not in ORDER_ACTIONS:
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
    event: OrderEvent, demographics: KnownDemographics, orders: Iterable[IndexedOrder]
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
            each.tags.get("PatientName") for each in orders if each.key[:2] == patient
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
    orders: Iterable[IndexedOrder] = (),
) -> OrderEvent:
    """
    Apply the correction of its patient to an order that was sent before it.

    This includes an order of a sender that does not know of a merge: it has the former number
    and name. An order that was sent after the correction gets only values that it does not have.
    `orders` are those of patients with conflicting names.
    """
    correction = demographics.get((event.site, event.mrn))
    if correction is None or event.action not in ORDER_ACTIONS | {OrderAction.VISIT_MOVE}:
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
    orders: Sequence[IndexedOrder],
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
    orders: Iterable[IndexedOrder],
) -> list[DemographicsUpdate]:
    """
    Return the demographics to store for a merged patient.

    They identify its late orders, and are its own again if the merge is undone.
    """
    prior = (event.site, event.prior_mrn)
    own = [order.tags for order in orders if order.key[:2] == prior]
    known: dict[str, str] = dict(demographics[prior].tags) if prior in demographics else {}
    for tag in IDENTIFYING:
        values = (str(tags[tag]) for tags in own if tags.get(tag))
        if value := next(values, event.prior_name if tag == "PatientName" else ""):
            known[tag] = value
    if not known.get("PatientName"):
        return []
    return [DemographicsUpdate(*prior, sent.at, known, sent.clock)]


def corrections(
    event: OrderEvent, updates: Mapping[str, str], orders: Iterable[IndexedOrder]
) -> list[IndexedOrder]:
    """Return the changed orders of a patient and of the patient merged into it."""
    patients = {(event.site, event.mrn), (event.site, event.prior_mrn)}
    own = [each for each in orders if (each.key.site, each.key.mrn) in patients]
    kept = {each.key.accession for each in own if each.key.mrn == event.mrn}
    found = []
    for each in own:
        if each.key.mrn != event.mrn and each.key.accession in kept:
            continue  # the survivor has an order with this accession
        moves = each.key.mrn != event.mrn
        echo = replace_identifiers(each.echo, event.echo) if moves else each.echo
        after = replace(each, tags=with_demographics(each.tags, updates), echo=echo)
        after = as_moved_by_merge(after, each.key.mrn) if moves else after
        if after != each:
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
