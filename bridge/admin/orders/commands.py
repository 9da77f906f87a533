"""The orders that a number names, for `bridge orders show`: the pages that the console shows."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bridge.admin.audit_events import audited
from bridge.admin.find import find_orders_and_messages, orders_of_report
from bridge.admin.lists.listing import UNLIMITED
from bridge.admin.messages.message_index import NumberKind
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.admin.orders import order_tracking
from bridge.admin.orders.page import StoredOrder, ask_engine, order_page, read_order
from bridge.engine_client.client import EngineClient
from bridge.report_engine import engine_http, engine_tokens
from bridge.store.databases import bridge_database
from config import Settings, load

MAX_ORDERS = 20


def show_orders(home: Path, number: str) -> dict[str, Any]:
    """
    Return the `orders` and `messages` with a number; both may be empty. Audited.

    A number is an accession, a placer, filler or patient number, MSH-10, or the id of a report. An
    order is as its page in the console shows it; at most `MAX_ORDERS` are shown. `similar` are
    accessions that begin with the number, if no order has it.
    """
    settings = load(home)
    with (
        bridge_database(home) as database,
        audited(home, database, "search", ("orders", "one number")),
    ):
        subjects = MessageSubjects(settings, database)
        orders: Sequence[Mapping[str, Any]] = ()
        messages: Sequence[Any] = ()
        for kind in (NumberKind.ORDER, NumberKind.PATIENT, NumberKind.CONTROL):
            orders, messages = find_orders_and_messages(database, subjects, kind, number, None)
            if orders or messages:
                break
        orders = orders or orders_of_report(database, number, UNLIMITED)
        similar = [] if orders else order_tracking.similar_accessions(database, number)
        stored = [
            read_order(database, subjects, order["id"], UNLIMITED) for order in orders[:MAX_ORDERS]
        ]
        pages = asyncio.run(_pages(settings, stored))
    return {
        "orders": pages,
        "messages": [asdict(message) for message in messages],
        "similar": similar,
    }


async def _pages(settings: Settings, stored: Sequence[StoredOrder]) -> list[dict[str, Any]]:
    client = EngineClient(engine_http(settings, None), engine_tokens(settings))
    return [
        order_page(order, await ask_engine(client, order), time.time_ns() // 1_000_000)
        for order in stored
    ]
