"""What needs attention, grouped by cause; people mark items as reviewed."""

from collections.abc import Collection
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import StringConstraints

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import NoSuchItem
from bridge.admin.lists.listing import Access
from bridge.admin.orders.page import site_of_order
from bridge.admin.overview import attention
from bridge.console.context import ConsoleContext
from bridge.console.http.guard import AuditedAction, CallDep, ConsoleRoute, run_audited
from bridge.console.http.models.attention import AttentionBody, ReviewedBody
from bridge.console.http.models.bodies import Body
from bridge.console.http.operate.messages import sites_of_message
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from bridge.queue.sites import delivery_sites
from bridge.store.records import exceptions as records
from bridge.store.records.exceptions import ExceptionSubject

router = APIRouter(prefix="/api/attention", route_class=ConsoleRoute)


class ReviewBody(Body):
    """All open items with a code; the reason is for the audit trail."""

    subject: ExceptionSubject
    code: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    reason: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""


@router.get("", responses={200: {"model": AttentionBody}})
async def groups(call: CallDep) -> dict[str, Any]:
    """Return parked rows, attention items and alerts by cause, with a proposed action."""
    call.user.grant.require(Permission.SEE)
    context, access = call.context, Access.of(call.user.grant)
    work = partial(attention.groups, context.settings, context.database, access, context.clock())
    return asdict(await CONSOLE_THREADS.run(work))


@router.post("/seen", responses={200: {"model": ReviewedBody}})
async def seen_all(body: ReviewBody, call: CallDep) -> dict[str, Any]:
    """Mark all open items with a code as reviewed; their notifications end."""
    context, grant = call.context, call.user.grant
    work = partial(
        attention.mark_reviewed,
        *(context.database, body.subject, body.code, Access.of(grant), context.clock()),
        grant.email,
    )
    subject = f"attention {body.subject} {body.code}"
    action = AuditedAction((Permission.OPERATE,), "acknowledge", subject, reason=body.reason)
    return {"count": await run_audited(call, action, work)}


@router.post("/{kind}/{row_id}/seen")
async def seen(kind: ExceptionSubject, row_id: RowId, call: CallDep) -> dict[str, Any]:
    """Mark the items of a row as reviewed by the user; their notifications end."""
    context, email = call.context, call.user.grant.email

    def work() -> None:
        if not records.mark_seen(context.database, [(kind, row_id)], context.clock(), email):
            raise NoSuchItem

    sites = partial(_sites, context, kind, row_id)
    action = AuditedAction((Permission.OPERATE,), "acknowledge", f"{kind} {row_id}", sites)
    await run_audited(call, action, work)
    return {}


def _sites(context: ConsoleContext, kind: ExceptionSubject, row_id: int) -> Collection[str]:
    if kind is ExceptionSubject.FEED:
        return ()  # no site: only users who are not limited to sites
    if kind is ExceptionSubject.MESSAGE:
        return sites_of_message(context, row_id)
    if kind is ExceptionSubject.ORDER:
        return site_of_order(context.database, row_id)
    try:
        return delivery_sites(queries.delivery(context.database, row_id).orders)
    except NoSuchRow:
        raise NoSuchItem from None
