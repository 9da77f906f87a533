"""
Delivery history: what a receiver got of a report before, and what the next message must contain.

The document numbers (TXA-12, TXA-13) and the OBX segments that a later message must delete at the
receiver follow from the history. Reads deliveries and sent messages; changes nothing.
"""

import re
from base64 import b32encode
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, select

from bridge.delivery.destinations import RESTORED
from bridge.delivery.dicom_objects import SentDocument, boundary_of, sent_objects
from bridge.queue.deliveries import ClaimedDelivery
from bridge.queue.digests import digest, is_intact
from bridge.queue.statements import DELIVERY, DELIVERY_BODY
from bridge.queue.states import QueueState
from mappings.hl7.message import Message
from mappings.outbound.results import WITHDRAWALS, DocumentNames, ResultEvent, SentSection

ALL_ORDERS = "all"
"""The end of the release key of a message about all orders of a report."""

FINAL_EVENTS = frozenset({ResultEvent.FINAL, ResultEvent.CORRECTION, ResultEvent.RETRACTION})
"""Events after which a final text is a correction; a retraction contains the final text again."""
ADDENDUM_EVENTS = frozenset({ResultEvent.ADDENDUM, ResultEvent.RETRACTION})

# After the part of the order: the time of a release, then `e` and the number of an edited copy.
_TIME = re.compile(rf"(:(?:{ALL_ORDERS}|[0-9a-f]{{12}}))(?::[0-9]+)?(?::e[0-9]+)?\Z")
_EDITED = re.compile(r":e[0-9]+\Z")
_EDIT_BYTES = 7

_NUMBER_BYTES = 10  # 16 characters of base 32; with a suffix still below the 30 of TXA-12
_DELIVERY = DELIVERY.c
_ORDER_DETAIL = "O"
_REMOVED = frozenset({"D", "W", "X"})  # HL7 table 0085: deleted, wrong, cannot be obtained


@dataclass(frozen=True, slots=True)
class DeliveredEvent:
    """The event of a delivered message; `sequence` is that of its addendum, else 0."""

    event: ResultEvent
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class DeliveryHistory:
    """
    The accepted messages about the report and orders of one delivery, in the order of release.

    `newer` are the events of messages that were queued after this delivery: an operator skipped the
    delivery and retries it later.
    """

    delivered: list[DeliveredEvent] = field(default_factory=list)
    newer: frozenset[ResultEvent] = frozenset()


def read_histories(
    connection: Connection,
    deliveries: Sequence[ClaimedDelivery],
    destination: str,
    *,
    as_when_queued: bool = False,
) -> dict[int, DeliveryHistory]:
    """
    Read the histories of claimed deliveries to a receiver, by delivery id.

    `as_when_queued` leaves out what was queued with or after each delivery.
    """
    reports = sorted({claimed_delivery.report_id for claimed_delivery in deliveries})
    delivered = (
        select(_DELIVERY.id, _DELIVERY.report_id, _DELIVERY.release_key, _DELIVERY.event)
        .where(_DELIVERY.report_id.in_(reports), _DELIVERY.destination == destination)
        .where(_DELIVERY.state == QueueState.DONE.value)
        .order_by(_DELIVERY.id)
    )
    by_report: defaultdict[str, list[Any]] = defaultdict(list)
    for row in connection.execute(delivered):
        by_report[row.report_id].append(row)
    return {
        delivery.delivery_id: _history(
            delivery,
            [
                row
                for row in by_report[delivery.report_id]
                if not as_when_queued or row.id < delivery.delivery_id
            ],
        )
        for delivery in deliveries
    }


def _history(delivery: ClaimedDelivery, rows: Iterable[Any]) -> DeliveryHistory:
    delivered: list[DeliveredEvent] = []
    newer: set[ResultEvent] = set()
    accepted = {_without_edit(row.release_key) for row in rows if not _is_edited(row.release_key)}
    for row in rows:
        # An edited copy has the document number of its original, so the two count once.
        if _is_edited(row.release_key) and _without_edit(row.release_key) in accepted:
            continue
        accepted.add(_without_edit(row.release_key))
        if share_an_order(delivery.release_key, row.release_key):
            event = ResultEvent(row.event)
            delivered.append(as_delivered_event(delivered, event, row.release_key))
            if row.id > delivery.delivery_id:
                newer.add(event)
    return DeliveryHistory(delivered, frozenset(newer))


def as_delivered_event(
    before: Sequence[DeliveredEvent], event: ResultEvent, release_key: str
) -> DeliveredEvent:
    """Return an event as the receiver sees it: a final text after another one is a correction."""
    if event is ResultEvent.FINAL and any(
        delivered_event.event in FINAL_EVENTS for delivered_event in before
    ):
        event = ResultEvent.CORRECTION
    return DeliveredEvent(event, _sequence(release_key) if event in ADDENDUM_EVENTS else 0)


def events_since_cancellation(delivered: Sequence[DeliveredEvent]) -> tuple[ResultEvent, ...]:
    """Return the events after the last cancellation: it withdraws all before it."""
    events = [event.event for event in delivered]
    while ResultEvent.CANCELLATION in events:
        del events[: events.index(ResultEvent.CANCELLATION) + 1]
    return tuple(events)


def document_names(
    report_id: str, release_key: str, delivered: Sequence[DeliveredEvent]
) -> DocumentNames:
    """
    Return the document number of the last of `delivered`, and the number of its parent document.

    The parent of a retraction is the document of its addendum. The parent of a correction is the
    document of the report, else the retraction of the last addendum.
    """
    base = _base(report_id, order_part(release_key))
    current, number, parent, cancelled, replaced = base, base, "", 0, 0
    report = withdrawn = ""  # the document of the report; the last retraction of an addendum
    addenda: dict[int, str] = {}
    for event in delivered:
        number, parent = current, ""
        if event.event is ResultEvent.ADDENDUM:
            number, parent = f"{base}.A{event.sequence}", current
            addenda[event.sequence] = number
        elif event.event is ResultEvent.RETRACTION:
            replaced += 1
            number, parent = f"{base}.R{replaced}", addenda.pop(event.sequence, report or current)
            withdrawn = number
        elif event.event is ResultEvent.CORRECTION:
            replaced += 1
            number, parent = f"{base}.R{replaced}", report or withdrawn or current
            report = current = number
        elif event.event is ResultEvent.CANCELLATION:
            cancelled += 1
            current, report = f"{base}.N{cancelled}", ""
        else:
            report = current
    return DocumentNames(number, parent)


def _base(report_id: str, order: str) -> str:
    digest = blake2b(f"{report_id}\x1f{order}".encode(), digest_size=_NUMBER_BYTES).digest()
    return b32encode(digest).decode()


def share_an_order(one: str, other: str) -> bool:
    """True if two release keys of a report are about the same order, or one is about all."""
    first, second = order_part(one), order_part(other)
    return first == second or ALL_ORDERS in (first, second)


def order_part(release_key: str) -> str:
    """Return the part of a release key that names the order, or `ALL_ORDERS`."""
    return _without_time(release_key).rpartition(":")[2]


def _sequence(release_key: str) -> int:
    number = _without_time(release_key).split(":")[-2]
    return int(number) if number.isdecimal() else 0


def edited_key(release_key: str, payload: bytes) -> str:
    """Return the key of an edited copy of a delivery; an equal copy has the same key."""
    number = int.from_bytes(digest(payload)[:_EDIT_BYTES])
    return f"{_without_edit(release_key)}:e{number}"


def _is_edited(release_key: str) -> bool:
    return _EDITED.search(release_key) is not None


def _without_edit(release_key: str) -> str:
    return _EDITED.sub("", release_key)


def _without_time(release_key: str) -> str:
    """
    Remove the time of a release that reuses a key, after a restore of the report service, and the
    number of an edited copy.
    """
    return _TIME.sub(r"\1", release_key)


def newer_events(
    connection: Connection, destination: str, report_id: str, release_key: str, delivery_id: int
) -> frozenset[ResultEvent]:
    """
    Return the events of later deliveries about the same order that were sent or wait.

    Edited copies of the delivery itself are left out.
    """
    later = (
        select(_DELIVERY.release_key, _DELIVERY.event)
        .where(_DELIVERY.report_id == report_id, _DELIVERY.id > delivery_id)
        .where(_DELIVERY.destination == destination)
        .where(_DELIVERY.state != QueueState.CANCELLED.value)
    )
    own = _without_edit(release_key)
    return frozenset(
        ResultEvent(row.event)
        for row in connection.execute(later)
        if share_an_order(release_key, row.release_key) and _without_edit(row.release_key) != own
    )


def has_restored_read(connection: Connection, delivery: ClaimedDelivery) -> bool:
    """
    True if a delivery is about a preliminary read that is valid again after a recall, and the
    receiver has accepted that read.
    """
    if not _is_restored(delivery.release_key):
        return False
    reads = connection.execute(
        select(_DELIVERY.release_key, _DELIVERY.state)
        .where(*_is_before(delivery), _DELIVERY.event == ResultEvent.PRELIMINARY.value)
        .order_by(_DELIVERY.id.desc())
    )
    states = (
        QueueState(row.state)
        for row in reads
        if share_an_order(delivery.release_key, row.release_key)
        and (row.state == QueueState.DONE.value or not _is_restored(row.release_key))
    )
    return next(states, None) is QueueState.DONE


def _is_before(delivery: ClaimedDelivery) -> tuple[ColumnElement[bool], ...]:
    """Select the earlier deliveries about the same report to the same destination."""
    return (
        _DELIVERY.report_id == delivery.report_id,
        _DELIVERY.id < delivery.delivery_id,
        _DELIVERY.destination == delivery.destination,
    )


def _is_restored(release_key: str) -> bool:
    return _without_time(release_key).split(":")[-3:-2] == [RESTORED]


def read_sent_observations(
    connection: Connection, delivery: ClaimedDelivery
) -> tuple[SentSection, ...] | None:
    """
    Read the OBX segments that the receiver has of the same report and orders.

    None if one of its messages does not have the digest with which it was stored.
    """
    sent = connection.execute(_sent_before(delivery).order_by(_DELIVERY.id))
    rows = [row for row in sent if share_an_order(delivery.release_key, row.release_key)]
    if not all(is_intact(bytes(row.payload), row.digest) for row in rows):
        return None
    messages = [bytes(row.payload) for row in rows]
    return current_observations(one for one in messages if not boundary_of(one))


def correction_key(report_id: str, change_id: int, order: str, *, withdraws: bool) -> str:
    """Return the release key of a correction of a result that went out under a wrong patient."""
    part = "withdrawn" if withdraws else "right"
    return f"{report_id}:merge-{change_id}-{part}:{order}"


def read_sent_documents(
    connection: Connection, delivery: ClaimedDelivery
) -> list[tuple[SentDocument, ...]] | None:
    """
    Read the objects of a report that a PACS has accepted, those of each delivery, newest first.

    None if one of the deliveries does not have the digest with which it was stored.
    """
    found = []
    # A PACS gets one delivery for all orders of a report, whichever these are by now.
    for row in connection.execute(_sent_before(delivery).order_by(_DELIVERY.id.desc())):
        payload = bytes(row.payload)
        if not is_intact(payload, row.digest):
            return None
        found.append(sent_objects(payload, in_withdrawal=ResultEvent(row.event) in WITHDRAWALS))
    return found


def _sent_before(delivery: ClaimedDelivery) -> Select[tuple[Any, ...]]:
    return (
        select(
            _DELIVERY.release_key,
            _DELIVERY.event,
            DELIVERY_BODY.c.payload,
            DELIVERY_BODY.c.digest,
        )
        .join_from(DELIVERY, DELIVERY_BODY, DELIVERY_BODY.c.delivery_id == _DELIVERY.id)
        .where(*_is_before(delivery), _DELIVERY.state == QueueState.DONE.value)
    )


def current_observations(messages: Iterable[bytes]) -> tuple[SentSection, ...]:
    """Return the observations after messages in order: OBX-11 adds or removes each of them."""
    current: dict[SentSection, None] = {}
    for message in messages:
        for observation in Message.parse(message).named("OBX"):
            status = observation.value("OBX-11")
            key = SentSection(
                observation.value("OBX-3.1"),
                observation.value("OBX-3.3"),
                observation.value("OBX-4"),
            )
            if status in _REMOVED:
                current.pop(key, None)
            elif status != _ORDER_DETAIL:
                current[key] = None
    return tuple(current)
