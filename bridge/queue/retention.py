"""
Forget what is finished and old.

In small transactions, so that no acknowledgment waits for housekeeping. What is queued, in hand
or parked is never touched, nor is the newest row: its id must not be given twice.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import TableClause, delete, func, select

from bridge.queue.states import State
from bridge.queue.tables import DELIVERY, DELIVERY_BODY, MESSAGE, MESSAGE_BODY
from bridge.store.database import Database

BATCH = 500
_FINISHED = [State.DONE, State.IGNORED, State.REFUSED, State.CANCELLED]


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows went."""

    messages: int
    deliveries: int


def prune(
    database: Database,
    before: int,
    *,
    batch: int = BATCH,
    pause: Callable[[], None] = lambda: None,
) -> Pruned:
    """
    Delete what came and was settled before `before` (ms); `pause` is called between batches.

    With a message goes the memory of its control id: a retransmit of it is then a new message.
    """
    sweep = _Sweep(database, before, batch, pause)
    return Pruned(
        messages=sweep.table(MESSAGE, MESSAGE_BODY, "message_id", "received_at"),
        deliveries=sweep.table(DELIVERY, DELIVERY_BODY, "delivery_id", "created_at"),
    )


@dataclass(frozen=True, slots=True)
class _Sweep:
    database: Database
    before: int
    batch: int
    pause: Callable[[], None]

    def table(self, rows: TableClause, bodies: TableClause, key: str, came: str) -> int:
        """Go through a table by id, which is by age; give how many rows went."""
        gone, after = 0, 0
        while True:
            with self.database.write() as connection:
                newest = select(func.max(rows.c.id)).scalar_subquery()
                old = (
                    select(rows.c.id)
                    .where(rows.c.id > after, rows.c.id < newest, rows.c[came] < self.before)
                    .where(rows.c.state.in_([state.value for state in _FINISHED]))
                    .where(func.coalesce(rows.c.settled_at, 0) < self.before)
                    .order_by(rows.c.id)
                    .limit(self.batch)
                )
                ids = list(connection.execute(old).scalars())
                connection.execute(delete(bodies).where(bodies.c[key].in_(ids)))
                connection.execute(delete(rows).where(rows.c.id.in_(ids)))
            gone += len(ids)
            if len(ids) < self.batch:
                return gone
            after = ids[-1]
            self.pause()
