"""What was applied and still wants a person: list, and say that somebody has looked."""

from collections.abc import Collection
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from bridge.console import exceptions
from bridge.console.context import ConsoleContext
from bridge.console.errors import NoSuchItem
from bridge.console.http.guard import AuditedAction, ContextDep, UserDep, run_audited
from bridge.console.http.messages import sites_of
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads
from bridge.store.records import exceptions as kept
from bridge.store.records.exceptions import ExceptionSubject

router = APIRouter(prefix="/api/concerns", route_class=ConsoleRoute)
Row = Annotated[int, Path(ge=1, lt=2**63)]


@router.get("")
async def listed(user: UserDep, context: ContextDep) -> dict[str, Any]:
    """List what nobody has seen, then what was seen last; orders for those who may find."""
    user.grant.require(Permission.SEE)
    find = Permission.FIND in user.grant.permissions
    reach = user.grant.reach
    work = partial(
        exceptions.list_exceptions, context.database, context.subjects_of, reach, find=find
    )
    found = await Threads.CONSOLE.run(work)
    return {"rows": found}


@router.post("/{kind}/{row_id}/seen")
async def seen(
    kind: ExceptionSubject, row_id: Row, request: Request, user: UserDep, context: ContextDep
) -> dict[str, Any]:
    """Say that one has looked: who and when is kept, and whoever is told of it hears no more."""
    email = user.grant.email

    def work() -> None:
        if not kept.mark_seen(context.database, [(kind, row_id)], context.clock(), email):
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
        return ()  # of no site: only those who reach all
    if kind is ExceptionSubject.MESSAGE:
        return sites_of(context, row_id)
    return exceptions.site_of_order(context.database, row_id)
