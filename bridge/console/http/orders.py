"""Where is it: what became of an order, by one of its numbers, or of a patient's orders."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from bridge.console import order_tracking
from bridge.console.http.bodies import OrderNumber
from bridge.console.http.guard import Act, BackstageDep, Person, PersonDep, act
from bridge.console.http.route import ConsoleRoute
from bridge.console.message_index import Kind
from bridge.console.message_search import asked
from bridge.console.order_tracking import journey
from bridge.console.permissions import Permission
from bridge.console.services import Backstage
from bridge.engine_client.errors import EngineFailure

router = APIRouter(prefix="/api/orders", route_class=ConsoleRoute)


@router.post("/find")
async def where_is_it(
    body: OrderNumber, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """
    Say what became of the orders that a number leads to.

    To ask by a patient's number, or to be told one, takes bodies.
    """
    kind, number = body.asked()
    bodies = (Permission.BODIES,) if kind is Kind.PATIENT else ()
    deed = Act((Permission.FIND, *bodies), "search", f"orders by {kind} number")
    found = await act(request, person, deed, lambda: _orders(backstage, person, kind, number))
    try:
        status = await backstage.status(found["orders"])
    except EngineFailure:
        status = {}
    for each in found["orders"]:
        each["now"] = status.get(each["report_id"], "")
        if Permission.BODIES not in person.grant.permissions:
            each["mrn"] = ""
    return found


def _orders(backstage: Backstage, person: Person, kind: Kind, number: str) -> dict[str, Any]:
    orders, rows = asked(backstage.database, backstage.belonging, kind, number, person.grant.reach)
    reports = {each["report_id"] for each in orders} - {""}
    sent = order_tracking.deliveries(backstage.database, reports)
    return {
        "orders": orders,
        "deliveries": [asdict(each) for each in sent],
        "messages": [asdict(each) for each in rows],
        "steps": journey(rows, orders, sent),
    }
