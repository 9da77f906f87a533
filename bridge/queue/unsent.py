"""
Messages that were written ahead and that nobody has had in hand: to be written anew.

What was sent once stays as it is: the same bytes under the same control id. So their rows are held
against who would claim them in the same moment.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from bridge.queue.states import State
from bridge.queue.tables import DELIVERY, DELIVERY_BODY

_CHUNK = 500
_WAITING = DELIVERY.c.state == State.QUEUED.value, DELIVERY.c.attempts == 0


def unwrite(connection: Connection, reports: Sequence[str]) -> None:
    """Have the waiting messages about reports written when their turn comes."""
    for start in range(0, len(reports), _CHUNK):
        about = DELIVERY.c.report_id.in_(reports[start : start + _CHUNK])
        held = select(DELIVERY.c.id).where(about, *_WAITING).order_by(DELIVERY.c.id)
        found = connection.execute(held.with_for_update()).scalars().all()
        for at in range(0, len(found), _CHUNK):
            some = DELIVERY_BODY.c.delivery_id.in_(found[at : at + _CHUNK])
            connection.execute(delete(DELIVERY_BODY).where(some))
