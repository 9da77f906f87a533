"""Where is it: what became of an order, by its accession."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from bridge.console import whereabouts
from bridge.console.backstage import Backstage
from bridge.console.http.bodies import Accession
from bridge.console.http.guard import Act, BackstageDep, Person, PersonDep, act
from bridge.console.numbers import Kind
from bridge.console.permissions import Permission
from bridge.console.searching import Search, search
from bridge.console.timeline import journey
from bridge.engine_client.errors import EngineFailure

router = APIRouter(prefix="/api/orders")
_MOST_MESSAGES = 20


@router.post("/find")
async def where_is_it(
    body: Accession, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Say what became of the orders with an accession; the patient's number only with bodies."""
    accession = body.accession.strip()
    deed = Act((Permission.FIND,), "search", "orders by accession")
    found = await act(request, person, deed, lambda: _orders(backstage, person, accession))
    try:
        status = await backstage.status(found["orders"])
    except EngineFailure:
        status = {}
    for each in found["orders"]:
        each["now"] = status.get(each["report_id"], "")
        if Permission.BODIES not in person.grant.permissions:
            each["mrn"] = ""
    return found


def _orders(backstage: Backstage, person: Person, accession: str) -> dict[str, Any]:
    reach = person.grant.reach
    orders = whereabouts.orders(backstage.database, {accession}, reach)
    reports = {each["report_id"] for each in orders} - {""}
    sent = whereabouts.deliveries(backstage.database, reports)
    wanted = Search(kind=Kind.ORDER, number=accession, limit=_MOST_MESSAGES, sites=reach)
    page = search(backstage.database, wanted)
    return {
        "orders": orders,
        "deliveries": [asdict(each) for each in sent],
        "messages": [asdict(each) for each in page.rows],
        "steps": journey(page.rows, orders, sent),
    }
