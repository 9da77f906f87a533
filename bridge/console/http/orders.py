"""Order tracking: orders, messages, deliveries and timeline for an order number or a patient id."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from bridge.console import order_tracking
from bridge.console.context import ConsoleContext
from bridge.console.http.bodies import OrderSearchBody
from bridge.console.http.guard import (
    AuditedAction,
    ConsoleUser,
    ContextDep,
    UserDep,
    run_audited,
)
from bridge.console.http.route import ConsoleRoute
from bridge.console.message_index import NumberKind
from bridge.console.message_search import find_orders_and_messages
from bridge.console.order_tracking import order_timeline
from bridge.console.permissions import Permission
from bridge.engine_client.errors import EngineFailure

router = APIRouter(prefix="/api/orders", route_class=ConsoleRoute)


@router.post("/find", name="where_is_it")
async def track(
    body: OrderSearchBody, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """
    Track the orders with a number.

    To search by patient id, and to see patient ids, requires the permission `bodies`.
    """
    kind, number = body.number()
    bodies = (Permission.BODIES,) if kind is NumberKind.PATIENT else ()
    action = AuditedAction((Permission.FIND, *bodies), "search", f"orders by {kind} number")
    found = await run_audited(request, user, action, lambda: _track(context, user, kind, number))
    try:
        status = await context.report_status(found["orders"])
    except EngineFailure:
        status = {}
    for each in found["orders"]:
        each["now"] = status.get(each["report_id"], "")
        if Permission.BODIES not in user.grant.permissions:
            each["mrn"] = ""
    return found


def _track(
    context: ConsoleContext, user: ConsoleUser, kind: NumberKind, number: str
) -> dict[str, Any]:
    orders, messages = find_orders_and_messages(
        context.database, context.subjects_of, kind, number, user.grant.reach
    )
    reports = {each["report_id"] for each in orders} - {""}
    deliveries = order_tracking.report_deliveries(context.database, reports)
    return {
        "orders": orders,
        "deliveries": [asdict(each) for each in deliveries],
        "messages": [asdict(each) for each in messages],
        "steps": order_timeline(messages, orders, deliveries),
    }
