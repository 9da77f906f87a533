"""
What a receiver was told of a report before, and what that makes of the next message.

The names of documents (TXA-12, TXA-13) follow from it, and the sections that a later text has to
delete at the receiver. Reads the deliveries and the messages that were sent; queues nothing.
"""

from base64 import b32encode
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from sqlalchemy import Connection, text

from bridge.queue.deliveries import ClaimedDelivery
from bridge.queue.states import QueueState
from bridge.store.statements import execute_keys, key_statement
from mappings.hl7.message import Message
from mappings.outbound.results import DocumentNames, ResultEvent, SentSection

ALL_ORDERS = "all"
"""Ends the release key of a message about all orders of a report."""

FINISHED = frozenset({ResultEvent.FINAL, ResultEvent.CORRECTION, ResultEvent.RETRACTION})
OF_AN_ADDENDUM = frozenset({ResultEvent.ADDENDUM, ResultEvent.RETRACTION})

_NUMBER_BYTES = 10  # 16 characters of base 32; with what is added, less than the 30 of TXA-12
_TOLD = key_statement(
    """
    SELECT id, report_id, release_key, event FROM delivery
    WHERE report_id IN :reports AND destination = :destination AND state = :done ORDER BY id
    """,
    "reports",
    "text",
)
_SENT = text("""
    SELECT d.release_key, b.payload FROM delivery AS d
    JOIN delivery_body AS b ON b.delivery_id = d.id
    WHERE d.report_id = :report_id AND d.id < :id AND d.destination = :destination
    AND d.state = :done ORDER BY d.id
""")
_ORDER_DETAIL = "O"
_TAKEN_BACK = frozenset({"D", "W", "X"})


@dataclass(frozen=True, slots=True)
class Told:
    """One message that was delivered; `sequence`: of the addendum told or withdrawn, else 0."""

    event: ResultEvent
    sequence: int = 0


def told_before(
    connection: Connection, deliveries: Sequence[ClaimedDelivery], destination: str
) -> dict[int, list[Told]]:
    """
    Read what a receiver was told before each of its deliveries, by their ids.

    Of the same report and orders, in the order of delivery.
    """
    reports = sorted({each.report_id for each in deliveries})
    answer = execute_keys(
        connection, _TOLD, reports, destination=destination, done=QueueState.DONE.value
    )
    delivered: defaultdict[str, list[Any]] = defaultdict(list)
    for row in answer.all():
        delivered[row.report_id].append(row)
    return {each.delivery_id: _told(each, delivered[each.report_id]) for each in deliveries}


def _told(delivery: ClaimedDelivery, delivered: Iterable[Any]) -> list[Told]:
    told: list[Told] = []
    for row in delivered:
        if row.id < delivery.delivery_id and meet(delivery.release_key, row.release_key):
            told.append(as_told(told, ResultEvent(row.event), row.release_key))
    return told


def as_told(before: Sequence[Told], event: ResultEvent, release_key: str) -> Told:
    """Say what an event is to somebody who was told others: a second final text corrects."""
    if event is ResultEvent.FINAL and any(each.event in FINISHED for each in before):
        event = ResultEvent.CORRECTION
    return Told(event, _sequence(release_key) if event in OF_AN_ADDENDUM else 0)


def since_cancelled(told: Sequence[Told]) -> tuple[ResultEvent, ...]:
    """Give the events that still stand: what came before a cancellation does not."""
    events = [each.event for each in told]
    while ResultEvent.CANCELLATION in events:
        del events[: events.index(ResultEvent.CANCELLATION) + 1]
    return tuple(events)


def document_names(report_id: str, release_key: str, told: Sequence[Told]) -> DocumentNames:
    """
    Name the document that the last of `told` is about, and the one it follows.

    What withdraws an addendum follows that addendum's document, whatever else is there. A
    correction follows the report's own, else what withdrew the last of its addenda.
    """
    base = _base(report_id, _which(release_key))
    current, number, parent, cancelled, replaced = base, base, "", 0, 0
    there = withdrawn = ""  # the report's own document, and what stands in an addendum's place
    addenda: dict[int, str] = {}
    for each in told:
        number, parent = current, ""
        if each.event is ResultEvent.ADDENDUM:
            number, parent = f"{base}.A{each.sequence}", current
            addenda[each.sequence] = number
        elif each.event is ResultEvent.RETRACTION:
            replaced += 1
            number, parent = f"{base}.R{replaced}", addenda.pop(each.sequence, there or current)
            withdrawn = number
        elif each.event is ResultEvent.CORRECTION:
            replaced += 1
            number, parent = f"{base}.R{replaced}", there or withdrawn or current
            there = current = number
        elif each.event is ResultEvent.CANCELLATION:
            cancelled += 1
            current, there = f"{base}.N{cancelled}", ""
        else:
            there = current
    return DocumentNames(number, parent)


def _base(report_id: str, which: str) -> str:
    digest = blake2b(f"{report_id}\x1f{which}".encode(), digest_size=_NUMBER_BYTES).digest()
    return b32encode(digest).decode()


def meet(one: str, other: str) -> bool:
    """Tell whether two release keys of a report are about an order in common."""
    which, others = _which(one), _which(other)
    return which == others or ALL_ORDERS in (which, others)


def _which(release_key: str) -> str:
    """Say which order of a report a delivery is about, or that it is about all."""
    return release_key.rpartition(":")[2]


def _sequence(release_key: str) -> int:
    number = release_key.split(":")[-2]
    return int(number) if number.isdecimal() else 0


def shown_before(connection: Connection, delivery: ClaimedDelivery) -> tuple[SentSection, ...]:
    """Read what the same receiver has of the same report and orders."""
    sent = connection.execute(
        _SENT,
        {
            "report_id": delivery.report_id,
            "id": delivery.delivery_id,
            "destination": delivery.destination,
            "done": QueueState.DONE.value,
        },
    )
    return shown(bytes(row.payload) for row in sent if meet(delivery.release_key, row.release_key))


def shown(messages: Iterable[bytes]) -> tuple[SentSection, ...]:
    """Follow messages in order: what is told, and what is deleted, wrong or cancelled again."""
    there: dict[SentSection, None] = {}
    for each in messages:
        for observation in Message.parse(each).named("OBX"):
            status = observation.value("OBX-11")
            key = SentSection(
                observation.value("OBX-3.1"),
                observation.value("OBX-3.3"),
                observation.value("OBX-4"),
            )
            if status in _TAKEN_BACK:
                there.pop(key, None)
            elif status != _ORDER_DETAIL:
                there[key] = None
    return tuple(there)
