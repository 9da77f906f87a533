"""
Which orders a number leads to: an accession, a placer's, a filler's or a patient's number.

An accession is looked up in the order index; other numbers of an order in the messages that have
them; a patient in the order index, survivors of merges included. Blocking.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from bridge.console import whereabouts
from bridge.console.numbers import Kind, numbers
from bridge.console.ownership import Belonging, origin_of
from bridge.console.searching import Search, search
from bridge.queue import browse
from bridge.queue.errors import NoSuchRow
from bridge.queue.rows import MessageDetail, MessageRow
from bridge.store.database import Database

MOST_MESSAGES = 20

Reach = frozenset[str] | None
Orders = list[dict[str, Any]]


def asked(
    database: Database, belonging: Belonging, kind: Kind, number: str, reach: Reach
) -> tuple[Orders, Sequence[MessageRow]]:
    """
    Return the orders that a number leads to, and their messages, newest first.

    The messages are the last ones that have the number, and the first and the last one that
    changed each order, under whatever number.
    """
    wanted = Search(kind=kind, number=number, limit=MOST_MESSAGES, sites=reach)
    rows = search(database, wanted).rows
    if kind is Kind.PATIENT:
        orders = whereabouts.orders_of_patient(database, number, reach)
    else:
        orders = whereabouts.orders(database, {number}, reach)
        orders = orders or _numbered(database, belonging, number, rows, reach)
    return orders, _with_messages_of(database, belonging, orders, rows, reach)


def _with_messages_of(
    database: Database,
    belonging: Belonging,
    orders: Orders,
    rows: Sequence[MessageRow],
    reach: Reach,
) -> Sequence[MessageRow]:
    """Add the first and the last message of each order, where the reader may see them."""
    found = {row.id: row for row in rows}
    ids = {each[name] for each in orders for name in ("first_message", "last_message")}
    for detail in _messages(database, sorted(ids - found.keys(), reverse=True)[:MOST_MESSAGES]):
        sites = belonging(origin_of(detail)).sites
        if reach is None or (sites and sites <= reach):
            found[detail.row.id] = detail.row
    return [found[each] for each in sorted(found, reverse=True)]


def _numbered(
    database: Database, belonging: Belonging, number: str, rows: Sequence[MessageRow], reach: Reach
) -> Orders:
    """Return the orders of messages that have a number: those called by it, else all."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for detail in _messages(database, [row.id for row in rows]):
        own = numbers(detail.payload).joined(belonging(origin_of(detail)))
        for each in whereabouts.orders(database, own.order, reach):
            if each["mrn"] in own.patient:
                found[each["site"], each["mrn"], each["accession"]] = each
    called = [each for each in found.values() if _is_called(each, number)]
    return called or list(found.values())


def _messages(database: Database, ids: Collection[int]) -> Iterator[MessageDetail]:
    for each in ids:
        try:
            yield browse.message(database, each)
        except NoSuchRow:  # retention has removed it
            continue


def _is_called(order: Mapping[str, Any], number: str) -> bool:
    """Whether the placer's or filler's number is this, whatever namespace stands behind it."""
    return number in {order[each].partition("^")[0].strip() for each in ("placer", "filler")}
