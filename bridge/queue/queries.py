"""
Look at what is queued, for operators and metrics.

Reads only. Lists carry no patient data; the messages themselves come with `message` and
`delivery` alone, for those whose role lets them see one. Blocking: call it from a thread.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, TableClause, func, literal, select

from bridge.queue import payload_blobs
from bridge.queue.errors import NoSuchRow
from bridge.queue.listing_rows import DeliveryDetail, DeliveryRow, Depth, MessageDetail, MessageRow
from bridge.queue.retention.rows import id_at
from bridge.queue.statements import DELIVERY, DELIVERY_BODY, MESSAGE, MESSAGE_BODY
from bridge.queue.states import AcknowledgmentState, QueueState
from bridge.store.database import Database

OPEN = (QueueState.QUEUED, QueueState.CLAIMED, QueueState.PARKED)
ATTENTION = (QueueState.PARKED, QueueState.REFUSED, QueueState.CANCELLED)
"""What wants a person, or wanted one: the few that have an index."""
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Filter:
    """What to list: the newest first, or those before the id `before`; None leaves it open."""

    state: QueueState | None = None
    source: str | None = None  # the listener of messages, the destination of deliveries
    report_id: str | None = None  # of deliveries
    since: int | None = None  # ms
    before: int | None = None
    limit: int = 50
    reports: frozenset[str] | None = None  # of deliveries: of one of these reports
    control_id: str | None = None  # MSH-10 of deliveries


def messages(database: Database, wanted: Filter) -> list[MessageRow]:
    """List messages, newest first."""
    rows = _rows(MESSAGE, MessageRow)
    with database.read() as connection:
        statement = _filtered(connection, rows, MESSAGE, wanted, "listener", "received_at")
        return [listed_message(row) for row in connection.execute(statement).mappings()]


def message(database: Database, message_id: int) -> MessageDetail:
    """Give one message with its content. Raises NoSuchRow."""
    rows = _rows(MESSAGE, MessageRow).where(MESSAGE.c.id == message_id)
    content = (
        select(MESSAGE_BODY.c.payload, MESSAGE_BODY.c.ack, MESSAGE.c.notes)
        .join_from(MESSAGE, MESSAGE_BODY, MESSAGE_BODY.c.message_id == MESSAGE.c.id)
        .where(MESSAGE.c.id == message_id)
    )
    with database.read() as connection:
        row = connection.execute(rows).mappings().first()
        body = connection.execute(content).first()
        if row is None or body is None:
            raise NoSuchRow("message", message_id)
        payload = payload_blobs.content(connection, message_id, body.payload)
    notes = json.loads(body.notes) if body.notes else None
    return MessageDetail(listed_message(row), payload, bytes(body.ack), notes)


def deliveries(database: Database, wanted: Filter) -> list[DeliveryRow]:
    """List deliveries, newest first."""
    rows = _rows(DELIVERY, DeliveryRow)
    if wanted.report_id is not None:
        rows = rows.where(DELIVERY.c.report_id == wanted.report_id)
    if wanted.reports is not None:
        rows = rows.where(DELIVERY.c.report_id.in_(sorted(wanted.reports)))
    if wanted.control_id is not None:
        rows = rows.where(DELIVERY.c.control_id == wanted.control_id)
    with database.read() as connection:
        statement = _filtered(connection, rows, DELIVERY, wanted, "destination", "created_at")
        return [listed_delivery(row) for row in connection.execute(statement).mappings()]


def destinations_of(database: Database, ids: Sequence[int]) -> frozenset[str]:
    """Give the destinations that these deliveries are for."""
    found: set[str] = set()
    with database.read() as connection:
        for start in range(0, len(ids), _AT_ONCE):
            asked = DELIVERY.c.id.in_(ids[start : start + _AT_ONCE])
            found.update(connection.execute(select(DELIVERY.c.destination).where(asked)).scalars())
    return frozenset(found)


def delivery(database: Database, delivery_id: int) -> DeliveryDetail:
    """Give one delivery with its content. Raises NoSuchRow."""
    rows = _rows(DELIVERY, DeliveryRow).where(DELIVERY.c.id == delivery_id)
    content = (
        select(DELIVERY_BODY.c.payload, DELIVERY.c.orders, DELIVERY.c.reply)
        .outerjoin_from(DELIVERY, DELIVERY_BODY, DELIVERY_BODY.c.delivery_id == DELIVERY.c.id)
        .where(DELIVERY.c.id == delivery_id)
    )
    with database.read() as connection:
        row = connection.execute(rows).mappings().first()
        body = connection.execute(content).first()
    if row is None or body is None:
        raise NoSuchRow("delivery", delivery_id)
    orders = json.loads(body.orders)
    return DeliveryDetail(listed_delivery(row), orders, _bytes(body.payload), _bytes(body.reply))


def open_messages(database: Database) -> dict[QueueState, Depth]:
    """Count what is queued, claimed or parked. Costs what is open, not what is done."""
    with database.read() as connection:
        found = _depths(connection, MESSAGE, "listener", "received_at", by_source=False)
        return found.get("", {})


def open_by_listener(database: Database) -> dict[str, dict[QueueState, Depth]]:
    """Count what is queued, claimed or parked, for each listener that has any."""
    with database.read() as connection:
        return _depths(connection, MESSAGE, "listener", "received_at", by_source=True)


def open_deliveries(database: Database) -> dict[str, dict[QueueState, Depth]]:
    """Count what is queued, claimed or parked, for each destination that has any."""
    with database.read() as connection:
        return _depths(connection, DELIVERY, "destination", "created_at", by_source=True)


MOST_REFUSED = 1000
"""Refused messages that are looked at: the newest."""


def refused_since(database: Database, since: int) -> dict[str, int]:
    """Count what each listener has refused since then (ms), among the newest of all."""
    newest = (
        select(MESSAGE.c.listener, MESSAGE.c.received_at)
        .where(*in_state(MESSAGE, QueueState.REFUSED))
        .order_by(MESSAGE.c.id.desc())
        .limit(MOST_REFUSED)
    )
    with database.read() as connection:
        rows = connection.execute(newest).all()
    return dict(Counter(row.listener for row in rows if row.received_at >= since))


def totals(database: Database) -> dict[str, dict[QueueState, int]]:
    """Count all by state. Reads every row: for people, not for metrics."""
    found: dict[str, dict[QueueState, int]] = {}
    with database.read() as connection:
        for table in (MESSAGE, DELIVERY):
            counted = select(table.c.state, func.count()).group_by(table.c.state)
            rows = connection.execute(counted)
            found[table.name] = {QueueState(state): number for state, number in rows}
    return found


def _rows(table: TableClause, row: type[MessageRow | DeliveryRow]) -> Select[Any]:
    return select(*(table.c[each.name] for each in fields(row)))


def _filtered(
    connection: Connection,
    statement: Select[Any],
    table: TableClause,
    wanted: Filter,
    source: str,
    came: str,
) -> Select[Any]:
    key = list_id(table, alone=are_few(connection, table, wanted.state))
    if wanted.state is not None:
        statement = statement.where(*in_state(table, wanted.state))
    if wanted.source is not None:
        statement = statement.where(table.c[source] == wanted.source)
    if wanted.since is not None:
        first = id_at(connection, table, came, wanted.since)
        statement = statement.where(key >= first, table.c[came] >= wanted.since)
    if wanted.before is not None:
        statement = statement.where(key < wanted.before)
    return statement.order_by(key.desc()).limit(wanted.limit)


def _depths(
    connection: Connection, table: TableClause, source: str, came: str, *, by_source: bool
) -> dict[str, dict[QueueState, Depth]]:
    """Count the open states one by one: each has an index of its own, together they have none."""
    found: dict[str, dict[QueueState, Depth]] = {}
    group = [out_of_order(table.c[source])] if by_source else []
    for state in OPEN:
        counted = select(func.count(), func.min(table.c.id), *group).group_by(*group)
        known = counted.where(*in_state(table, state))
        for number, first, *names in connection.execute(known):
            if number:
                oldest = select(table.c[came]).where(table.c.id == first)
                depth = Depth(number, connection.execute(oldest).scalar_one())
                found.setdefault("".join(names), {})[state] = depth
    return found


def in_state(table: TableClause, state: QueueState) -> list[ColumnElement[bool]]:
    """
    Make the conditions by which rows in a state are found by its partial index.

    Written out, not bound: such an index is used only for a state that is known. And with the
    index's own condition beside, for SQLite does not see that it follows.
    """
    conditions: list[ColumnElement[bool]] = [table.c.state == _literal(state)]
    if state in ATTENTION:
        conditions.append(table.c.state.in_([_literal(each) for each in ATTENTION]))
    return conditions


FEW = 5000
"""So many rows are sorted for a page without anybody waiting."""


def are_few(connection: Connection, table: TableClause, state: QueueState | None) -> bool:
    """Tell whether so little waits, or is in hand, that all of it can be sorted for a page."""
    if state not in (QueueState.QUEUED, QueueState.CLAIMED):
        return False
    some = select(literal(1)).select_from(table).where(*in_state(table, state)).limit(FEW + 1)
    return connection.execute(select(func.count()).select_from(some.subquery())).scalar_one() <= FEW


def list_id(table: TableClause, *, alone: bool) -> ColumnElement[int]:
    """
    Make the id by which a list goes. With `try_lock` the rows are found by their state, and sorted.

    Else it may go down all ids until it has enough: long, where there are few.
    """
    return table.c.id + 0 if alone else table.c.id


def out_of_order(name: ColumnElement[str]) -> ColumnElement[str]:
    """Make what to group by so that no index of all rows is walked because it has that order."""
    return name.concat("")


def _literal(state: QueueState) -> ColumnElement[str]:
    return literal(state.value, literal_execute=True)


def listed_message(row: Mapping[Any, Any]) -> MessageRow:
    """Make a message's row of its columns, for those who look in other ways."""
    states = {
        "state": QueueState(row["state"]),
        "acknowledgment": AcknowledgmentState(row["acknowledgment"]),
    }
    return MessageRow(**{**row, **states})


def listed_delivery(row: Mapping[Any, Any]) -> DeliveryRow:
    """Make a delivery's row of its columns, for those who look in other ways."""
    return DeliveryRow(**{**row, "state": QueueState(row["state"])})


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
