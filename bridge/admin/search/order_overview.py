"""
Everything about the orders that a number names: state, report, messages and deliveries.

A number is an accession, a placer, filler or patient number, or the id of a report. `bridge orders`
shows it. The result has identifiers of patients, but no names and no content.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bridge.admin.audit_events import audited
from bridge.admin.find import find_orders_and_messages, orders_of_report
from bridge.admin.lists.listing import UNLIMITED
from bridge.admin.message_replay import MessageSubjects
from bridge.admin.search import order_tracking
from bridge.admin.search.message_index import NumberKind
from bridge.contract import OrderKey
from bridge.contract.responses import StatusRecordBody
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.report_engine import engine_http, engine_tokens
from bridge.store.databases import bridge_database
from config import load


def show_orders(home: Path, number: str) -> dict[str, Any]:
    """
    Return `orders` and the `messages` with the number; both may be empty. Audited.

    Each order has `report` (its state and reader, None without one) and `deliveries`. `is_current`:
    the report service has answered; else the state is the one that the bridge has seen last.
    `similar` are accessions that begin with the number, if no order has it.
    """
    settings = load(home)
    with (
        bridge_database(home) as database,
        audited(home, database, "search", ("orders", "one number")),
    ):
        subjects = MessageSubjects(settings, database)
        orders: list[dict[str, Any]] = []
        messages: Sequence[Any] = ()
        for kind in (NumberKind.ORDER, NumberKind.PATIENT, NumberKind.CONTROL):
            orders, messages = find_orders_and_messages(database, subjects, kind, number, None)
            if orders or messages:
                break
        orders = orders or list(orders_of_report(database, number, UNLIMITED))
        reports = {order["report_id"] for order in orders} - {""}
        deliveries = order_tracking.report_deliveries(database, reports)
        similar = [] if orders else order_tracking.similar_accessions(database, number)
        client = EngineClient(engine_http(settings, None), engine_tokens(settings))
        records = asyncio.run(status_records(client, orders))
    return {
        "is_current": records is not None,
        "orders": [
            {
                **{name: order[name] for name in ("site", "mrn", "accession", "placer", "filler")},
                "state": order["state"],
                "report": _report(order, records),
                "deliveries": [
                    asdict(delivery)
                    for delivery in deliveries
                    if delivery.report_id == order["report_id"]
                ],
            }
            for order in orders
        ],
        "messages": [asdict(message) for message in messages],
        "similar": similar,
    }


async def status_records(
    client: EngineClient, orders: Sequence[Mapping[str, Any]]
) -> dict[str, StatusRecordBody] | None:
    """
    Return the status records of the orders' reports by report id; one request for each site.

    None if the report service does not answer.
    """
    keys = [OrderKey(order["site"], order["mrn"], order["accession"]) for order in orders]
    found: dict[str, StatusRecordBody] = {}
    try:
        for site in sorted({key.site for key in keys}):
            for record in await client.status([key for key in keys if key.site == site]):
                found[record.report_id] = record
    except EngineFailure:
        return None
    return found


def _report(
    order: Mapping[str, Any], records: Mapping[str, StatusRecordBody] | None
) -> dict[str, Any] | None:
    if not order["report_id"]:
        return None
    record = (records or {}).get(order["report_id"])
    if record is None:
        return {"id": order["report_id"], "status": order["status"] or "", "reader": ""}
    return {
        "id": order["report_id"],
        "status": record.status.value,
        "reader": record.user_email,
    }
