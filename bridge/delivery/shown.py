"""
Under which OBX-3 and OBX-4 a receiver has text of a report, by what was delivered to it.

For receivers that get a report in sections: a section that a later text leaves out has to be
taken away there. Reads the messages as they were sent; knows our own form of them only.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection, text

from bridge.delivery.history import meet
from bridge.queue.deliveries import ClaimedDelivery
from bridge.queue.states import State
from mappings.hl7.message import Message
from mappings.results import Shown

_SENT = text("""
    SELECT d.release_key, b.payload FROM delivery AS d
    JOIN delivery_body AS b ON b.delivery_id = d.id
    WHERE d.report_id = :report_id AND d.id < :id AND d.destination = :destination
    AND d.state = :done ORDER BY d.id
""")
_ORDER_DETAIL = "O"
_TAKEN_BACK = frozenset({"D", "W", "X"})


class Sent(NamedTuple):
    """A message that was delivered, and what it was called."""

    release_key: str
    payload: bytes


def shown_before(connection: Connection, delivery: ClaimedDelivery) -> tuple[Shown, ...]:
    """Read what the same receiver has of the same report and orders."""
    sent = connection.execute(
        _SENT,
        {
            "report_id": delivery.report_id,
            "id": delivery.delivery_id,
            "destination": delivery.destination,
            "done": State.DONE.value,
        },
    )
    return shown(bytes(row.payload) for row in sent if meet(delivery.release_key, row.release_key))


def shown(messages: Iterable[bytes]) -> tuple[Shown, ...]:
    """Follow messages in order: what is told, and what is deleted, wrong or cancelled again."""
    there: dict[Shown, None] = {}
    for each in messages:
        for observation in Message.parse(each).named("OBX"):
            status = observation.value("OBX-11")
            key = Shown(
                observation.value("OBX-3.1"),
                observation.value("OBX-3.3"),
                observation.value("OBX-4"),
            )
            if status in _TAKEN_BACK:
                there.pop(key, None)
            elif status != _ORDER_DETAIL:
                there[key] = None
    return tuple(there)
