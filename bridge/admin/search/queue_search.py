"""
Search of messages and deliveries by number, state, connection, time and error text; orders by one
of their numbers; the results that receivers have accepted.

Numbers use the message index, and states that need attention have a partial index. Times become id
ranges by bisection, because ids ascend with time. Other criteria are searched in a window of ids,
newest first. So a page costs the same on any number of rows. Blocking.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, false, func, or_, select

from bridge.admin.search import order_tracking
from bridge.admin.search.message_content import reason_of
from bridge.admin.search.message_index import (
    NumberKind,
    SubjectReader,
    number_hashes,
    origin_of,
    read_numbers,
    spellings,
)
from bridge.index_key import keyed64
from bridge.queue import attempts, queries
from bridge.queue.attempts import Attempt, AttemptKind
from bridge.queue.deliveries import NOT_CONNECTED
from bridge.queue.errors import NoSuchRow
from bridge.queue.listing_rows import DeliveryRow, MessageDetail, MessageRow
from bridge.queue.queries import (
    ATTENTION,
    in_state,
    is_sortable,
    listed_delivery,
    listed_message,
    listing_key,
)
from bridge.queue.retention.rows import id_at, newest_id
from bridge.queue.sites import delivery_sites, visible_sites_hashes
from bridge.queue.statements import DELIVERY, MESSAGE, MESSAGE_NUMBER
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.records.exceptions import ExceptionSubject
from mappings.hl7.refusals import AckCode

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
    return and_(or_(*(column.contains(word.lower(), autoescape=True) for column in columns)))


MAX_MESSAGES = 20

VisibleSites = frozenset[str] | None
Orders = list[dict[str, Any]]


def find_orders_and_messages(
    database: Database,
    subjects_of: SubjectReader,
    kind: NumberKind,
    number: str,
    visible_sites: VisibleSites,
) -> tuple[Orders, Sequence[MessageRow]]:
    """
    Return the orders with a number, and their messages, newest first.

    The order index finds orders by accession and by patient; a merged patient's number finds the
    orders of the surviving patient. Placer and filler numbers are found in messages. The messages
    are the newest that contain the number, and the first and last message of each order.
    """
    query = MessageQuery(kind=kind, number=number, limit=MAX_MESSAGES, sites=visible_sites)
    rows = search_messages(database, query).rows
    if kind is NumberKind.PATIENT:
        orders = _orders_of_patient(database, spellings(number), visible_sites)
        orders = orders or _orders_of_patient(
            database, _spellings_in(database, subjects_of, number, rows), visible_sites
        )
    else:
        orders = order_tracking.find_orders(database, spellings(number), visible_sites)
        orders = orders or _orders_of_messages(database, subjects_of, number, rows, visible_sites)
    return orders, _with_messages_of(database, subjects_of, orders, rows, visible_sites)


def _with_messages_of(
    database: Database,
    subjects_of: SubjectReader,
    orders: Orders,
    rows: Sequence[MessageRow],
    visible_sites: VisibleSites,
) -> Sequence[MessageRow]:
    """Add the first and last message of each order, if the user may see them."""
    found = {row.id: row for row in rows}
    ids = {order[name] for order in orders for name in ("first_message", "last_message")}
    for detail in _stored_messages(
        database, sorted(ids - found.keys(), reverse=True)[:MAX_MESSAGES]
    ):
        sites = subjects_of(origin_of(detail)).sites
        if visible_sites is None or (sites and sites <= visible_sites):
            found[detail.row.id] = detail.row
    return [found[row_id] for row_id in sorted(found, reverse=True)]


def _orders_of_messages(
    database: Database,
    subjects_of: SubjectReader,
    number: str,
    rows: Sequence[MessageRow],
    visible_sites: VisibleSites,
) -> Orders:
    """Return the orders in messages that have the number as placer or filler number, else all."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for detail in _stored_messages(database, [row.id for row in rows]):
        numbers = read_numbers(detail.payload).with_subjects(subjects_of(origin_of(detail)))
        for order in order_tracking.find_orders(database, numbers.order, visible_sites):
            if order["mrn"] in numbers.patient:
                found[order["site"], order["mrn"], order["accession"]] = order
    matching = [order for order in found.values() if _has_number(order, number)]
    return matching or list(found.values())


def _orders_of_patient(
    database: Database, numbers: Iterable[str], visible_sites: VisibleSites
) -> Orders:
    return [
        order
        for number in numbers
        for order in order_tracking.find_orders_of_patient(database, number, visible_sites)
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
    for identifier in ids:
        try:
            yield queries.message(database, identifier)
        except NoSuchRow:  # retention has removed it
            continue


def _has_number(order: Mapping[str, Any], number: str) -> bool:
    """True if a number is the placer or filler number, in any namespace."""
    numbers = {order[name].partition("^")[0].strip() for name in ("placer", "filler")}
    return not numbers.isdisjoint(spellings(number))


@dataclass(frozen=True, slots=True)
class DeliveryQuery:
    """Criteria for deliveries; None matches all. `before` is an id, exclusive."""

    state: QueueState | None = None
    destination: str | None = None
    report_id: str | None = None
    before: int | None = None
    limit: int = 50
    sites: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Rows, newest first; `further` is the `before` of the next page, None after the last one."""

    rows: Sequence[DeliveryRow]
    further: int | None


def search_deliveries(database: Database, query: DeliveryQuery) -> DeliveryPage:
    with database.read() as connection:
        newest = newest_id(connection, DELIVERY)
        high = newest + 1 if query.before is None else query.before
        sortable = is_sortable(connection, DELIVERY, query.state)
        indexed = query.report_id is not None or query.state in ATTENTION or sortable
        floor = 0 if indexed else max(0, high - ID_WINDOW)
        key = listing_key(DELIVERY, by_state=sortable)
        statement = (
            select(*(DELIVERY.c[name] for name in DeliveryRow.__slots__), DELIVERY.c.orders)
            .where(key >= floor, key < high, *_delivery_conditions(query))
            .order_by(key.desc())
            .limit(query.limit)
        )
        found = [dict(row) for row in connection.execute(statement).mappings()]
    further = _next_before(found, query.limit, floor)
    rows = [listed_delivery(row) for row in found if _is_visible(row.pop("orders"), query.sites)]
    return DeliveryPage(rows, further)


def with_reasons(
    database: Database, rows: Sequence[DeliveryRow], *, with_texts: bool
) -> list[dict[str, Any]]:
    """
    Return rows of a list, each with `reason`: why the receiver has not accepted the delivery, or
    has refused it later; '' if it has accepted it.
    """
    last = attempts.last_of_deliveries(database, [row.id for row in rows])
    return [{**asdict(row), "reason": _reason(row, last, with_texts)} for row in rows]


def _reason(row: DeliveryRow, last: Mapping[int, Attempt], with_texts: bool) -> str:
    attempt = last.get(row.id)
    is_reply = attempt is not None and attempt.kind is AttemptKind.REPLY
    if attempt is None or (row.state is QueueState.DONE and not is_reply):
        return "" if row.state is QueueState.DONE else row.detail
    if row.code == NOT_CONNECTED and row.state is QueueState.QUEUED:
        return row.detail
    found = reason_of(attempt, with_texts=with_texts)
    if not is_reply or row.state is not QueueState.DONE:
        return found
    if attempt.code in _POSITIVE:
        return ""
    return f"refused after it was accepted: {attempt.code} {found}".rstrip()


def exception_reason(database: Database, row: Mapping[str, Any], *, with_texts: bool) -> str:
    """Return what the receiver wrote about a result that it refused later; '' for others."""
    if row["kind"] != ExceptionSubject.DELIVERY:
        return ""
    stored = attempts.of_deliveries(database, [row["row_id"]]).get(row["row_id"], [])
    found = [
        attempt
        for attempt in stored
        if attempt.kind is AttemptKind.REPLY
        and f"{attempt.code} {attempt.detail}".strip() == row["code"]
    ]
    return reason_of(found[-1], with_texts=with_texts) if found else ""


_POSITIVE = frozenset({AckCode.ACCEPT.value, AckCode.COMMIT_ACCEPT.value})


def _delivery_conditions(query: DeliveryQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.state is not None:
        conditions += in_state(DELIVERY, query.state)
    if query.destination is not None:
        conditions.append(DELIVERY.c.destination == query.destination)
    if query.report_id is not None:
        conditions.append(DELIVERY.c.report_id == query.report_id)
    if query.sites is not None:
        # A text search removes most rows of other sites; `_is_visible` decides on the parsed JSON.
        texts = (f'"SiteID": {json.dumps(site, ensure_ascii=False)}' for site in query.sites)
        contained = (DELIVERY.c.orders.contains(text, autoescape=True) for text in texts)
        conditions.append(or_(false(), *contained))
    return conditions


def _next_before(found: Sequence[Mapping[str, Any]], limit: int, floor: int) -> int | None:
    if len(found) == limit:
        return int(found[-1]["id"])
    return floor if floor > 1 else None


def _is_visible(orders: str, sites: frozenset[str] | None) -> bool:
    """True if all sites of a delivery are among `sites`; None permits all sites."""
    if sites is None:
        return True
    of_delivery = delivery_sites(json.loads(orders))
    return bool(of_delivery) and sites.issuperset(of_delivery)


_ACCEPTED_COLUMNS = (
    *("id", "destination", "report_id", "event"),
    *("code", "attempts", "acknowledged_at"),
)


@dataclass(frozen=True, slots=True)
class AcceptedDeliveryQuery:
    """
    Criteria for accepted deliveries; None matches all.

    Times in ms; `until` and `before` are exclusive.
    """

    sites: frozenset[str] | None = None
    destination: str | None = None
    report_id: str | None = None
    since: int | None = None
    until: int | None = None
    before: int | None = None
    limit: int = 100


def accepted_deliveries(database: Database, query: AcceptedDeliveryQuery) -> dict[str, Any]:
    """Return `rows`, newest first, and the `before` of the next page in `further`."""
    accepted_at = DELIVERY.c.acknowledged_at
    conditions = [DELIVERY.c.state == QueueState.DONE.value, accepted_at.is_not(None)]
    if query.destination is not None:
        conditions.append(DELIVERY.c.destination == query.destination)
    if query.report_id is not None:
        conditions.append(DELIVERY.c.report_id == query.report_id)
    if query.since is not None:
        conditions.append(accepted_at >= query.since)
    if query.until is not None:
        conditions.append(accepted_at < query.until)
    with database.read() as connection:
        newest = connection.execute(select(func.max(DELIVERY.c.id))).scalar() or 0
        high = newest + 1 if query.before is None else query.before
        floor = 0 if query.report_id is not None else max(0, high - ID_WINDOW)
        statement = select(*(DELIVERY.c[name] for name in _ACCEPTED_COLUMNS), DELIVERY.c.orders)
        ranged = statement.where(DELIVERY.c.id >= floor, DELIVERY.c.id < high, *conditions)
        found = connection.execute(ranged.order_by(DELIVERY.c.id.desc()).limit(query.limit))
        rows = [dict(row) for row in found.mappings()]
    further = _next_before(rows, query.limit, floor)
    visible = [row for row in rows if _is_visible(row.pop("orders"), query.sites)]
    return {"rows": visible, "further": further}
