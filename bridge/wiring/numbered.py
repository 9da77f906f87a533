"""
Find messages and deliveries by MSH-10, by a patient's number or by a number of an order.

For commands. Messages are found by the index of numbers, which the service keeps up to date;
deliveries by the reports of the orders that a number leads to.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import func, select, text

from bridge.console.asking import asked
from bridge.console.numbers import Kind
from bridge.console.searching import Search, search
from bridge.queue import browse
from bridge.queue.rows import DeliveryRow, MessageRow
from bridge.queue.tables import MESSAGE
from bridge.store.database import Database
from bridge.wiring.belonging import Belongings
from config import Settings

_INDEXED_TO = text("SELECT max(message_id) FROM message_number_cursor WHERE name = 'console'")


def messages(
    database: Database, kind: Kind, number: str, wanted: browse.Filter
) -> Sequence[MessageRow]:
    """List the messages that have a number, newest first."""
    query = Search(
        kind=kind,
        number=number,
        state=wanted.state,
        listener=wanted.source,
        since=wanted.since,
        before=wanted.before,
    )
    found: list[MessageRow] = []
    while (left := wanted.limit - len(found)) > 0:
        page = search(database, replace(query, limit=left))
        found += page.rows
        if page.further is None:
            break
        query = replace(query, before=page.further)
    return found


def not_indexed(database: Database) -> int:
    """Count the newest messages that the service has not indexed yet."""
    with database.read() as connection:
        newest = connection.execute(select(func.max(MESSAGE.c.id))).scalar() or 0
        indexed = connection.execute(_INDEXED_TO).scalar() or 0
    return max(0, newest - indexed)


def deliveries(
    settings: Settings, database: Database, kind: Kind, number: str, wanted: browse.Filter
) -> Sequence[DeliveryRow]:
    """List the deliveries with a control id, or for the orders that a number leads to."""
    if kind is Kind.CONTROL:
        return browse.deliveries(database, replace(wanted, control_id=number.strip()))
    orders, _ = asked(database, Belongings(settings, database), kind, number.strip(), None)
    reports = frozenset(each["report_id"] for each in orders) - {""}
    return browse.deliveries(database, replace(wanted, reports=reports)) if reports else []
