"""
Who a patient is, where an order and a correction say different things: the later one is right.

Pure. Corrections reach the orders that are known; what is sent before one and comes after it
says what the correction said.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from bridge.intake.order_rules import ORDERS, is_earlier
from bridge.store.merged_patients import Patient
from bridge.store.order_index import IndexedOrder
from bridge.store.patient_words import PatientWord
from mappings.ages import age_at
from mappings.echo import Echo, readdressed
from mappings.events import Action, OrderEvent
from mappings.hl7.path import Path

DEMOGRAPHICS = (
    "PatientName",
    "PatientBirthDate",
    "PatientAge",
    "PatientSex",
    "Race",
    "Ethnicity",
)

_NAME = Path.parse("PID-5")

Words = Mapping[Patient, PatientWord]


def said_in(event: OrderEvent) -> dict[str, str]:
    """Give what an event says of its patient; '' deletes, but nobody is left without a name."""
    info = event.clinical_info
    said = {tag: str(info[tag]) for tag in DEMOGRAPHICS if tag in info}
    return {tag: value for tag, value in said.items() if value or tag != "PatientName"}


def told_of(event: OrderEvent, known: PatientWord | None, *, stale: bool) -> dict[str, str]:
    """
    Give what is true of a patient since an event; nothing where it is `stale`, overtaken by a word.

    Whose orders a merge brings to the survivor, they are told whatever is known of her.
    """
    said = {} if stale else said_in(event)
    if known is None or event.action is not Action.PATIENT_MERGE:
        return said
    return {**known.tags, **said}


def as_corrected(
    event: OrderEvent,
    sent_at: int | None,
    words: Words,
    orders: Iterable[IndexedOrder] = (),
) -> OrderEvent:
    """Let an order that was sent before its patient was corrected say what the correction says.

    So does one whose sender has not heard of a merge: it names who she was, number and name. One
    that was sent after the correction says so only where it is silent itself. The same holds of
    whom a visit moves to. `orders` are those of patients whom an event calls otherwise.
    """
    word = words.get((event.site, event.mrn))
    if word is None or event.action not in ORDERS | {Action.VISIT_MOVE}:
        return event
    overtaken = is_earlier(sent_at, word.said_at) and not (
        sent_at is not None
        and calls_otherwise(event, sent_at, words)
        and _was_called_so(event, sent_at, str(word.tags["PatientName"]), orders)
    )
    if not (overtaken or _is_former(event, words)):
        known = {tag: value for tag, value in word.tags.items() if value}
        return replace(event, clinical_info={**known, **event.clinical_info})
    return replace(event, clinical_info=with_demographics(event.clinical_info, word.tags))


def calls_otherwise(event: OrderEvent, sent_at: int | None, words: Words) -> bool:
    """
    Tell whether an order names its patient otherwise than a correction that was sent later.

    A middle name or a title that one of them leaves out makes no other person.
    """
    word = words.get((event.site, event.mrn))
    if word is None or event.action not in ORDERS or not is_earlier(sent_at, word.said_at):
        return False
    given, known = (_parts(tags.get("PatientName")) for tags in (event.clinical_info, word.tags))
    shorter, longer = sorted((given, known), key=len)
    alike = given == known or (len(shorter) > 1 and shorter <= longer)
    return bool(shorter) and not alike and not _is_former(event, words)


def _was_called_so(
    event: OrderEvent, sent_at: int, name: str, orders: Iterable[IndexedOrder]
) -> bool:
    """
    Tell whether a patient bore today's name before an order was sent, and never the order's.

    Then no correction explains the order's: it is about somebody else. How the senders of her
    orders called her, their PID says.
    """
    said = str(event.clinical_info["PatientName"])
    own = [each for each in orders if each.key[:2] == (event.site, event.mrn)]
    called = [(each, {text.casefold() for text in Echo(each.echo).texts(_NAME)}) for each in own]
    if any(_parts(said) <= texts for _, texts in called):
        return False
    return any(_parts(name) <= texts and _is_before(each, sent_at) for each, texts in called)


def _is_before(order: IndexedOrder, sent_at: int) -> bool:
    times = [at for at in (order.opened_at, order.said_at) if at is not None]
    return bool(times) and min(times) < sent_at


def _parts(name: object) -> set[str]:
    return {part.casefold() for part in str(name or "").split("^") if part}


def _is_former(event: OrderEvent, words: Words) -> bool:
    """
    Tell whether an order names a merged identifier and nobody else than her who was merged.

    By the name that she had there, or has as the survivor.
    """
    if event.action not in ORDERS:
        return False
    given = _folded(event.clinical_info.get("PatientName"))
    known = (words.get((event.site, mrn)) for mrn in (event.prior_mrn, event.mrn))
    names = [_folded(word.tags.get("PatientName")) for word in known if word is not None]
    return bool(event.prior_mrn and given) and given in names


def takes_anothers(event: OrderEvent, words: Words, orders: Iterable[IndexedOrder]) -> bool:
    """
    Tell whether a new number is somebody else's already, by the names that are known.

    Whoever is called as the message says, or as the patient was under the number before, is she:
    her orders may have come under the new number first.
    """
    if not event.renumbers:
        return False
    now, prior = (event.site, event.mrn), (event.site, event.prior_mrn)
    called: dict[Patient, list[object]] = {now: [], prior: [event.prior_name]}
    for who in (now, prior):
        called[who] += [each.tags.get("PatientName") for each in orders if each.key[:2] == who]
        called[who] += [words[who].tags.get("PatientName")] if who in words else []
    hers = [_folded(name) for name in (event.clinical_info.get("PatientName"), *called[prior])]
    theirs = [_folded(name) for name in called[now] if name]
    return any(hers) and bool(theirs) and not any(name in hers for name in theirs)


def _folded(name: object) -> list[str]:
    return str(name or "").casefold().replace("^", " ").split()


def last_word(
    event: OrderEvent, sent_at: int | None, words: Words, orders: Iterable[IndexedOrder]
) -> list[PatientWord]:
    """Give what is to be remembered of who is merged: her name, by which late orders are known."""
    prior = (event.site, event.prior_mrn)
    names = [each.tags.get("PatientName") for each in orders if each.key[:2] == prior]
    name = next((str(each) for each in names if each), event.prior_name)
    if sent_at is None or not name:
        return []
    known = words[prior].tags if prior in words else {}
    return [PatientWord(*prior, sent_at, {**known, "PatientName": name})]


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
        echo = readdressed(each.echo, event.echo) if moves else each.echo
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
