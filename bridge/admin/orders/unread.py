"""Return an order that is reported elsewhere to the list of unread orders, for a person."""

import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select, update

from bridge.admin.audit_events import audited
from bridge.admin.errors import ChangeConflict
from bridge.admin.orders.reasons import required_reason
from bridge.admin.report_engine import report_engine
from bridge.contract import OrderKey
from bridge.engine_client.client import EngineClient
from bridge.errors import BridgeError
from bridge.executors import Threads
from bridge.intake.process.scheduled_steps import StepWriter, active_step_rules
from bridge.orders.order import OrderState
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records import order_index
from bridge.store.tables import ORDERS
from config import Settings, load


class NoSuchOrder(BridgeError):
    """No order with this number is reported elsewhere, or several are."""


@dataclass(frozen=True, slots=True)
class ReportedOrder:
    """An order in the state `reported`."""

    id: int
    key: OrderKey


def return_to_unread(home: Path, number: str, site: str, reason: str) -> int:
    """
    Return the order with an accession, placer or filler number; return its row id. Audited.

    `site` is '' for any. The report engine removes its mark first: if that fails, nothing has
    changed. Raises NoSuchOrder, ReasonRequired.
    """
    given, settings = required_reason(reason), load(home)
    with bridge_database(home) as database:
        order = _find(database, number, site)
        target = ("order", str(order.id))
        with (
            audited(home, database, "return-to-unread", target, reason=given),
            report_engine(settings) as opened,
        ):
            opened.run(return_order(settings, database, opened.engine.client, order))
    return order.id


async def return_order(
    settings: Settings, database: Database, client: EngineClient, order: ReportedOrder
) -> None:
    """Return an order. The report engine removes its mark first. Raises EngineFailure."""
    await client.unmark_reported(order.key)
    await Threads.JOBS.run(_store, settings, database, order)


def read_reported(database: Database, order_id: int) -> ReportedOrder:
    """Read an order by its row. Raises ChangeConflict if it is not reported elsewhere."""
    columns = ORDERS.c
    query = select(columns.site, columns.mrn, columns.accession).where(
        columns.id == order_id, columns.state == OrderState.REPORTED.value
    )
    with database.read() as connection:
        row = connection.execute(query).one_or_none()
    if row is None:
        raise ChangeConflict("not_reported_elsewhere", "the order is not reported elsewhere")
    return ReportedOrder(order_id, OrderKey(row.site, row.mrn, row.accession))


def _find(database: Database, number: str, site: str) -> ReportedOrder:
    columns = ORDERS.c
    named = (columns.accession == number) | (columns.placer == number) | (columns.filler == number)
    query = select(columns.id, columns.site, columns.mrn, columns.accession).where(
        named, columns.state == OrderState.REPORTED.value
    )
    if site:
        query = query.where(columns.site == site)
    with database.read() as connection:
        found = connection.execute(query.limit(2)).all()
    if not found:
        raise NoSuchOrder("no order with this number is reported elsewhere")
    if len(found) > 1:
        raise NoSuchOrder("several orders with this number are reported elsewhere")
    row = found[0]
    return ReportedOrder(row.id, OrderKey(row.site, row.mrn, row.accession))


def _store(settings: Settings, database: Database, order: ReportedOrder) -> None:
    columns = ORDERS.c
    steps = StepWriter(active_step_rules(settings, database))
    with database.write() as connection:
        connection.execute(
            update(ORDERS)
            .where(columns.id == order.id, columns.state == OrderState.REPORTED.value)
            .values(state=OrderState.ORDERED.value)
        )
        steps.write(
            connection, order_index.lock(connection, [order.id]), time.time_ns() // 1_000_000
        )
