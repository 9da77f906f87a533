"""
The page of one order, and its return to the list of unread orders.

Orders are found by the search field and by their list.
"""

from functools import partial
from typing import Any

from fastapi import APIRouter

from bridge.admin.access.permissions import Permission
from bridge.admin.lists.listing import Access
from bridge.admin.orders.page import ask_engine, order_page, read_order, site_of_order
from bridge.admin.orders.unread import read_reported, return_order
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleRoute,
    await_audited,
    run_audited,
)
from bridge.console.http.models.bodies import ReasonBody
from bridge.console.http.models.orders import OrderPageBody
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS

router = APIRouter(prefix="/api/orders", route_class=ConsoleRoute)


@router.get("/{order_id}", responses={200: {"model": OrderPageBody}})
async def read(order_id: RowId, call: CallDep) -> dict[str, Any]:
    """
    Return an order with its timeline, what its state is and what it waits for.

    Names and numbers of patients, and the texts of receivers, require the permission `bodies`.
    """
    context = call.context
    access = Access.of(call.user.grant)
    work = partial(read_order, context.database, context.subjects_of, order_id, access)
    sites = partial(site_of_order, context.database, order_id)
    subject = f"order {order_id}"  # the page reads it again after each hint: one event
    action = AuditedAction((Permission.FIND,), "read", subject, sites, is_reading=True)
    stored = await run_audited(call, action, work)
    engine = await ask_engine(context.engine.client, stored)
    return order_page(stored, engine, context.clock())


@router.post("/{order_id}/unread", status_code=204)
async def unread(order_id: RowId, body: ReasonBody, call: CallDep) -> None:
    """Return an order that is reported elsewhere to the list of unread orders."""
    context = call.context
    sites = partial(site_of_order, context.database, order_id)
    subject = f"order {order_id}"
    action = AuditedAction(
        (Permission.OPERATE,), "return-to-unread", subject, sites, reason=body.reason
    )

    async def work() -> None:
        order = await CONSOLE_THREADS.run(read_reported, context.database, order_id)
        await return_order(context.settings, context.database, context.engine.client, order)

    await await_audited(call, action, work)
