"""Merged patient numbers: an operator undoes a wrong merge."""

from typing import Any

from fastapi import APIRouter

from bridge.admin import merges
from bridge.admin.access.permissions import Permission
from bridge.admin.errors import NoSuchItem
from bridge.console.http.bodies import UndoneMergeBody
from bridge.console.http.guard import AuditedAction, CallDep, ConsoleRoute, await_audited
from bridge.executors import Threads

router = APIRouter(prefix="/api/merges", route_class=ConsoleRoute)


@router.post("/undo")
async def undo(body: UndoneMergeBody, call: CallDep) -> dict[str, Any]:
    """
    Undo the merge of a number, which is in the body because addresses are logged.

    Returns how many orders the merge had moved; they are exceptions now.
    """
    database, client = call.context.database, call.context.engine.client
    action = AuditedAction(
        (Permission.FIND, Permission.OPERATE),
        "undo merge",
        f"merge {merges.reference_of(body.site, body.number)}",
        lambda: [body.site],
        reason=body.reason,
    )

    async def work() -> int:
        try:
            found = await Threads.CONSOLE.run(merges.find, database, body.number, body.site)
        except merges.NoSuchMerge:
            raise NoSuchItem from None
        return await merges.undo_pointer(database, client, found)

    return {"orders": await await_audited(call, action, work)}
