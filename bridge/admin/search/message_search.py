"""
Message search by number, state, listener, time and error text; orders by one of their numbers.

Numbers use the message index, and states that need attention have a partial index. Times become id
ranges by bisection, because ids ascend with time. A page examines a bounded number of indexed rows,
or a bounded range of ids, so it costs the same on any number of messages. Blocking.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from bridge.admin.search import order_tracking
from bridge.admin.search.message_index import (
    NumberKind,
    SubjectReader,
    number_hashes,
    origin_of,
    read_numbers,
    spellings,
    visible_sites_hashes,
)
from bridge.index_key import keyed64
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from bridge.queue.listing_rows import MessageDetail, MessageRow
from bridge.queue.queries import ATTENTION, in_state, is_sortable, listed_message, listing_key
from bridge.queue.retention.rows import id_at, newest_id
from bridge.queue.statements import MESSAGE, MESSAGE_NUMBER
from bridge.queue.states import QueueState
from bridge.store.database import Database

ID_WINDOW = 20_000
"""The number of ids that one page examines without an index."""
MAX_INDEXED_ROWS = 5000
"""The number of rows that one page examines with an index."""
_TEXT_COLUMNS = ("detail", "code", "error_code", "error_place", "failure")


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """Criteria for messages; None matches all. Times in ms; `before` is an id, exclusive."""

    kind: NumberKind | None = None
    number: str = ""
    state: QueueState | None = None
    listener: str | None = None
    text: str = ""
    since: int | None = None
    until: int | None = None
    before: int | None = None
    limit: int = 50
    sites: frozenset[str] | None = None
    """Only messages that belong to these sites and to no other."""


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Rows, newest first; `further` is the `before` of the next page, None after the last one."""

    rows: Sequence[MessageRow]
    further: int | None


def search_messages(database: Database, query: MessageQuery) -> MessagePage:
    with database.read() as connection:
        newest = newest_id(connection, MESSAGE)
        low = 0 if query.since is None else id_at(connection, MESSAGE, "received_at", query.since)
        high = newest + 1 if query.before is None else query.before
        if query.until is not None:
            high = min(high, id_at(connection, MESSAGE, "received_at", query.until))
        sortable = is_sortable(connection, MESSAGE, query.state)
        floor = low if sortable else max(low, _floor(connection, query, high))
        key = listing_key(MESSAGE, by_state=sortable)
        statement = (
            select(*(MESSAGE.c[name] for name in MessageRow.__slots__))
            .where(key >= floor, key < high, *_conditions(query))
            .order_by(key.desc())
            .limit(query.limit)
        )
        found = [listed_message(row) for row in connection.execute(statement).mappings()]
    if len(found) == query.limit:
        return MessagePage(found, found[-1].id)
    return MessagePage(found, floor if floor > max(low, 1) else None)


def _floor(connection: Connection, query: MessageQuery, high: int) -> int:
    """Return the least id that this page examines."""
    if query.kind is not None:
        ids = _ids_with_number(query.kind, query.number)
        column = MESSAGE_NUMBER.c.message_id
    elif query.state in ATTENTION:
        column = MESSAGE.c.id
        ids = select(column).where(*in_state(MESSAGE, query.state))
    else:
        return high - ID_WINDOW
    last = ids.where(column < high).order_by(column.desc()).offset(MAX_INDEXED_ROWS - 1).limit(1)
    found: int | None = connection.execute(last).scalar()
    return found or 0


def _ids_with_number(kind: NumberKind, number: str) -> Select[Any]:
    matches = MESSAGE_NUMBER.c.number.in_(sorted(map(keyed64, number_hashes(kind, number))))
    return select(MESSAGE_NUMBER.c.message_id).where(matches)


def _conditions(query: MessageQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.kind is not None:
        conditions.append(MESSAGE.c.id.in_(_ids_with_number(query.kind, query.number)))
    if query.state is not None:
        conditions += in_state(MESSAGE, query.state)
    if query.listener is not None:
        conditions.append(MESSAGE.c.listener == query.listener)
    if query.sites is not None:
        visible = select(MESSAGE_NUMBER.c.message_id).where(
            MESSAGE_NUMBER.c.number.in_(map(keyed64, visible_sites_hashes(query.sites))),
            MESSAGE_NUMBER.c.message_id == MESSAGE.c.id,
        )
        conditions.append(visible.exists())
    conditions += [_contains(word) for word in query.text.split()]
    return conditions


def _contains(word: str) -> ColumnElement[bool]:
    columns = (func.lower(MESSAGE.c[name]) for name in _TEXT_COLUMNS)
    return and_(or_(*(each.contains(word.lower(), autoescape=True) for each in columns)))


MAX_MESSAGES = 20

Reach = frozenset[str] | None
Orders = list[dict[str, Any]]


def find_orders_and_messages(
    database: Database, subjects_of: SubjectReader, kind: NumberKind, number: str, reach: Reach
) -> tuple[Orders, Sequence[MessageRow]]:
    """
    Return the orders with a number, and their messages, newest first.

    The order index finds orders by accession and by patient; a merged patient's number finds the
    orders of the surviving patient. Placer and filler numbers are found in messages. The messages
    are the newest that contain the number, and the first and last message of each order.
    """
    query = MessageQuery(kind=kind, number=number, limit=MAX_MESSAGES, sites=reach)
    rows = search_messages(database, query).rows
    if kind is NumberKind.PATIENT:
        orders = _orders_of_patient(database, spellings(number), reach)
        orders = orders or _orders_of_patient(
            database, _spellings_in(database, subjects_of, number, rows), reach
        )
    else:
        orders = order_tracking.find_orders(database, spellings(number), reach)
        orders = orders or _orders_of_messages(database, subjects_of, number, rows, reach)
    return orders, _with_messages_of(database, subjects_of, orders, rows, reach)


def _with_messages_of(
    database: Database,
    subjects_of: SubjectReader,
    orders: Orders,
    rows: Sequence[MessageRow],
    reach: Reach,
) -> Sequence[MessageRow]:
    """Add the first and last message of each order, if the user may see them."""
    found = {row.id: row for row in rows}
    ids = {each[name] for each in orders for name in ("first_message", "last_message")}
    for detail in _stored_messages(
        database, sorted(ids - found.keys(), reverse=True)[:MAX_MESSAGES]
    ):
        sites = subjects_of(origin_of(detail)).sites
        if reach is None or (sites and sites <= reach):
            found[detail.row.id] = detail.row
    return [found[each] for each in sorted(found, reverse=True)]


def _orders_of_messages(
    database: Database,
    subjects_of: SubjectReader,
    number: str,
    rows: Sequence[MessageRow],
    reach: Reach,
) -> Orders:
    """Return the orders in messages that have the number as placer or filler number, else all."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for detail in _stored_messages(database, [row.id for row in rows]):
        numbers = read_numbers(detail.payload).with_subjects(subjects_of(origin_of(detail)))
        for each in order_tracking.find_orders(database, numbers.order, reach):
            if each["mrn"] in numbers.patient:
                found[each["site"], each["mrn"], each["accession"]] = each
    matching = [each for each in found.values() if _has_number(each, number)]
    return matching or list(found.values())


def _orders_of_patient(database: Database, numbers: Iterable[str], reach: Reach) -> Orders:
    return [
        order
        for number in numbers
        for order in order_tracking.find_orders_of_patient(database, number, reach)
    ]


def _spellings_in(
    database: Database, subjects_of: SubjectReader, number: str, rows: Sequence[MessageRow]
) -> set[str]:
    """Return the patient numbers of messages that differ from `number` in letter case only."""
    return {
        written
        for detail in _stored_messages(database, [row.id for row in rows])
        for written in read_numbers(detail.payload)
        .with_subjects(subjects_of(origin_of(detail)))
        .patient
        if written.casefold() == number.strip().casefold()
    }


def _stored_messages(database: Database, ids: Collection[int]) -> Iterator[MessageDetail]:
    for each in ids:
        try:
            yield queries.message(database, each)
        except NoSuchRow:  # retention has removed it
            continue


def _has_number(order: Mapping[str, Any], number: str) -> bool:
    """True if a number is the placer or filler number, in any namespace."""
    numbers = {order[name].partition("^")[0].strip() for name in ("placer", "filler")}
    return not numbers.isdisjoint(spellings(number))
