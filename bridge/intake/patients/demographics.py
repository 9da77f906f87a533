"""Who a patient is, where an order and a correction say different things: the later one is right.

Pure. Corrections reach the orders that are known; what is sent before one and comes after it
says what the correction said.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridge.intake.patients.names import (
    Words,
    calls_otherwise,
    is_former,
    was_called_so,
    was_formerly_called_so,
)
from bridge.intake.process.order_rules import ORDERS
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


def said_in(event: OrderEvent) -> dict[str, str]:
    """Give what an event says of its patient; '' deletes, but nobody is left without a name."""
    info = event.clinical_info
    said = {tag: str(info[tag]) for tag in DEMOGRAPHICS if tag in info}
    return {tag: value for tag, value in said.items() if value or tag != "PatientName"}


def told_of(event: OrderEvent, known: DemographicsUpdate | None, *, stale: bool) -> dict[str, str]:
    """
    Give what is true of a patient since an event; nothing where it is `stale`, overtaken by a word.

    Whose orders a merge brings to the survivor, they are told whatever is known of her.
    """
    said = {} if stale else said_in(event)
    if known is None or event.action is not OrderAction.PATIENT_MERGE:
        return said
    return {**known.tags, **said}


def as_corrected(
    event: OrderEvent,
    sent_at: MessageTime | None,
    words: Words,
    orders: Iterable[IndexedOrder] = (),
) -> OrderEvent:
    """Let an order that was sent before its patient was corrected say what the correction says.

    So does one whose sender has not heard of a merge: it names who she was, number and name. One
    that was sent after the correction says so only where it is silent itself. The same holds of
    whom a visit moves to. `orders` are those of patients whom an event calls otherwise.
    """
    word = words.get((event.site, event.mrn))
    if word is None or event.action not in ORDERS | {OrderAction.VISIT_MOVE}:
        return event
    if not (_is_explained(event, sent_at, words, list(orders)) or is_former(event, words)):
        known = {tag: value for tag, value in word.tags.items() if value}
        return replace(event, clinical_info={**known, **event.clinical_info})
    return replace(event, clinical_info=with_demographics(event.clinical_info, word.tags))


def _is_explained(
    event: OrderEvent, sent_at: MessageTime | None, words: Words, orders: Sequence[IndexedOrder]
) -> bool:
    """Tell whether an order does not know yet of the correction of its patient."""
    word = words[event.site, event.mrn]
    otherwise = calls_otherwise(event, sent_at, words)
    if sent_at is None or not are_comparable(sent_at, word.sent):
        return otherwise and was_formerly_called_so(event, word, orders)
    if not is_earlier(sent_at, word.sent):
        return False
    return not otherwise or not was_called_so(event, sent_at, str(word.tags["PatientName"]), orders)


def last_word(
    event: OrderEvent, sent: MessageTime, words: Words, orders: Iterable[IndexedOrder]
) -> list[DemographicsUpdate]:
    """Give what is to be remembered of who is merged: her name, by which late orders are known."""
    prior = (event.site, event.prior_mrn)
    names = [each.tags.get("PatientName") for each in orders if each.key[:2] == prior]
    name = next((str(each) for each in names if each), event.prior_name)
    if not name:
        return []
    known = words[prior].tags if prior in words else {}
    return [DemographicsUpdate(*prior, sent.at, {**known, "PatientName": name}, sent.clock)]


def corrections(
    event: OrderEvent, told: Mapping[str, str], orders: Iterable[IndexedOrder]
) -> list[IndexedOrder]:
    """Give the known orders of a patient, and of who is merged into her, that read otherwise."""
    patients = {(event.site, event.mrn), (event.site, event.prior_mrn)}
    own = [each for each in orders if (each.key.site, each.key.mrn) in patients]
    kept = {each.key.accession for each in own if each.key.mrn == event.mrn}
    found = []
    for each in own:
        if each.key.mrn != event.mrn and each.key.accession in kept:
            continue  # the survivor has an order of that name: this one stays behind
        moves = each.key.mrn != event.mrn
        echo = replace_identifiers(each.echo, event.echo) if moves else each.echo
        after = replace(each, tags=with_demographics(each.tags, told), echo=echo)
        if after != each:
            found.append(after)
    return found


def anothers(tags: Mapping[str, Any], said: Mapping[str, str]) -> dict[str, Any]:
    """Give an order's tags with nothing of whom it was, and what is said of whose it is."""
    told = {tag: value for tag, value in said.items() if value}
    birth, study = told.get("PatientBirthDate", ""), str(tags.get("StudyDate", ""))
    age = age_at(birth, study) if birth and "PatientAge" not in told else ""
    others = {tag: value for tag, value in tags.items() if tag not in DEMOGRAPHICS}
    return {**others, **({"PatientAge": age} if age else {}), **told}


def with_demographics(tags: Mapping[str, Any], told: Mapping[str, str]) -> dict[str, Any]:
    """Lay demographics over an order's tags; an age goes by the date of birth."""
    merged = {**tags, **told}
    reborn = merged.get("PatientBirthDate") != tags.get("PatientBirthDate")
    if reborn and merged.get("PatientAge") and "PatientAge" not in told:
        birth, study = (str(merged.get(tag, "")) for tag in ("PatientBirthDate", "StudyDate"))
        merged["PatientAge"] = age_at(birth, study)
    return merged
