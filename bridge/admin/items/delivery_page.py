"""
The page of one delivery: its row, timeline, edits and orders; its content; its neighbours.

`delivery_content` contains patient data: show it to users who may read content only, and do not log
it. The rest contains none but accession numbers, which are left out without the permission `find`.
"""

import json
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import Connection, or_, select

from bridge.admin.access.permissions import Permission
from bridge.admin.items.message_page import may_edit, orders_json, permitted
from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import ID_WINDOW, UNLIMITED, Access
from bridge.admin.lists.row_json import as_json
from bridge.admin.messages.delivery_reasons import with_reasons
from bridge.admin.messages.message_tree import content_of
from bridge.admin.orders import order_tracking, steps
from bridge.delivery.destinations import key_of
from bridge.delivery.dicom_objects import boundary_of
from bridge.queue.listing_rows import DeliveryDetail
from bridge.queue.sites import delivery_sites
from bridge.queue.statements import DELIVERY
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from bridge.store.tables import DELIVERY_EDITS

_ACTIONS: Final = {"retry": QueueEvent.REPLAYED, "skip": QueueEvent.CANCELLED}
_MAX_EXAMINED: Final = 200
"""Deliveries that are examined for the last accepted one that a user may see."""


def delivery_page(database: Database, detail: DeliveryDetail, access: Access) -> dict[str, Any]:
    """
    Return `row`, `timeline`, `edits`, `orders`, `neighbours` and `may` of a delivery.

    `row` has also `reason`: why the receiver has not accepted it. `orders` are those that the
    result is about. `neighbours` are the deliveries of the same report to the same destination. The
    caller has checked that the user may see the delivery.
    """
    row = detail.row
    with_texts = Permission.BODIES in access.permissions
    with database.read() as connection:
        (listed,) = DeliveryList().rows(connection, [row.id], UNLIMITED)
        around = _around(connection, detail)
    (reasoned,) = with_reasons(database, [row], with_texts=with_texts)
    edits = edits_of(database, row.id)
    timeline = steps.in_order(
        [
            *steps.delivery_steps([row], _attempts(database, detail, access)),
            *steps.copy_steps("delivery", row.id, edits),
        ]
    )
    return {
        "row": {**as_json([listed])[0], "reason": reasoned["reason"]},
        "timeline": [asdict(step) for step in timeline],
        "edits": edits,
        "orders": orders_json(_orders(database, detail, access), access),
        "neighbours": around,
        "may": _may(detail, access),
    }


def _attempts(database: Database, detail: DeliveryDetail, access: Access) -> steps.Attempts:
    reads = Permission.BODIES in access.permissions
    return order_tracking.attempts_of(database, [detail.row], with_texts=reads)


def delivery_content(database: Database, detail: DeliveryDetail) -> dict[str, Any]:
    """Return text and tree of the message that was sent, the last reply, and all attempts."""
    attempts = order_tracking.attempts_of(database, [detail.row], with_texts=True)
    return {
        **content_of(detail.payload or b"", reply=detail.reply),
        "attempts": attempts.get(detail.row.id, []),
        "damaged": detail.is_damaged,
    }


def edits_of(database: Database, delivery_id: int) -> list[dict[str, Any]]:
    """Return the edits that created a delivery or were made from it; times in ms."""
    edit = DELIVERY_EDITS.c
    related = or_(edit.delivery_id == delivery_id, edit.origin_id == delivery_id)
    statement = select(DELIVERY_EDITS).where(related).order_by(edit.delivery_id)
    with database.read() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def last_accepted(database: Database, detail: DeliveryDetail, access: Access) -> int | None:
    """Return the last earlier delivery of the same event that the receiver accepted, if any."""
    row, key = detail.row, DELIVERY.c.id
    earlier = (
        select(key, DELIVERY.c.orders)
        .where(DELIVERY.c.destination == row.destination, key < row.id, key >= row.id - ID_WINDOW)
        .where(DELIVERY.c.state == QueueState.DONE.value, DELIVERY.c.event == row.event)
        .where(DELIVERY.c.acknowledged_at.is_not(None))
        .order_by(key.desc())
        .limit(_MAX_EXAMINED)
    )
    with database.read() as connection:
        for found in connection.execute(earlier):
            if access.sites is None or _is_visible(found.orders, access.sites):
                return int(found.id)
    return None


def _is_visible(orders: str, sites: frozenset[str]) -> bool:
    own = delivery_sites(json.loads(orders))
    return bool(own) and own <= sites


def _around(connection: Connection, detail: DeliveryDetail) -> dict[str, int | None]:
    row, key = detail.row, DELIVERY.c.id
    same = select(key).where(
        DELIVERY.c.report_id == row.report_id, DELIVERY.c.destination == row.destination
    )
    before = same.where(key < row.id).order_by(key.desc()).limit(1)
    after = same.where(key > row.id).order_by(key).limit(1)
    return {"previous": connection.scalar(before), "next": connection.scalar(after)}


def _orders(database: Database, detail: DeliveryDetail, access: Access) -> list[dict[str, Any]]:
    """Return the orders of a result; a merged patient's order is found by its report."""
    stored = detail.orders.get("orders", ()) if isinstance(detail.orders, dict) else ()
    keys = [key_of(order) for order in stored]
    found = order_tracking.find_orders(database, {key.accession for key in keys}, access.sites)
    own = {(key.site, key.mrn, key.accession) for key in keys}
    return [
        order
        for order in found
        if order["report_id"] == detail.row.report_id
        or (order["site"], order["mrn"], order["accession"]) in own
    ]


def _may(detail: DeliveryDetail, access: Access) -> list[str]:
    state = detail.row.state
    found = [*permitted(_ACTIONS, state, access)]
    if state is QueueState.QUEUED and Permission.OPERATE in access.permissions:
        found.append("retry")
    payload = detail.payload
    editable = payload is not None and not detail.is_damaged and not boundary_of(payload)
    found += ["edit"] if editable and may_edit(access) and state is not QueueState.CLAIMED else []
    return [*found, *(["content"] if Permission.BODIES in access.permissions else [])]
