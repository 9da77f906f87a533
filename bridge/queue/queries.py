"""
Queries on the queues for operators and metrics.

Read only. `message` and `delivery` return payloads, and the caller checks the permission. The lists
are in `bridge.admin.lists`. Blocking: call from a thread.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    TableClause,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
)

from bridge.queue import payload_blobs
from bridge.queue.digests import is_intact
from bridge.queue.errors import NoSuchRow
from bridge.queue.listing_rows import DeliveryDetail, DeliveryRow, Depth, MessageDetail, MessageRow
from bridge.queue.log_tables import pull_new
from bridge.queue.notes import read_notes
from bridge.queue.retention.rows import id_at
from bridge.queue.statements import DELIVERY, DELIVERY_BODY, MESSAGE, MESSAGE_BODY
from bridge.queue.states import AcknowledgmentState, QueueState
from bridge.store.database import Database

OPEN = (QueueState.QUEUED, QueueState.CLAIMED, QueueState.PARKED)
ATTENTION = (QueueState.PARKED, QueueState.REFUSED, QueueState.CANCELLED)
"""States that operators must look at, or that they caused. They have a partial index."""
_CHUNK = 500
# Not a column of MESSAGE, because retention archives all of those.
_DIGEST = literal_column("message.digest", BigInteger()).label("digest")


def message(database: Database, message_id: int) -> MessageDetail:
    """Return one message with its payload. Raises NoSuchRow."""
    pull_new(database)
    rows = _rows(MESSAGE, MessageRow).where(MESSAGE.c.id == message_id)
    content = (
        select(MESSAGE_BODY.c.payload, MESSAGE_BODY.c.ack, MESSAGE.c.notes, _DIGEST)
        .join_from(MESSAGE, MESSAGE_BODY, MESSAGE_BODY.c.message_id == MESSAGE.c.id)
        .where(MESSAGE.c.id == message_id)
    )
    with database.read() as connection:
        row = connection.execute(rows).mappings().first()
        body = connection.execute(content).first()
        if row is None or body is None:
            raise NoSuchRow("message", message_id)
        payload = payload_blobs.content(connection, message_id, body.payload)
    notes = read_notes(body.notes)
    is_damaged = bool(payload) and not is_intact(payload, body.digest)
    return MessageDetail(listed_message(row), payload, bytes(body.ack), notes, is_damaged)


_WITH_IDENTITY = {
    "sqlite": text("SELECT id FROM message WHERE identity = :identity ORDER BY id LIMIT 1"),
    "postgresql": text(
        "SELECT message_id FROM message_identity WHERE identity = :identity"
        " ORDER BY message_id LIMIT 1"
    ),
}


def payload_with_identity(connection: Connection, identity: int) -> bytes | None:
    """Return the payload of the first message in the queue that has an identity."""
    found = connection.scalar(_WITH_IDENTITY[connection.dialect.name], {"identity": identity})
    if found is None:
        return None
    stored = select(MESSAGE_BODY.c.payload).where(MESSAGE_BODY.c.message_id == found)
    payload = connection.scalar(stored)
    return None if payload is None else payload_blobs.content(connection, found, payload)


def message_state(database: Database, message_id: int) -> QueueState:
    """Return the state of one message without reading its content. Raises NoSuchRow."""
    pull_new(database)
    with database.read() as connection:
        statement = select(MESSAGE.c.state).where(MESSAGE.c.id == message_id)
        state = connection.execute(statement).scalar()
    if state is None:
        raise NoSuchRow("message", message_id)
    return QueueState(state)


def destinations_of(database: Database, ids: Sequence[int]) -> frozenset[str]:
    found: set[str] = set()
    with database.read() as connection:
        for start in range(0, len(ids), _CHUNK):
            listed = DELIVERY.c.id.in_(ids[start : start + _CHUNK])
            found.update(connection.execute(select(DELIVERY.c.destination).where(listed)).scalars())
    return frozenset(found)


def delivery(database: Database, delivery_id: int) -> DeliveryDetail:
    """Return one delivery with its payload. Raises NoSuchRow."""
    rows = _rows(DELIVERY, DeliveryRow).where(DELIVERY.c.id == delivery_id)
    content = (
        select(DELIVERY_BODY.c.payload, DELIVERY.c.orders, DELIVERY.c.reply, DELIVERY_BODY.c.digest)
        .outerjoin_from(DELIVERY, DELIVERY_BODY, DELIVERY_BODY.c.delivery_id == DELIVERY.c.id)
        .where(DELIVERY.c.id == delivery_id)
    )
    with database.read() as connection:
        row = connection.execute(rows).mappings().first()
        body = connection.execute(content).first()
    if row is None or body is None:
        raise NoSuchRow("delivery", delivery_id)
    orders = json.loads(body.orders)
    payload = _bytes(body.payload)
    is_damaged = payload is not None and not is_intact(payload, body.digest)
    return DeliveryDetail(listed_delivery(row), orders, payload, _bytes(body.reply), is_damaged)


def open_messages(database: Database) -> dict[QueueState, Depth]:
    """Count queued, claimed and parked messages. The cost depends on their number only."""
    pull_new(database)
    with database.read() as connection:
        found = _depths(connection, MESSAGE, "listener", "received_at", by_source=False)
        return found.get("", {})


def open_by_listener(database: Database) -> dict[str, dict[QueueState, Depth]]:
    """Count queued, claimed and parked messages by listener."""
    pull_new(database)
    with database.read() as connection:
        return _depths(connection, MESSAGE, "listener", "received_at", by_source=True)


def open_deliveries(database: Database) -> dict[str, dict[QueueState, Depth]]:
    """Count queued, claimed and parked deliveries by destination."""
    with database.read() as connection:
        return _depths(connection, DELIVERY, "destination", "created_at", by_source=True)


REFUSED_WINDOW = 1000
"""Number of refused messages that are examined, newest first."""


def refused_since(database: Database, since: int) -> dict[str, int]:
    """Count refused messages by listener since a time (ms), among the newest ones."""
    pull_new(database)
    newest = (
        select(MESSAGE.c.listener, MESSAGE.c.received_at)
        .where(*in_state(MESSAGE, QueueState.REFUSED))
        .order_by(MESSAGE.c.id.desc())
        .limit(REFUSED_WINDOW)
    )
    with database.read() as connection:
        rows = connection.execute(newest).all()
    return dict(Counter(row.listener for row in rows if row.received_at >= since))


def claimed_in_lanes(connection: Connection, lanes: Collection[int]) -> set[tuple[int, int]]:
    """Return the claimed messages in these lanes, each with the number of its attempt."""
    own = or_(MESSAGE.c.lane_1.in_(lanes), MESSAGE.c.lane_2.in_(lanes))
    rows = select(MESSAGE.c.id, MESSAGE.c.attempts)
    claimed = rows.where(*in_state(MESSAGE, QueueState.CLAIMED), own)
    return {(row.id, row.attempts) for row in connection.execute(claimed)}


COUNTED_MESSAGES = 100_000
"""Number of messages that are counted by definition, newest first."""


@dataclass(frozen=True, slots=True)
class MessageCount:
    """Messages of a definition; `refused` are among them."""

    messages: int = 0
    refused: int = 0


def count_by_definition(database: Database, since: int) -> tuple[Mapping[str, MessageCount], bool]:
    """
    Count messages by definition since a time (ms), among the newest ones.

    Return also whether those are all since then.
    """
    pull_new(database)
    refused = case((MESSAGE.c.state == QueueState.REFUSED, 1), else_=0)
    with database.read() as connection:
        first = id_at(connection, MESSAGE, "received_at", since)
        newest = connection.execute(select(func.max(MESSAGE.c.id))).scalar() or 0
        low = max(first, newest - COUNTED_MESSAGES + 1)
        counts = (
            select(MESSAGE.c.mapping, func.count(), func.sum(refused))
            .where(MESSAGE.c.id >= low)
            .group_by(MESSAGE.c.mapping)
        )
        rows = connection.execute(counts).all()
    return {name: MessageCount(count, int(bad)) for name, count, bad in rows}, low == first


def _rows(table: TableClause, row: type[MessageRow | DeliveryRow]) -> Select[Any]:
    return select(*(table.c[field.name] for field in fields(row)))


def _depths(
    connection: Connection, table: TableClause, source: str, stored_at: str, *, by_source: bool
) -> dict[str, dict[QueueState, Depth]]:
    """Count the open states one by one: each has its own index, together they have none."""
    found: dict[str, dict[QueueState, Depth]] = {}
    group = [unindexed(table.c[source])] if by_source else []
    for state in OPEN:
        counted = select(func.count(), func.min(table.c.id), *group).group_by(*group)
        in_this_state = counted.where(*in_state(table, state))
        for number, first, *names in connection.execute(in_this_state):
            if number:
                oldest = select(table.c[stored_at]).where(table.c.id == first)
                depth = Depth(number, connection.execute(oldest).scalar_one())
                found.setdefault("".join(names), {})[state] = depth
    return found


def in_state(table: TableClause, state: QueueState) -> list[ColumnElement[bool]]:
    """
    Return conditions that find rows of a state by its partial index.

    The state is a literal, because a partial index needs a known value. The condition of the index
    is repeated, because SQLite does not infer it.
    """
    conditions: list[ColumnElement[bool]] = [table.c.state == _literal(state)]
    if state in ATTENTION:
        conditions.append(table.c.state.in_([_literal(other) for other in ATTENTION]))
    return conditions


def unindexed(name: ColumnElement[str]) -> ColumnElement[str]:
    """Return a grouping expression that prevents a scan of an index of all rows."""
    return name.concat("")


def _literal(state: QueueState) -> ColumnElement[str]:
    return literal(state.value, literal_execute=True)


def listed_message(row: Mapping[Any, Any]) -> MessageRow:
    """Convert the columns of a message."""
    states = {
        "state": QueueState(row["state"]),
        "acknowledgment": AcknowledgmentState(row["acknowledgment"]),
    }
    return MessageRow(**{**row, **states})


def listed_delivery(row: Mapping[Any, Any]) -> DeliveryRow:
    """Convert the columns of a delivery."""
    return DeliveryRow(**{**row, "state": QueueState(row["state"])})


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
