"""
Demographics: of an order and a correction, the later one takes precedence.

Pure. A correction changes known orders. Orders that were sent before a correction and arrive after
it get the corrected values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridge.intake.patients.names import (
    KnownDemographics,
    had_current_name_before,
    has_conflicting_name,
    matches_former_name,
    names_former_identity,
)
from bridge.intake.process.order_rules import ORDER_ACTIONS
from bridge.store.records.message_time import MessageTime, are_comparable, is_earlier
from bridge.store.records.order_index import IndexedOrder
from bridge.store.records.patient_demographics import DemographicsUpdate
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.inbound.procedures import replace_identifiers
from mappings.language.transforms import age_at

DEMOGRAPHICS = (
    "PatientName",
    "PatientBirthDate",
    "PatientAge",
    "PatientSex",
    "Race",
    "Ethnicity",
)


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
    """Tell whether the sender of an order did not know of the correction."""
    correction = demographics[event.site, event.mrn]
    otherwise = has_conflicting_name(event, sent_at, demographics)
    if sent_at is None or not are_comparable(sent_at, correction.sent):
        return otherwise and matches_former_name(event, correction, orders)
    if not is_earlier(sent_at, correction.sent):
        return False
    return not otherwise or not had_current_name_before(
        event, sent_at, str(correction.tags["PatientName"]), orders
    )


def former_identity(
    event: OrderEvent,
    sent: MessageTime,
    demographics: KnownDemographics,
    orders: Iterable[IndexedOrder],
) -> list[DemographicsUpdate]:
    """Return the demographics to store for a merged patient: the name identifies late orders."""
    prior = (event.site, event.prior_mrn)
    names = [each.tags.get("PatientName") for each in orders if each.key[:2] == prior]
    name = next((str(each) for each in names if each), event.prior_name)
    if not name:
        return []
    known = demographics[prior].tags if prior in demographics else {}
    return [DemographicsUpdate(*prior, sent.at, {**known, "PatientName": name}, sent.clock)]


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
