"""
Which orders somebody means who gives a number: an accession, a placer's, a filler's, a patient's.

An accession is asked of the order index; other numbers of an order by the messages that had them,
patients by the order index again, survivors of merges included. Blocking.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bridge.console import whereabouts
from bridge.console.numbers import Kind, numbers
from bridge.console.searching import Search, search
from bridge.queue import browse
from bridge.queue.errors import NoSuchRow
from bridge.queue.rows import MessageRow
from bridge.store.database import Database

MOST_MESSAGES = 20

Reach = Collection[str] | None
Orders = list[dict[str, Any]]


def asked(
    database: Database, kind: Kind, number: str, reach: frozenset[str] | None
) -> tuple[Orders, Sequence[MessageRow]]:
    """Give the orders that a number leads to, and the last messages that had it."""
    wanted = Search(kind=kind, number=number, limit=MOST_MESSAGES, sites=reach)
    rows = search(database, wanted).rows
    if kind is Kind.PATIENT:
        return whereabouts.orders_of_patient(database, number, reach), rows
    orders = whereabouts.orders(database, {number}, reach)
    return orders or _numbered(database, number, rows, reach), rows


def _numbered(database: Database, number: str, rows: Sequence[MessageRow], reach: Reach) -> Orders:
    """Give the orders of messages in which a number stands: those that have it, else all."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        try:
            own = numbers(browse.message(database, row.id).payload)
        except NoSuchRow:
            continue
        for each in whereabouts.orders(database, own.order, reach):
            if each["mrn"] in own.patient:
                found[each["site"], each["mrn"], each["accession"]] = each
    called = [each for each in found.values() if _is_called(each, number)]
    return called or list(found.values())


def _is_called(order: Mapping[str, Any], number: str) -> bool:
    """Whether the placer's or filler's number is this, whatever namespace stands behind it."""
    return number in {order[each].partition("^")[0].strip() for each in ("placer", "filler")}
