"""Exceptions: list what needs attention, and mark it as reviewed."""

from collections.abc import Collection
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from bridge.console import exceptions
from bridge.console.context import ConsoleContext
from bridge.console.errors import NoSuchItem
from bridge.console.http.guard import AuditedAction, ContextDep, UserDep, run_audited
from bridge.console.http.messages import sites_of_message
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads
from bridge.store.records import exceptions as records
from bridge.store.records.exceptions import ExceptionSubject

router = APIRouter(prefix="/api/concerns", route_class=ConsoleRoute)
RowId = Annotated[int, Path(ge=1, lt=2**63)]


@router.get("")
async def listed(user: UserDep, context: ContextDep) -> dict[str, Any]:
    """List open exceptions, then the last reviewed ones; with orders if the user may search."""
    user.grant.require(Permission.SEE)
    work = partial(
        exceptions.list_exceptions,
        context.database,
        context.subjects_of,
        user.grant.reach,
        with_orders=Permission.FIND in user.grant.permissions,
    )
    return {"rows": await Threads.CONSOLE.run(work)}


@router.post("/{kind}/{row_id}/seen")
async def seen(
    kind: ExceptionSubject, row_id: RowId, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Mark an exception as reviewed by the user; its notifications end."""
    email = user.grant.email

    def work() -> None:
        if not records.mark_seen(context.database, [(kind, row_id)], context.clock(), email):
            raise NoSuchItem

    action = AuditedAction(
        (Permission.OPERATE,),
        "acknowledge",
        f"{kind} {row_id}",
        lambda: _sites(context, kind, row_id),
    )
    await run_audited(request, user, action, work)
    return {}


def _sites(context: ConsoleContext, kind: ExceptionSubject, row_id: int) -> Collection[str]:
    if kind is ExceptionSubject.FEED:
        return ()  # no site: only users who are not limited to sites
    if kind is ExceptionSubject.MESSAGE:
        return sites_of_message(context, row_id)
    return exceptions.site_of_order(context.database, row_id)
