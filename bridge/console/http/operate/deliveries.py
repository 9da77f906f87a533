"""Deliveries: read, compare, retry, skip."""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidState, NoSuchItem
from bridge.admin.items.delivery_page import (
    delivery_content,
    delivery_page,
    last_accepted,
)
from bridge.admin.items.neighbours import differences_of_payloads
from bridge.admin.lists.listing import Access
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleRoute,
    require_sites,
    run_audited,
)
from bridge.console.http.models.items import DeliveryContent, DeliveryPage, DifferenceBody
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS
from bridge.queue import operations, queries
from bridge.queue.errors import IllegalTransition, NoSuchRow
from bridge.queue.listing_rows import DeliveryDetail
from bridge.queue.sites import delivery_sites
from bridge.store.database import Database

router = APIRouter(prefix="/api/deliveries", route_class=ConsoleRoute)
Other = Annotated[RowId | None, Query()]


@router.get("/{delivery_id}", responses={200: {"model": DeliveryPage}})
async def read(delivery_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return a delivery with its timeline, edits and orders, without its content."""
    call.user.grant.require(Permission.SEE)
    database, access = call.context.database, Access.of(call.user.grant)

    def work() -> dict[str, Any]:
        detail = _detail(database, delivery_id)
        require_sites(call.user, delivery_sites(detail.orders))
        return delivery_page(database, detail, access)

    return await CONSOLE_THREADS.run(work)


@router.get("/{delivery_id}/content", responses={200: {"model": DeliveryContent}})
async def content(delivery_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return the message that was sent, the receiver's last reply, and all failed attempts."""
    database = call.context.database

    def work() -> dict[str, Any]:
        detail = _detail(database, delivery_id)
        return delivery_content(database, detail)

    return await run_audited(call, _reading(database, delivery_id), work)


@router.get("/{delivery_id}/difference", responses={200: {"model": DifferenceBody}})
async def difference(delivery_id: RowId, call: CallDep, other: Other = None) -> dict[str, Any]:
    """
    Return how a delivery differs from another one.

    Without `other` it is the last earlier one of the same event that the receiver accepted.
    """
    database, access = call.context.database, Access.of(call.user.grant)

    def accepted() -> int | None:
        detail = _detail(database, delivery_id)
        require_sites(call.user, delivery_sites(detail.orders))
        return last_accepted(database, detail, access)

    if other is None:
        call.user.grant.require(Permission.BODIES)
        other = await CONSOLE_THREADS.run(accepted)
    if other is None:
        return {"other": None, "differences": []}
    await run_audited(call, _reading(database, other), lambda: None)
    work = partial(_difference, database, delivery_id, other)
    return await run_audited(call, _reading(database, delivery_id), work)


@router.post("/{delivery_id}/retry")
async def retry(delivery_id: RowId, call: CallDep) -> dict[str, Any]:
    """Send a delivery now, or again, with the same bytes."""
    work = _change(operations.retry_delivery, call.context.database, delivery_id)
    action = _action(call.context.database, delivery_id, "retry", Permission.OPERATE)
    await run_audited(call, action, work)
    return {}


@router.post("/{delivery_id}/skip")
async def skip(delivery_id: RowId, call: CallDep) -> dict[str, Any]:
    """Cancel a delivery; the later deliveries of its report continue."""
    work = _change(operations.skip_delivery, call.context.database, delivery_id)
    action = _action(call.context.database, delivery_id, "skip", Permission.OPERATE)
    await run_audited(call, action, work)
    return {}


def _difference(database: Database, delivery_id: int, other: int) -> dict[str, Any]:
    payloads = [_detail(database, number).payload or b"" for number in (other, delivery_id)]
    found = differences_of_payloads(payloads[0], payloads[1])
    return {"other": other, "differences": [asdict(difference) for difference in found]}


def _reading(database: Database, delivery_id: int) -> AuditedAction:
    """Return the action of reading a part of a delivery's content."""
    action = _action(database, delivery_id, "read", Permission.BODIES)
    return replace(action, is_reading=True)


def _action(
    database: Database, delivery_id: int, action: str, permission: Permission
) -> AuditedAction:
    return AuditedAction(
        (permission,),
        action,
        f"delivery {delivery_id}",
        lambda: delivery_sites(_detail(database, delivery_id).orders),
    )


def _detail(database: Database, delivery_id: int) -> DeliveryDetail:
    try:
        return queries.delivery(database, delivery_id)
    except NoSuchRow:
        raise NoSuchItem from None


def _change(
    operation: Callable[[Database, int], None], database: Database, delivery_id: int
) -> Callable[[], None]:
    def work() -> None:
        try:
            operation(database, delivery_id)
        except NoSuchRow:
            raise NoSuchItem from None
        except IllegalTransition as error:
            raise InvalidState(str(error)) from None

    return work
