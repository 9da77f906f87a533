"""
A message's or an order's way in time: frame, acknowledgment, report, what was sent, its reply.

Pure. Times in ms, None where none is kept; words are codes that the app puts into sentences.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bridge.queue.rows import DeliveryRow, MessageRow
from bridge.queue.states import State

Orders = Sequence[Mapping[str, Any]]
_OPEN = frozenset({State.QUEUED, State.CLAIMED})


def timeline(
    row: MessageRow,
    orders: Orders,
    sent: Iterable[DeliveryRow],
    edits: Iterable[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """Give the steps in the order in which they follow from each other."""
    return [
        *_made_of(row, edits),
        *_taken(row),
        *_made_into(row, edits),
        *_reported(orders),
        *(step for each in sent for step in _delivered(each)),
    ]


def journey(
    messages: Iterable[MessageRow], orders: Orders, sent: Iterable[DeliveryRow]
) -> list[dict[str, Any]]:
    """Give the steps of all messages of an order, of its reports and deliveries, as they were."""
    steps = [
        *(step for each in messages for step in _taken(each)),
        *_reported(orders),
        *(step for each in sent for step in _delivered(each)),
    ]
    return sorted(steps, key=lambda step: (step["at"] is None, step["at"] or 0))


def _taken(row: MessageRow) -> Iterator[dict[str, Any]]:
    about = {"message": row.id}
    yield _step("received", row.received_at, name=row.listener, code=row.message_type, **about)
    told = {"name": row.acknowledgment.value, "code": row.ack_code}
    yield _step("acknowledged", row.received_at, **told, **about)
    yield _step(row.state.value, row.settled_at, code=row.code, count=row.attempts, **about)


def _made_of(row: MessageRow, edits: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in edits:
        if each["message_id"] == row.id:
            yield _step("edited", each["at"], name=each["email"], message=each["origin_id"])


def _made_into(row: MessageRow, edits: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in edits:
        if each["origin_id"] == row.id:
            yield _step("sent_again", each["at"], name=each["email"], message=each["message_id"])


def _reported(orders: Orders) -> Iterator[dict[str, Any]]:
    reports = {each["report_id"]: each for each in orders if each["report_id"]}
    for report, each in reports.items():
        yield _step("report", each["changed_at"], name=report, code=each["status"] or "")


def _delivered(row: DeliveryRow) -> Iterator[dict[str, Any]]:
    about = {"name": row.destination, "delivery": row.id}
    yield _step("composed", row.created_at, code=row.event, **about)
    if row.sent_at is not None:
        yield _step("sent", row.sent_at, count=row.attempts, **about)
    if row.acknowledged_at is not None:
        yield _step("accepted", row.acknowledged_at, **about)
    elif row.state not in _OPEN:
        yield _step(row.state.value, row.settled_at, code=row.code, **about)


def _step(kind: str, at: int | None, **about: Any) -> dict[str, Any]:
    step = {"kind": kind, "at": at, "name": "", "code": "", "count": 0}
    return {**step, "delivery": None, "message": None, **about}
