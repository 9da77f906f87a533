"""
A message's way in time: frame, acknowledgment, report, what was sent of it, its acknowledgment.

Pure. Times in ms, None where none is kept; words are codes that the app puts into sentences.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bridge.queue.rows import DeliveryRow, MessageRow
from bridge.queue.states import State

_OPEN = frozenset({State.QUEUED, State.CLAIMED})


def timeline(
    row: MessageRow, orders: Sequence[Mapping[str, Any]], sent: Sequence[DeliveryRow]
) -> list[dict[str, Any]]:
    """Give the steps in the order in which they follow from each other."""
    reports = {each["report_id"]: each for each in orders if each["report_id"]}
    return [
        _step("received", row.received_at, name=row.listener, code=row.message_type),
        _step("acknowledged", row.received_at, name=row.acknowledgment, code=row.ack_code),
        _step(row.state.value, row.settled_at, code=row.code, count=row.attempts),
        *(
            _step("report", each["changed_at"], name=report, code=each["status"] or "")
            for report, each in reports.items()
        ),
        *(step for each in sent for step in _delivered(each)),
    ]


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
    return {"kind": kind, "at": at, "name": "", "code": "", "count": 0, "delivery": None, **about}
