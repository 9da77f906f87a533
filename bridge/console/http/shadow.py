"""Shadow runs of a definition: start one, and see the differences of one of its messages."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path

from bridge.admin.access.permissions import Permission
from bridge.admin.background import jobs
from bridge.admin.background.jobs import BackgroundJob, Requester
from bridge.admin.definitions import shadow
from bridge.admin.definitions.drafts import as_operator_errors
from bridge.admin.definitions.shadow import ShadowRequest
from bridge.admin.errors import NoSuchItem
from bridge.console.http.bodies import NAME, ShadowBody
from bridge.console.http.guard import AuditedAction, CallDep, ConsoleRoute, run_audited
from bridge.console.http.models.background import BackgroundJobResponse
from bridge.contract.requests import RowId

router = APIRouter(prefix="/api/mappings", route_class=ConsoleRoute)
Name = Annotated[str, Path(pattern=NAME)]


@router.post("/{name}/shadow", responses={200: {"model": BackgroundJobResponse}})
async def start(name: Name, body: ShadowBody, call: CallDep) -> dict[str, Any]:
    """Compare two versions on the messages of some days, in the background; nothing is sent."""
    grant, context = call.user.grant, call.context
    code = Permission.CODE in grant.permissions
    requester = Requester(grant.email, grant.account_id, grant.visible_sites)

    def work() -> BackgroundJob:
        find = partial(context.trials.sources, name, grant.email, code=code)
        with as_operator_errors():
            before, after = find(body.before), find(body.version)
            request = ShadowRequest(name, before, after, body.days, body.listeners)
            settings, database = context.settings, context.database
            return shadow.start(settings, database, request, requester, context.clock())

    action = AuditedAction((Permission.AUTHOR,), "shadow run", f"mapping {name}")
    async with context.gate.entered():
        return (await run_audited(call, action, work)).as_json()


@router.get("/{name}/shadow/{job_id}/sample/{message_id}")
async def sample(name: Name, job_id: RowId, message_id: RowId, call: CallDep) -> Mapping[str, Any]:
    """Return what differs in one message, with both values."""

    def work() -> Mapping[str, Any]:
        database = call.context.database
        job = jobs.find(database, job_id)
        if not shadow.is_of(job, name):
            raise NoSuchItem("there is no such shadow run")
        return shadow.sample_of(call.context.settings, database, job, message_id)

    permissions = (Permission.AUTHOR, Permission.BODIES)
    action = AuditedAction(permissions, "read", f"message {message_id}")
    async with call.context.gate.entered():
        return await run_audited(call, action, work)
