"""
Operator actions on the queue: replay, retry, skip and cancel.

Each checks `states.TRANSITIONS` and raises IllegalTransition if the state does not allow the
action. Blocking: call from a thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    TableClause,
    Update,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from bridge.queue.digests import digest, stored_digest
from bridge.queue.errors import NoSuchRow, StateChanged
from bridge.queue.lanes import Lanes
from bridge.queue.log_tables import pull_new
from bridge.queue.outbox import NewDelivery, insert_deliveries, serialize_report
from bridge.queue.statements import (
    DELIVERY,
    DELIVERY_BODY,
    INBOX,
    MESSAGE,
    OUTBOX,
    SET_ENTRY,
    LaneStatements,
    entry_row,
)
from bridge.queue.states import QueueEvent, QueueState, next_state
from bridge.queue.wakeup import CHANNEL
from bridge.store.database import Database
from bridge.store.statements import execute_all
from bridge.store.tables import DELIVERY_EDITS

_RESET_TRIES = text("UPDATE delivery SET tries = 0 WHERE id = :id")
"""Begin the back-off anew. NULL would mean that the message was never sent."""

OVERTAKEN_WINDOW = 1_000_000
"""Number of newer messages that are searched for the same lanes."""

_NOTIFY_ALL = text(
    "SELECT pg_notify(:channel, '')"
)  # no sender mark: this process is notified as well


@dataclass(frozen=True, slots=True)
class Routing:
    """
    The new mapping and lanes of a replayed message.

    `entry`: the bits of the tags that its orders lack now, and the number of orders; None: unknown.
    """

    mapping: str
    mapping_version: str
    lanes: tuple[int, ...]
    entry: tuple[int, int] | None = None


def replay_message(
    database: Database,
    message_id: int,
    routing: Routing | None = None,
    *,
    expected_state: QueueState | None = None,
) -> int:
    """
    Queue a message again, at the position of its id in its lanes.

    A refused message has no lanes and needs `routing`. Return the number of later messages of its
    lanes that were processed before this. `expected_state` is the state for which the message was
    selected. Raises NoSuchRow, StateChanged, IllegalTransition.
    """
    pull_new(database)
    queue = Lanes(database, INBOX, parked_block=False)
    overtaken = _count_overtaken(database, message_id, routing)
    with database.write() as connection:
        row = _lock_row(connection, MESSAGE, message_id, expected_state)
        _requeue(
            connection, MESSAGE, message_id, next_state(QueueState(row.state), QueueEvent.REPLAYED)
        )
        if routing is not None:
            connection.execute(_route(message_id, routing))
            if routing.entry is not None:
                connection.execute(SET_ENTRY, entry_row(message_id, routing.entry))
        lanes = _lanes_of(row, INBOX) if routing is None else routing.lanes
        queue.enter(connection, message_id, lanes)
        _notify(database, connection)
    return overtaken


def replay_parked(
    database: Database, connection: Connection, code: str, lanes: Sequence[int]
) -> Sequence[int]:
    """
    Queue messages again that are parked with `code` in these lanes; return their ids.

    In the caller's transaction, each at the position of its id. Reads all parked messages.
    """
    in_lanes = or_(MESSAGE.c.lane_1.in_(lanes), MESSAGE.c.lane_2.in_(lanes))
    parked = (MESSAGE.c.state == QueueState.PARKED.value, MESSAGE.c.code == code)
    return _replay_rows(database, connection, *parked, in_lanes)


def replay_waiting(database: Database, connection: Connection, ids: Sequence[int]) -> Sequence[int]:
    """
    Queue those of these messages again that have been processed or parked; return their ids.

    In the caller's transaction, each at the position of its id.
    """
    states = [QueueState.PARKED.value, QueueState.DONE.value]
    chosen = (MESSAGE.c.id.in_(ids), MESSAGE.c.state.in_(states))
    return _replay_rows(database, connection, *chosen) if ids else ()


def _replay_rows(
    database: Database, connection: Connection, *conditions: ColumnElement[bool]
) -> Sequence[int]:
    query = select(MESSAGE).where(*conditions).order_by(MESSAGE.c.id).with_for_update()
    rows = connection.execute(query).all()
    queue = Lanes(database, INBOX, parked_block=False)
    for row in rows:
        state = next_state(QueueState(row.state), QueueEvent.REPLAYED)
        _requeue(connection, MESSAGE, row.id, state)
        queue.enter(connection, row.id, _lanes_of(row, INBOX))
    if rows:
        _notify(database, connection)
    return [row.id for row in rows]


def cancel_message(database: Database, message_id: int) -> None:
    pull_new(database)
    _cancel(database, Lanes(database, INBOX, parked_block=False), MESSAGE, INBOX, message_id)


def retry_delivery(
    database: Database, delivery_id: int, *, expected_state: QueueState | None = None
) -> None:
    """
    Queue a delivery again, or make its next attempt due now; the bytes stay the same.

    The waits between its next attempts begin with the shortest one.

    `expected_state` as for `replay_message`.
    """
    queue = Lanes(database, OUTBOX, parked_block=True)
    with database.write() as connection:
        row = _lock_row(connection, DELIVERY, delivery_id, expected_state)
        state = QueueState(row.state)
        if state is not QueueState.QUEUED:
            state = next_state(state, QueueEvent.REPLAYED)
        _requeue(connection, DELIVERY, delivery_id, state)
        connection.execute(_RESET_TRIES, {"id": delivery_id})
        queue.enter(connection, delivery_id, _lanes_of(row, OUTBOX))
        database.notify(connection, CHANNEL)


def skip_delivery(database: Database, delivery_id: int) -> None:
    """Cancel a queued or parked delivery; later deliveries of its report continue."""
    queue = Lanes(database, OUTBOX, parked_block=True)
    _cancel(database, queue, DELIVERY, OUTBOX, delivery_id)


@dataclass(frozen=True, slots=True)
class EditedDelivery:
    """An edited copy of a delivery; `at` is in ms."""

    payload: bytes
    control_id: str
    release_key: str
    at: int
    email: str
    reason: str


def send_edited_delivery(
    database: Database,
    delivery_id: int,
    edited: EditedDelivery,
    check: Callable[[Connection, Row[Any]], None],
) -> int:
    """
    Queue an edited copy of a delivery as a new one, in the lane of the original; return its id.

    A copy whose key is known is not queued again. An unfinished original is cancelled in the same
    transaction. `check` raises if the original must not be sent again. Raises NoSuchRow, and
    IllegalTransition while the original is being sent.
    """
    queue = Lanes(database, OUTBOX, parked_block=True)
    with database.write() as connection:
        row = _lock_row(connection, DELIVERY, delivery_id)
        execute_all(connection, serialize_report(database, row.destination, row.report_id))
        check(connection, row)
        if QueueState(row.state) not in _FINISHED:
            _cancel_row(connection, queue, DELIVERY, OUTBOX, row)
        known = {name: getattr(row, name) for name in _COPIED}
        copy = NewDelivery(
            **known,
            release_key=edited.release_key,
            control_id=edited.control_id,
            created_at=edited.at,
        )
        is_new = insert_deliveries(connection, [copy])
        same_key = (
            DELIVERY.c.destination == row.destination,
            DELIVERY.c.release_key == edited.release_key,
        )
        copy_id = int(connection.execute(select(DELIVERY.c.id).where(*same_key)).scalar_one())
        if not is_new:
            return copy_id
        stored = stored_digest(digest(edited.payload))
        body = {"delivery_id": copy_id, "payload": edited.payload, "digest": stored}
        connection.execute(insert(DELIVERY_BODY), body)
        reason = {"at": edited.at, "email": edited.email, "reason": edited.reason}
        origin = {"delivery_id": copy_id, "origin_id": delivery_id}
        connection.execute(insert(DELIVERY_EDITS), {**origin, **reason})
        database.notify(connection, CHANNEL)
        return copy_id


@dataclass(frozen=True, slots=True)
class FollowingDelivery:
    """A delivery that follows another one; `orders` is the JSON text that composes its message."""

    release_key: str
    event: str
    orders: str


def send_following(
    database: Database,
    connection: Connection,
    delivery_id: int,
    following: Sequence[FollowingDelivery],
    now: int,
) -> int:
    """
    Queue deliveries to the receiver and in the lane of another one, after it; `now` in ms.

    Return how many are new: those whose key is known are not queued again. Raises NoSuchRow.
    """
    row = _lock_row(connection, DELIVERY, delivery_id)
    execute_all(connection, serialize_report(database, row.destination, row.report_id))
    known = {name: getattr(row, name) for name in _COPIED if name not in {"event", "orders"}}
    new = insert_deliveries(
        connection,
        [
            NewDelivery(
                **known,
                release_key=delivery.release_key,
                event=delivery.event,
                orders=delivery.orders,
                created_at=now,
            )
            for delivery in following
        ],
    )
    database.notify(connection, CHANNEL)
    return new


_FINISHED = frozenset({QueueState.DONE, QueueState.IGNORED, QueueState.CANCELLED})
_COPIED = ("destination", "lane", "report_id", "event", "orders", "release_at", "sites_hash")


def _cancel(
    database: Database, queue: Lanes, table: TableClause, statements: LaneStatements, row_id: int
) -> None:
    with database.write() as connection:
        row = _lock_row(connection, table, row_id)
        _cancel_row(connection, queue, table, statements, row)
        database.notify(connection, CHANNEL)


def _cancel_row(
    connection: Connection,
    queue: Lanes,
    table: TableClause,
    statements: LaneStatements,
    row: Row[Any],
) -> None:
    state = next_state(QueueState(row.state), QueueEvent.CANCELLED)
    connection.execute(update(table).where(table.c.id == row.id).values(state=state.value))
    queue.leave(connection, row.id, _lanes_of(row, statements))


def _notify(database: Database, connection: Connection) -> None:
    """Notify all listeners including this process, whose worker may not scan old rows."""
    if database.dialect == "postgresql":
        connection.execute(_NOTIFY_ALL, {"channel": CHANNEL})


def _lock_row(
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


def _requeue(connection: Connection, table: TableClause, row_id: int, state: QueueState) -> None:
    """Queue a row with a new attempt count, due at once and not blocked."""
    statement = update(table).where(table.c.id == row_id)
    connection.execute(statement.values(state=state.value, not_before=0, attempts=0, blocked=0))


def _lanes_of(row: Row[Any], statements: LaneStatements) -> tuple[int, ...]:
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


def _count_overtaken(database: Database, message_id: int, routing: Routing | None) -> int:
    """
    Count later messages that were processed in the lanes of a message.

    No index covers processed messages: this reads the next OVERTAKEN_WINDOW rows, without blocking
    writers.
    """
    with database.read() as connection:
        if routing is None:
            query = select(MESSAGE.c.lane_1, MESSAGE.c.lane_2).where(MESSAGE.c.id == message_id)
            row = connection.execute(query).first()
            lanes = tuple(number for number in row or () if number is not None)
        else:
            lanes = routing.lanes
        in_lanes = or_(MESSAGE.c.lane_1.in_(lanes), MESSAGE.c.lane_2.in_(lanes))
        newer = MESSAGE.c.id.between(message_id + 1, message_id + OVERTAKEN_WINDOW)
        later = select(func.count()).where(
            newer, MESSAGE.c.state == QueueState.DONE.value, in_lanes
        )
        return connection.execute(later).scalar_one() if lanes else 0
