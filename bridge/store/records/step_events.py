"""
What modalities have said of orders, on its way to receivers of HL7 status messages.

Intake adds a row in the transaction that applies a performed step; delivery takes it in the one
that queues the messages.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert

from bridge.contract import OrderKey
from bridge.store.tables import STEP_EVENTS

_BATCH: Final = 200


@dataclass(frozen=True, slots=True)
class StepEventRow:
    """The status of an order by a message; `at` is when the message arrived, in ms."""

    message_id: int
    key: OrderKey
    status: str
    at: int


def add(connection: Connection, events: Iterable[StepEventRow]) -> None:
    """Add what messages say; a message that is applied again adds nothing while its row waits."""
    rows = [
        {
            "message_id": event.message_id,
            "site": event.key.site,
            "accession": event.key.accession,
            "mrn": event.key.mrn,
            "status": event.status,
            "at": event.at,
        }
        for event in events
    ]
    if rows:
        connection.execute(insert(STEP_EVENTS).on_conflict_do_nothing(), rows)


def exist(connection: Connection) -> bool:
    """True if anything waits."""
    return connection.scalar(select(STEP_EVENTS.c.id).limit(1)) is not None


def take(connection: Connection) -> list[StepEventRow]:
    """Remove the oldest rows and return them, oldest first."""
    event = STEP_EVENTS.c
    oldest = select(event.id).order_by(event.id).limit(_BATCH)
    taken = delete(STEP_EVENTS).where(event.id.in_(oldest)).returning(STEP_EVENTS)
    return [
        StepEventRow(row.message_id, OrderKey(row.site, row.mrn, row.accession), row.status, row.at)
        for row in sorted(connection.execute(taken), key=lambda row: row.id)
    ]
