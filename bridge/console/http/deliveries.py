"""Deliveries: search, read, retry, skip."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidState, NoSuchItem
from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import Access
from bridge.admin.search import order_tracking
from bridge.admin.search.delivery_reasons import with_reasons
from bridge.admin.search.message_content import message_text, segment_tree
from bridge.console.http.bodies import DeliverySearchBody
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleRoute,
    require_sites,
    run_audited,
)
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS
from bridge.queue import operations, queries
from bridge.queue.errors import IllegalTransition, NoSuchRow
from bridge.queue.listing_rows import DeliveryDetail
from bridge.queue.sites import delivery_sites
from bridge.store.database import Database

router = APIRouter(prefix="/api/deliveries", route_class=ConsoleRoute)


@router.post("/search")
async def find(body: DeliverySearchBody, call: CallDep) -> dict[str, Any]:
    """List deliveries, newest first."""
    call.user.grant.require(Permission.SEE)
    request, access = body.request(), Access.of(call.user.grant)
    database, with_texts = call.context.database, call.user.reads_content

    def work() -> dict[str, Any]:
        with database.read() as connection:
            page = DeliveryList().page(connection, request, access)
        found = [listed.row for listed in page.rows]
        rows = with_reasons(database, found, with_texts=with_texts)
        return {"rows": rows, "further": page.next}

    return await CONSOLE_THREADS.run(work)


@router.get("/{delivery_id}")
async def read(delivery_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return a delivery without its content, and its steps."""
    call.user.grant.require(Permission.SEE)
    database, with_texts = call.context.database, call.user.reads_content
    detail = await CONSOLE_THREADS.run(_detail, database, delivery_id)
    require_sites(call.user, delivery_sites(detail.orders))

    def work() -> dict[str, Any]:
        (row,) = with_reasons(database, [detail.row], with_texts=with_texts)
        attempts = order_tracking.attempts_of(database, [detail.row], with_texts=with_texts)
        steps = [*order_tracking.delivery_steps(detail.row, attempts)]
        return {"row": row, "timeline": steps}

    return await CONSOLE_THREADS.run(work)


@router.get("/{delivery_id}/content")
async def content(delivery_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return the message that was sent, the receiver's last reply, and all failed attempts."""

    def work() -> dict[str, Any]:
        detail = _detail(call.context.database, delivery_id)
        attempts = order_tracking.attempts_of(call.context.database, [detail.row], with_texts=True)
        return {
            "attempts": attempts.get(delivery_id, []),
            "raw": message_text(detail.payload),
            "tree": segment_tree(detail.payload or b""),
            "ack": message_text(detail.reply),
        }

    action = _action(call.context.database, delivery_id, "read", Permission.BODIES)
    return await run_audited(call, action, work)


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
