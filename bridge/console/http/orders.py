"""Where is it: what became of an order, by one of its numbers, or of a patient's orders."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from bridge.console import order_tracking
from bridge.console.context import ConsoleContext
from bridge.console.http.bodies import OrderSearchBody
from bridge.console.http.guard import AuditedAction, ConsoleUser, ContextDep, UserDep, run_audited
from bridge.console.http.route import ConsoleRoute
from bridge.console.message_index import NumberKind
from bridge.console.message_search import find_orders_and_messages
from bridge.console.order_tracking import order_timeline
from bridge.console.permissions import Permission
from bridge.engine_client.errors import EngineFailure

router = APIRouter(prefix="/api/orders", route_class=ConsoleRoute)


@router.post("/find")
async def where_is_it(
    body: OrderSearchBody, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """
    Say what became of the orders that a number leads to.

    To ask by a patient's number, or to be told one, takes bodies.
    """
    kind, number = body.asked()
    bodies = (Permission.BODIES,) if kind is NumberKind.PATIENT else ()
    action = AuditedAction((Permission.FIND, *bodies), "search", f"orders by {kind} number")
    found = await run_audited(request, user, action, lambda: _orders(context, user, kind, number))
    try:
        status = await context.status(found["orders"])
    except EngineFailure:
        status = {}
    for each in found["orders"]:
        each["now"] = status.get(each["report_id"], "")
        if Permission.BODIES not in user.grant.permissions:
            each["mrn"] = ""
    return found


def _orders(
    context: ConsoleContext, user: ConsoleUser, kind: NumberKind, number: str
) -> dict[str, Any]:
    orders, rows = find_orders_and_messages(
        context.database, context.subjects_of, kind, number, user.grant.reach
    )
    reports = {each["report_id"] for each in orders} - {""}
    sent = order_tracking.report_deliveries(context.database, reports)
    return {
        "orders": orders,
        "deliveries": [asdict(each) for each in sent],
        "messages": [asdict(each) for each in rows],
        "steps": order_timeline(rows, orders, sent),
    }
