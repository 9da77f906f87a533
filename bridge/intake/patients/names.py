"""Whom a patient's name means: her whose number stands beside it, or somebody else.

Pure. Numbers are what patients are found by; the names that are known under a number tell where
a message has written another person's.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from bridge.intake.process.order_rules import ORDERS
from bridge.store.records.merged_patients import Patient
from bridge.store.records.message_time import MessageTime, are_comparable, is_earlier
from bridge.store.records.order_index import IndexedOrder
from bridge.store.records.patient_demographics import DemographicsUpdate
from mappings.hl7.path import Path
from mappings.hl7.person_names import are_compatible
from mappings.inbound.events import OrderEvent
from mappings.outbound.echo import Echo

Words = Mapping[Patient, DemographicsUpdate]

_NAME = Path.parse("PID-5")


def calls_otherwise(event: OrderEvent, sent_at: MessageTime | None, words: Words) -> bool:
    """
    Tell whether an order names its patient otherwise than a correction that may have been later.

    A middle name or a title that one of them leaves out makes no other person.
    """
    word = words.get((event.site, event.mrn))
    if word is None or event.action not in ORDERS:
        return False
    if are_comparable(sent_at, word.sent) and not is_earlier(sent_at, word.sent):
        return False
    given, known = (_parts(tags.get("PatientName")) for tags in (event.clinical_info, word.tags))
    shorter, longer = sorted((given, known), key=len)
    alike = given == known or (len(shorter) > 1 and shorter <= longer)
    alike = alike or are_compatible(
        *map(str, (event.clinical_info.get("PatientName"), word.tags.get("PatientName")))
    )
    return bool(shorter) and not alike and not is_former(event, words)


def known_spellings(tags: Mapping[str, Any], known: Iterable[Mapping[str, Any]]) -> list[str]:
    """
    Give the known names of a patient of which an order's name is a spelling, each once.

    `known` are the tags of her other orders. A date of birth or sex that contradicts one of them
    means another person.
    """
    said = str(tags.get("PatientName") or "")
    own = list(known)
    if any(_contradict(tags, each) for each in own):
        return []
    names = dict.fromkeys(str(each.get("PatientName") or "") for each in own)
    return [name for name in names if name and are_compatible(said, name)]


def _contradict(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    births = {tags.get("PatientBirthDate") or "" for tags in (one, other)} - {""}
    sexes = {tags.get("PatientSex") for tags in (one, other)} & {"M", "F"}
    return len(births) > 1 or len(sexes) > 1


def was_called_so(
    event: OrderEvent, sent_at: MessageTime, name: str, orders: Iterable[IndexedOrder]
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


def _is_before(order: IndexedOrder, sent_at: MessageTime) -> bool:
    return any(is_earlier(time, sent_at) for time in (order.opened_at, order.said_at))


def was_formerly_called_so(
    event: OrderEvent, word: DemographicsUpdate, orders: Iterable[IndexedOrder]
) -> bool:
    """
    Tell whether an order names its patient as her earlier orders did, before she was corrected.

    Decides where the times of order and correction cannot be compared. Another date of birth than
    the corrected one means another person.
    """
    said, known = (tags.get("PatientBirthDate") for tags in (event.clinical_info, word.tags))
    if said and known and said != known:
        return False
    name = _parts(event.clinical_info.get("PatientName"))
    own = [each for each in orders if each.key[:2] == (event.site, event.mrn)]
    return bool(name) and any(
        name <= {text.casefold() for text in Echo(each.echo).texts(_NAME)} for each in own
    )


def _parts(name: object) -> set[str]:
    return {part.casefold() for part in str(name or "").split("^") if part}


def is_former(event: OrderEvent, words: Words) -> bool:
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
    if any(name in hers for name in theirs):
        return False
    own = [str(name or "") for name in (event.clinical_info.get("PatientName"), *called[prior])]
    alike = any(are_compatible(one, str(other)) for one in own for other in called[now] if other)
    return any(hers) and bool(theirs) and not alike


def _folded(name: object) -> list[str]:
    return str(name or "").casefold().replace("^", " ").split()
