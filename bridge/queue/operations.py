"""Actions of operators on the queue: replay, retry, skip, and resubmission after a correction.

Each asks `states.TRANSITIONS` first and raises IllegalTransition where that has no answer.
Blocking: call it from a thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, TableClause, Update, func, or_, select, text, update

from bridge.queue.errors import NoSuchRow, StateChanged
from bridge.queue.lanes import Lanes
from bridge.queue.statements import DELIVERY, INBOX, MESSAGE, OUTBOX, LaneStatements
from bridge.queue.states import QueueEvent, QueueState, next_state
from bridge.queue.wakeup import CHANNEL
from bridge.store.database import Database

_WAS_IN_HAND = text("UPDATE delivery SET tries = coalesce(tries, 0) WHERE id = :id")
"""For attempts count from 0 again: what may have been sent is not written anew."""

LOOKED_THROUGH = 1_000_000
"""Newer messages among which those of the same lanes are counted: what a second will do."""

_TELL_ALL = text("SELECT pg_notify(:channel, '')")  # without the mark of whoever announces


@dataclass(frozen=True, slots=True)
class Routing:
    """Where a replayed message is to go, when that has changed since it arrived."""

    mapping: str
    mapping_version: str
    lanes: tuple[int, ...]


def replay_message(
    database: Database,
    message_id: int,
    routing: Routing | None = None,
    *,
    expected_state: QueueState | None = None,
) -> int:
    """
    Apply a message again, in the place of its id among what is unfinished in its lanes.

    A refused message never had lanes: give it its `routing`. Gives how many later messages of
    its lanes have been applied meanwhile, for whoever asked must know. `expected_state` is the
    state
    for which it was chosen, if it was. Raises NoSuchRow, NotAsChosen, IllegalTransition.
    """
    line = Lanes(database, INBOX, parked_block=False)
    overtaken = _overtaken(database, message_id, routing)
    with database.write() as connection:
        row = _locked(connection, MESSAGE, message_id, expected_state)
        before = _lanes(row, INBOX)
        _queue(
            connection, MESSAGE, message_id, next_state(QueueState(row.state), QueueEvent.REPLAYED)
        )
        if routing is not None:
            line.leave(connection, message_id, before)
            connection.execute(_route(message_id, routing))
        lanes = before if routing is None else routing.lanes
        line.enter(connection, message_id, lanes)
        _announce(database, connection)
    return overtaken


def replay_parked(
    database: Database, connection: Connection, code: str, lanes: Sequence[int]
) -> Sequence[int]:
    """
    Apply again what is parked for `code` in these lanes: the reason may be gone. Give the ids.

    In the caller's transaction, each in the place of its id. Reads what is parked.
    """
    shares = or_(MESSAGE.c.lane_1.in_(lanes), MESSAGE.c.lane_2.in_(lanes))
    parked = (MESSAGE.c.state == QueueState.PARKED.value, MESSAGE.c.code == code)
    asked = select(MESSAGE).where(*parked, shares).order_by(MESSAGE.c.id).with_for_update()
    rows = connection.execute(asked).all()
    line = Lanes(database, INBOX, parked_block=False)
    for row in rows:
        _queue(connection, MESSAGE, row.id, next_state(QueueState.PARKED, QueueEvent.REPLAYED))
        line.enter(connection, row.id, _lanes(row, INBOX))
    if rows:
        _announce(database, connection)
    return [row.id for row in rows]


def cancel_message(database: Database, message_id: int) -> None:
    """Decide that a queued or parked message is not to be applied."""
    _cancel(database, Lanes(database, INBOX, parked_block=False), MESSAGE, INBOX, message_id)


def retry_delivery(
    database: Database, delivery_id: int, *, expected_state: QueueState | None = None
) -> None:
    """
    Deliver again, or now what waits for its next attempt; the bytes stay the same.

    `expected_state` as for `replay_message`.
    """
    line = Lanes(database, OUTBOX, parked_block=True)
    with database.write() as connection:
        row = _locked(connection, DELIVERY, delivery_id, expected_state)
        state = QueueState(row.state)
        if state is not QueueState.QUEUED:
            state = next_state(state, QueueEvent.REPLAYED)
        _queue(connection, DELIVERY, delivery_id, state)
        connection.execute(_WAS_IN_HAND, {"id": delivery_id})
        line.enter(connection, delivery_id, _lanes(row, OUTBOX))
        database.notify(connection, CHANNEL)


def skip_delivery(database: Database, delivery_id: int) -> None:
    """Decide that a queued or parked delivery is not to be sent; its report's others go on."""
    line = Lanes(database, OUTBOX, parked_block=True)
    _cancel(database, line, DELIVERY, OUTBOX, delivery_id)


def _cancel(
    database: Database, line: Lanes, table: TableClause, statements: LaneStatements, row_id: int
) -> None:
    with database.write() as connection:
        row = _locked(connection, table, row_id)
        state = next_state(QueueState(row.state), QueueEvent.CANCELLED)
        connection.execute(update(table).where(table.c.id == row_id).values(state=state.value))
        line.leave(connection, row_id, _lanes(row, statements))
        database.notify(connection, CHANNEL)


def _announce(database: Database, connection: Connection) -> None:
    """Tell all listeners, those of this process too: its worker may not look among the old."""
    if database.dialect == "postgresql":
        connection.execute(_TELL_ALL, {"channel": CHANNEL})


def _locked(
    connection: Connection,
    table: TableClause,
    row_id: int,
    expected_state: QueueState | None = None,
) -> Row[Any]:
    statement = select(table).where(table.c.id == row_id).with_for_update()
    row = connection.execute(statement).first()
    if row is None:
        raise NoSuchRow(table.name, row_id)
    if expected_state is not None and row.state != expected_state:
        raise StateChanged(row.state)
    return row


def _queue(connection: Connection, table: TableClause, row_id: int, state: QueueState) -> None:
    """Begin afresh: due at once, no attempts made, nothing known to stand before it."""
    afresh = update(table).where(table.c.id == row_id)
    connection.execute(afresh.values(state=state.value, not_before=0, attempts=0, blocked=0))


def _lanes(row: Row[Any], statements: LaneStatements) -> tuple[int, ...]:
    values = (getattr(row, name) for name in statements.lanes)
    return tuple(value for value in values if value is not None)


def _route(message_id: int, routing: Routing) -> Update:
    lane_1, lane_2 = (*routing.lanes, None, None)[:2]
    return (
        update(MESSAGE)
        .where(MESSAGE.c.id == message_id)
        .values(
            mapping=routing.mapping,
            mapping_version=routing.mapping_version,
            lane_1=lane_1,
            lane_2=lane_2,
        )
    )


def _overtaken(database: Database, message_id: int, routing: Routing | None) -> int:
    """
    Count what was applied since in the lanes of a message, if there is one.

    No index has what is done: this reads the next LOOKED_THROUGH rows, and so not while others
    wait to write.
    """
    with database.read() as connection:
        if routing is None:
            asked = select(MESSAGE.c.lane_1, MESSAGE.c.lane_2).where(MESSAGE.c.id == message_id)
            row = connection.execute(asked).first()
            lanes = tuple(each for each in row or () if each is not None)
        else:
            lanes = routing.lanes
        shares = or_(MESSAGE.c.lane_1.in_(lanes), MESSAGE.c.lane_2.in_(lanes))
        newer = MESSAGE.c.id.between(message_id + 1, message_id + LOOKED_THROUGH)
        later = select(func.count()).where(newer, MESSAGE.c.state == QueueState.DONE.value, shares)
        return connection.execute(later).scalar_one() if lanes else 0
