"""The search field of the console: any number or name."""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import StringConstraints

from bridge.admin import find
from bridge.admin.access.permissions import Permission
from bridge.admin.lists.listing import Access
from bridge.console.http.guard import AuditedAction, CallDep, ConsoleRoute, run_audited
from bridge.console.http.models.bodies import Body
from bridge.console.http.models.lists import FoundBody
from bridge.queue.log_tables import pull_new

router = APIRouter(prefix="/api/find", route_class=ConsoleRoute)


class FindBody(Body):
    """A number or name, in the body because it may identify a patient."""

    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


@router.post("", responses={200: {"model": FoundBody}})
async def anything(body: FindBody, call: CallDep) -> dict[str, Any]:
    """Return orders, messages, deliveries, channels and definitions with a number or name."""
    context, access = call.context, Access.of(call.user.grant)
    search = partial(
        find.find, context.settings, context.database, context.subjects_of, body.text, access
    )

    def work() -> dict[str, Any]:
        pull_new(context.database)
        return asdict(search())

    action = AuditedAction((Permission.FIND,), "search", "anything")
    return await run_audited(call, action, work)
