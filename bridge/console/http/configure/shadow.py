"""Shadow runs of a definition: what one would compare, start one, and see the values of a row."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query

from bridge.admin.access.permissions import Permission
from bridge.admin.background import jobs
from bridge.admin.background.jobs import BackgroundJob, Requester
from bridge.admin.definitions import shadow
from bridge.admin.definitions.drafts import as_operator_errors
from bridge.admin.definitions.shadow import ShadowRequest
from bridge.admin.definitions.shadow_comparison import (
    PlannedResults,
    ResultComposition,
    read_contents,
    result_values,
)
from bridge.admin.errors import InvalidContent, InvalidState, NoSuchItem
from bridge.admin.lists.definitions import DELIVERIES
from bridge.console.http.guard import (
    AuditedAction,
    CallDep,
    ConsoleCall,
    ConsoleRoute,
    await_audited,
    run_audited,
)
from bridge.console.http.models.background import BackgroundJobResponse
from bridge.console.http.models.bodies import NAME, ShadowBody, VersionName
from bridge.console.http.models.shadow import ShadowPageResponse, ShadowValuesResponse
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS
from bridge.store.database import Database

router = APIRouter(prefix="/api/mappings", route_class=ConsoleRoute)
Name = Annotated[str, Path(pattern=NAME)]
_RUNS: Final = 5


@router.get("/{name}/shadow", responses={200: {"model": ShadowPageResponse}})
async def survey(
    name: Name,
    call: CallDep,
    version: VersionName = "draft",
    before: VersionName = "active",
    days: Annotated[float, Query(gt=0, le=shadow.MAX_DAYS)] = 7,
    connection: Annotated[list[str] | None, Query(max_length=50)] = None,
) -> dict[str, Any]:
    """
    Return what a shadow run would compare, and the user's last runs of this definition.

    `survey` is null, with the reason in `why_not`, if a version has mistakes or nothing uses it.
    """
    grant, context = call.user.grant, call.context
    grant.require(Permission.AUTHOR)
    account = None if Permission.GRANT in grant.permissions else grant.account_id

    def work() -> dict[str, Any]:
        runs = shadow.runs_of(context.database, name, account, _RUNS)
        found = {"survey": None, "why_not": "", "runs": list(map(shadow.run_json, runs))}
        try:
            with as_operator_errors():
                request = _request(
                    call, name, ShadowBody(version=version, before=before, days=days)
                )
                surveyed = shadow.survey(
                    context.settings, context.database, request, context.clock()
                )
        except (InvalidContent, InvalidState, NoSuchItem) as error:
            return {**found, "why_not": str(error)}
        return {**found, "survey": surveyed.as_json()}

    async with context.gate.entered():
        return await CONSOLE_THREADS.run(work)


@router.post("/{name}/shadow", responses={200: {"model": BackgroundJobResponse}})
async def start(name: Name, body: ShadowBody, call: CallDep) -> dict[str, Any]:
    """Compare two versions on the messages of some days, in the background; nothing is sent."""
    grant, context = call.user.grant, call.context
    requester = Requester(grant.email, grant.account_id, grant.visible_sites)

    def work() -> BackgroundJob:
        with as_operator_errors():
            request = _request(call, name, body)
            settings, database = context.settings, context.database
            return shadow.start(settings, database, request, requester, context.clock())

    action = AuditedAction((Permission.AUTHOR,), "shadow run", f"mapping {name}")
    async with context.gate.entered():
        return (await run_audited(call, action, work)).as_json()


def _request(call: ConsoleCall, name: str, body: ShadowBody) -> ShadowRequest:
    grant = call.user.grant
    code = Permission.CODE in grant.permissions
    find = partial(call.context.trials.sources, name, grant.email, code=code)
    return ShadowRequest(name, find(body.before), find(body.version), body.days, body.connections)


@router.get(
    "/{name}/shadow/{job_id}/sample/{row_id}", responses={200: {"model": ShadowValuesResponse}}
)
async def sample(name: Name, job_id: RowId, row_id: RowId, call: CallDep) -> Mapping[str, Any]:
    """Return what differs in one message, or in one result, with both values."""
    context, permissions = call.context, (Permission.AUTHOR, Permission.BODIES)

    def read() -> list[dict[str, str]]:
        job = _run_of(call, name, job_id)
        return shadow.message_values(context.settings, context.database, job, row_id)

    def plan() -> tuple[ResultComposition, list[PlannedResults]]:
        job = _run_of(call, name, job_id)
        with as_operator_errors():
            composition = shadow.result_composition(context.settings, context.database, job)
            return composition, composition.plan([row_id])

    async def compose() -> list[dict[str, str]]:
        composition, planned = await CONSOLE_THREADS.run(plan)
        plans = [plan for results in planned for plan in results.plans]
        contents = await read_contents(context.texts, plans)
        pairs = await CONSOLE_THREADS.run(composition.write, planned, contents)
        return [value for pair in pairs for value in result_values(*pair)]

    async with context.gate.entered():
        if await CONSOLE_THREADS.run(_compares_results, context.database, job_id):
            action = AuditedAction(permissions, "read", f"delivery {row_id}")
            return {"differences": await await_audited(call, action, compose)}
        action = AuditedAction(permissions, "read", f"message {row_id}")
        return {"differences": await run_audited(call, action, read)}


def _compares_results(database: Database, job_id: int) -> bool:
    try:
        return jobs.find(database, job_id).selection.list == DELIVERIES.name
    except NoSuchItem:
        return False  # the audited call refuses it


def _run_of(call: ConsoleCall, name: str, job_id: int) -> BackgroundJob:
    job = jobs.find(call.context.database, job_id)
    if not shadow.is_of(job, name):
        raise NoSuchItem("there is no such shadow run")
    return job
