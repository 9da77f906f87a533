"""
Search: the orders, messages, deliveries, channels and definitions that have a number or a name.

A number may be the accession as it was sent or as it was mapped, a placer or filler number, a
patient's number, the control id of a received or sent message, the id of a message or delivery, or
the beginning of a report's id. A patient's name is found by its whole words. Each query uses an
index and returns few rows. Blocking.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, select

from bridge import active_settings
from bridge.admin.access.permissions import Permission
from bridge.admin.lists.definitions import DELIVERIES, MESSAGES
from bridge.admin.lists.deliveries import ListedDelivery
from bridge.admin.lists.listing import Access, ListRequest, iterate
from bridge.admin.messages.message_index import (
    NumberKind,
    SubjectReader,
    name_words,
    origin_of,
    read_numbers,
    spellings,
)
from bridge.admin.orders import order_tracking
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from bridge.queue.listing_rows import MessageDetail, MessageRow
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.tables import KNOWN_REPORTS, ORDERS
from config import Settings


@dataclass(frozen=True, slots=True)
class Hit:
    """
    Something that was found. `exact`: it has the whole number or name.

    `title` names it for a person; `at` is in ms, None if unknown. `id` is that of its page.
    """

    id: str
    title: str
    detail: str
    state: str
    at: int | None
    exact: bool


@dataclass(frozen=True, slots=True)
class Found:
    """
    What a search has found. `kinds` says which numbers were found; `similar` are accessions that
    begin with the number, if no order has it.
    """

    orders: list[Hit] = field(default_factory=list)
    messages: list[Hit] = field(default_factory=list)
    deliveries: list[Hit] = field(default_factory=list)
    channels: list[Hit] = field(default_factory=list)
    definitions: list[Hit] = field(default_factory=list)
    similar: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)


_REPORT: Final = re.compile(r"[0-9a-f]{8}[0-9a-f-]*", re.IGNORECASE)
_AFTER_ALL: Final = "z"
_LONGEST: Final = 200
_LARGEST_ID: Final = 2**63


def find(
    settings: Settings,
    database: Database,
    subjects_of: SubjectReader,
    text: str,
    access: Access,
    *,
    limit: int = 10,
) -> Found:
    """
    Return what a number or name is found in, at most `limit` of each.

    Requires FIND. Patients' numbers and names are searched only with BODIES.
    """
    access.require(Permission.FIND)
    found, wanted = Found(), text.strip()[:_LONGEST]
    if not wanted:
        return found
    reads = Permission.BODIES in access.permissions
    kinds = [NumberKind.ORDER, *([NumberKind.PATIENT] if reads else [])]
    orders: dict[int, dict[str, Any]] = {}
    messages: dict[int, MessageRow] = {}
    for kind in kinds:
        known, rows = find_orders_and_messages(database, subjects_of, kind, wanted, access.sites)
        if known or rows:
            found.kinds.append(kind.value)
        orders.update((order["id"], order) for order in known)
        messages.update((row.id, row) for row in rows)
    orders.update((order["id"], order) for order in orders_of_report(database, wanted, access))
    by_control = {"number": wanted, "kind": NumberKind.CONTROL.value}
    _add(found, messages, _messages(database, by_control, access, limit), NumberKind.CONTROL)
    _add(found, messages, _message_with_id(database, wanted, access), None)
    sure = set(messages)
    if reads and name_words(wanted) and not wanted.isdecimal():
        named = _messages(database, {"name": wanted}, access, limit)
        _add(found, messages, named, NumberKind.NAME)
    found.orders.extend(_order_hit(order, wanted) for order in list(orders.values())[:limit])
    newest = [messages[number] for number in sorted(messages, reverse=True)[:limit]]
    found.messages.extend(_message_hit(row, exact=row.id in sure) for row in newest)
    reports = {order["report_id"] for order in orders.values()} - {""}
    sent = _deliveries(database, wanted, reports, access, limit)
    found.deliveries.extend(map(_delivery_hit, sent))
    found.channels.extend(_channels(settings, database, wanted, access)[:limit])
    if Permission.AUTHOR in access.permissions:
        found.definitions.extend(_definitions(settings, database, wanted)[:limit])
    if not orders:
        found.similar.extend(order_tracking.similar_accessions(database, wanted, access.sites))
    return found


def _add(
    found: Found,
    messages: dict[int, MessageRow],
    rows: Sequence[MessageRow],
    kind: NumberKind | None,
) -> None:
    if rows and kind is not None:
        found.kinds.append(kind.value)
    messages.update((row.id, row) for row in rows if row.id not in messages)


def _messages(
    database: Database, filters: Mapping[str, Any], access: Access, limit: int
) -> Sequence[MessageRow]:
    with database.read() as connection:
        return MESSAGES.page(connection, ListRequest(filters, limit=limit), access).rows


def _message_with_id(database: Database, text: str, access: Access) -> Sequence[MessageRow]:
    if not text.isdecimal() or not text.isascii() or int(text) >= _LARGEST_ID:
        return ()
    with database.read() as connection:
        return MESSAGES.rows(connection, [int(text)], access)


def _deliveries(
    database: Database, text: str, reports: Collection[str], access: Access, limit: int
) -> Sequence[ListedDelivery]:
    """Return the delivery with an id or control id, and those of the reports."""
    found: dict[int, ListedDelivery] = {}
    searches: list[Mapping[str, Any]] = [{"control_id": text}]
    if reports:
        searches.append({"report": sorted(reports)[:limit]})
    with database.read() as connection:
        if text.isdecimal() and text.isascii() and int(text) < _LARGEST_ID:
            rows = DELIVERIES.rows(connection, [int(text)], access)
            found.update((listed.id, listed) for listed in rows)
        for filters in searches:
            page = DELIVERIES.page(connection, ListRequest(filters, limit=limit), access)
            found.update((listed.id, listed) for listed in page.rows)
    return [found[number] for number in sorted(found, reverse=True)[:limit]]


def orders_of_report(database: Database, text: str, access: Access) -> Sequence[dict[str, Any]]:
    """Return the orders of reports whose id begins with a text of eight characters or more."""
    if not _REPORT.fullmatch(text):
        return ()
    with database.read() as connection:
        reports = _reports_from(connection, text.lower())
        keys = [
            (row.site, row.mrn, row.accession)
            for report in reports
            for row in _keys_of_report(connection, report)
        ]
    accessions = {accession for _, _, accession in keys}
    found = order_tracking.find_orders(database, accessions, access.sites)
    return [order for order in found if (order["site"], order["mrn"], order["accession"]) in keys]


def _reports_from(connection: Connection, beginning: str, limit: int = 10) -> list[str]:
    found: set[str] = set()
    for table in (ORDERS, KNOWN_REPORTS):
        column = table.c.report_id
        statement = (
            select(column)
            .where(column >= beginning, column < beginning + _AFTER_ALL, column != "")
            .order_by(column)
            .limit(limit)
        )
        found.update(connection.scalars(statement))
    return sorted(report for report in found if report.startswith(beginning))[:limit]


def _keys_of_report(connection: Connection, report: str) -> list[Any]:
    return [
        row
        for table in (ORDERS, KNOWN_REPORTS)
        for row in connection.execute(
            select(table.c.site, table.c.mrn, table.c.accession)
            .where(table.c.report_id == report, table.c.report_id != "")
            .limit(MAX_MESSAGES)
        )
    ]


def _channels(settings: Settings, database: Database, text: str, access: Access) -> list[Hit]:
    """Return the channels whose name contains a text, on visible sites."""
    active = active_settings.current(settings, database)
    named = [
        *(("listener", entry.name, [entry.site], entry.enabled) for entry in active.listener),
        *(("destination", entry.name, entry.sites, entry.enabled) for entry in active.destination),
    ]
    return [
        Hit(
            f"{kind}/{name}",
            name,
            kind,
            "" if enabled else "disabled",
            None,
            name.casefold() == text.casefold(),
        )
        for kind, name, sites, enabled in named
        if text.casefold() in name.casefold()
        and (access.sites is None or not access.sites.isdisjoint(sites) or "*" in sites)
    ]


def _definitions(settings: Settings, database: Database, text: str) -> list[Hit]:
    """Return the definitions whose name contains a text."""
    with database.read() as connection:
        active = mapping_versions.active_versions(connection)
    names = {name: item.at for name, item in active.items() if _is_definition(name)}
    for listener in active_settings.current(settings, database).listener:
        names |= dict.fromkeys(set(listener.mappings) - names.keys(), 0)
    return [
        Hit(name, name, "definition", "", at or None, name.casefold() == text.casefold())
        for name, at in sorted(names.items())
        if text.casefold() in name.casefold()
    ]


def _is_definition(name: str) -> bool:
    return active_settings.connection_of_record(name) is None


def _order_hit(order: Mapping[str, Any], text: str) -> Hit:
    own = {order[name].partition("^")[0].casefold() for name in ("accession", "placer", "filler")}
    state = order["status"] or order["state"]
    is_exact = text.casefold() in own or text.casefold() == order["mrn"].casefold()
    at = order["changed_at"] or order["closed_at"]
    return Hit(str(order["id"]), order["accession"], order["site"], state, at, is_exact)


def _message_hit(row: MessageRow, *, exact: bool) -> Hit:
    state = row.state.value
    return Hit(str(row.id), row.message_type, row.listener, state, row.received_at, exact)


def _delivery_hit(listed: ListedDelivery) -> Hit:
    row = listed.row
    return Hit(str(row.id), row.event, row.destination, row.state.value, row.created_at, exact=True)


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
    filters = {"number": number, "kind": kind.value}
    newest = iterate(database, MESSAGES, filters, Access(visible_sites), page_size=MAX_MESSAGES)
    rows = list(islice(newest, MAX_MESSAGES))
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
