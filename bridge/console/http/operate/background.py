"""
Background jobs: create, follow, stop, and download the file of an export.

A user sees the own jobs; who grants roles sees all. A file is read by those who may read what it
contains now: the permissions of the job, and all sites that it could contain.
"""

from collections.abc import AsyncIterator
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from bridge.admin.access.permissions import Grant, Permission
from bridge.admin.background import exports, jobs, requests
from bridge.admin.background.jobs import BackgroundJob, JobKind, JobState, Requester
from bridge.admin.errors import InvalidState, NoSuchItem, PermissionDenied
from bridge.admin.lists.listing import Access
from bridge.console.http.guard import (
    HEADERS,
    AuditedAction,
    CallDep,
    ConsoleCall,
    ConsoleRoute,
    run_audited,
)
from bridge.console.http.models.background import (
    BackgroundJobBody,
    BackgroundJobResponse,
    BackgroundJobsResponse,
    JobRowsResponse,
)
from bridge.contract.requests import RowId
from bridge.executors import CONSOLE_THREADS
from bridge.store.database import Database

router = APIRouter(prefix="/api/background-jobs", route_class=ConsoleRoute)
_LISTED: Final = 200
_ROWS: Final = 500


@router.post("", responses={200: {"model": BackgroundJobResponse}})
async def create(body: BackgroundJobBody, call: CallDep) -> dict[str, Any]:
    """
    Create a job, and return it before it has begun.

    Replay, skip and cancel of several rows, and exports of patient data, require a password that
    was confirmed within the last ten minutes.
    """
    request, grant = body.request(), call.user.grant
    requester = Requester(grant.email, grant.account_id, grant.visible_sites)
    action = AuditedAction(
        tuple(sorted(request.permissions)),
        "create job",
        f"background job {request.kind}",
        reason=request.reason.strip(),
        fresh=lambda: request.is_sensitive,
    )
    database, now = call.context.database, call.context.clock()
    work = partial(requests.create, database, request, Access.of(grant), requester, now)
    return (await run_audited(call, action, work)).as_json()


@router.get("", responses={200: {"model": BackgroundJobsResponse}})
async def list_jobs(
    call: CallDep, limit: Annotated[int, Query(ge=1, le=_LISTED)] = 50
) -> dict[str, Any]:
    """List the user's jobs, newest first; for users who grant roles those of all users."""
    grant = call.user.grant
    grant.require(Permission.SEE)
    account = None if Permission.GRANT in grant.permissions else grant.account_id
    found = await CONSOLE_THREADS.run(jobs.newest, call.context.database, account, limit)
    return {"rows": [job.as_json() for job in found]}


@router.get("/{job_id}", responses={200: {"model": BackgroundJobResponse}})
async def read(job_id: RowId, call: CallDep) -> dict[str, Any]:
    """Return a job."""
    call.user.grant.require(Permission.SEE)
    return (await _found(call, job_id)).as_json()


@router.get("/{job_id}/rows", responses={200: {"model": JobRowsResponse}})
async def rows(
    job_id: RowId,
    call: CallDep,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    *,
    failed: bool = False,
) -> dict[str, Any]:
    """Return the results of rows in the order of their ids; `failed`: only those that failed."""
    call.user.grant.require(Permission.SEE)
    await _found(call, job_id)
    read_rows = partial(jobs.rows_of, failed_only=failed, after=after, limit=_ROWS)
    found = await CONSOLE_THREADS.run(read_rows, call.context.database, job_id)
    following = found[-1].row_id if len(found) == _ROWS else None
    return {"rows": [asdict(row) for row in found], "next": following}


@router.get("/{job_id}/content")
async def content(job_id: RowId, call: CallDep) -> Response:
    """Return the file of an export; the download is audited."""
    database, grant = call.context.database, call.user.grant
    grant.require(Permission.OPERATE)
    job = await _found(call, job_id)

    def numbers() -> list[int]:
        _require_readable(job, grant)
        found = jobs.part_numbers(database, job_id)
        if not found:
            raise NoSuchItem("this file was deleted")
        return found

    action = AuditedAction((Permission.OPERATE,), "download export", f"background job {job_id}")
    sent = await run_audited(call, action, numbers)
    name = exports.file_name(job)
    kind = "text/csv; charset=utf-8" if name.endswith(".csv") else "application/zip"
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_sent(database, job, sent), headers=headers, media_type=kind)


@router.post("/{job_id}/stop", responses={200: {"model": BackgroundJobResponse}})
async def stop(job_id: RowId, call: CallDep) -> dict[str, Any]:
    """Let a job end after its current row; what it has done stays."""
    database, now = call.context.database, call.context.clock()
    await _found(call, job_id)
    action = AuditedAction((Permission.SEE,), "stop job", f"background job {job_id}")
    await run_audited(call, action, partial(jobs.stop, database, job_id, now))
    return (await _found(call, job_id)).as_json()


async def _found(call: ConsoleCall, job_id: int) -> BackgroundJob:
    database, grant = call.context.database, call.user.grant
    return await CONSOLE_THREADS.run(jobs.find_visible, database, job_id, grant)


def _require_readable(job: BackgroundJob, grant: Grant) -> None:
    """Require that the user may read all that the file of an export contains."""
    if job.kind is not JobKind.EXPORT or job.state is not JobState.DONE:
        raise InvalidState("this job has no file")
    for permission in sorted(job.permissions - grant.permissions):
        raise PermissionDenied(permission)
    visible = grant.visible_sites
    if visible is not None and (job.sites is None or not job.sites <= visible):
        raise NoSuchItem("there is no such background job")


async def _sent(database: Database, job: BackgroundJob, numbers: list[int]) -> AsyncIterator[bytes]:
    """Yield the parts of a file; few bytes are in memory at a time."""
    for number in numbers:
        part = await CONSOLE_THREADS.run(jobs.part, database, job.id, number)
        yield exports.unpacked(job, part)
