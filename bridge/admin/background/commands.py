"""Background jobs of commands: run in the foreground, and those of others listed and stopped."""

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bridge.admin.audit_events import audited, relayed
from bridge.admin.background import exports, jobs, requests
from bridge.admin.background.actions import BulkAction
from bridge.admin.background.jobs import (
    BackgroundJob,
    JobKind,
    JobRow,
    JobState,
    Requester,
    Selection,
)
from bridge.admin.background.requests import JobRequest
from bridge.admin.background.runner import finish, make_work, run_step
from bridge.admin.background.work import JobContext, JobFailed
from bridge.admin.definitions import shadow
from bridge.admin.definitions.drafts import sources_of
from bridge.admin.definitions.shadow import ShadowRequest
from bridge.admin.lists.listing import UNLIMITED
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.admin.progress import NOT_SHOWN, Report
from bridge.audit.events import operator
from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.errors import StoreError
from bridge.store.records.background_jobs import delete_parts
from config import load

_STEP_SECONDS: Final = 0.2
_RENEW_SECONDS: Final = 10.0
_READ_SECONDS: Final = 1.0
_SHOWN_ROWS: Final = 1000


class FileExists(BridgeError):
    """The file of an export exists already."""

    def __init__(self, file: Path) -> None:
        super().__init__(f"{file} exists already")


def act(
    home: Path, kind: JobKind, rows: Selection, *, state: str | None = None, rate: float = 0.0
) -> Iterator[JobRow]:
    """
    Do an action for rows with ids, oldest first, `rate` a second; yield the result of each.

    `state` is the state for which the rows were selected, if any. Each is audited. If the command
    is interrupted, each row is changed completely or not at all.
    """
    ids = sorted(set(rows.ids))
    with bridge_database(home) as database, relayed(home, database):
        context = _context(home, database)
        options = {"rate": rate} | ({} if state is None else {"state": state})
        for start in range(0, len(ids), requests.MAX_IDS):
            some = Selection(rows.list, ids=ids[start : start + requests.MAX_IDS])
            job = _create(context, JobRequest(kind, some, options))
            yield from _results(context, job)


def _results(context: JobContext, job: BackgroundJob) -> Iterator[JobRow]:
    action, state = BulkAction(context, job), JobState.STOPPED
    hold = _Hold(context, job)
    try:
        while not action.is_complete and hold.is_kept():
            result = action.act(UNLIMITED, time.monotonic() + _STEP_SECONDS)
            if result is not None:
                yield result
        state = JobState.DONE if action.is_complete else JobState.STOPPED
    finally:
        with suppress(StoreError):
            finish(context, job, action, state)


def export(
    home: Path,
    selection: Selection,
    options: Mapping[str, Any],
    file: Path | None,
    report: Report = NOT_SHOWN,
) -> BackgroundJob:
    """
    Export messages or deliveries to a new file; audited.

    `options` as in `JobRequest`; without a file they name the definition whose examples the
    messages become. Raises FileExists, JobFailed, InvalidContent.
    """
    if file is not None and file.exists():
        raise FileExists(file)
    request = JobRequest(JobKind.EXPORT, selection, options)
    with bridge_database(home) as database, relayed(home, database):
        context = _context(home, database)
        with audited(home, database, "export", (selection.list, "")):
            job = _create(context, request)
        done = _run(context, job, report)
        if done.state is not JobState.DONE:
            raise JobFailed(str(done.result.get("error", "")), _failure_of(done))
        if file is not None:
            with file.open("xb") as written:
                for part in jobs.parts(database, job.id):
                    written.write(exports.unpacked(done, part))
        delete_parts(database, job.id)
        return done


def run_shadow(
    home: Path,
    name: str,
    versions: tuple[str, str],
    days: float,
    report: Report = NOT_SHOWN,
) -> Mapping[str, Any]:
    """
    Compare two versions, named as in `sources_of`, on the messages of some days; audited.

    Return the result of the shadow run. Raises JobFailed, InvalidContent, NoSuchVersion.
    """
    with bridge_database(home) as database, relayed(home, database):
        context = _context(home, database)
        before, after = (
            sources_of(context.settings, database, name, version) for version in versions
        )
        request = ShadowRequest(name, before, after, days)
        requester = Requester(operator(), owner=context.owner)
        with audited(home, database, "shadow run", ("mapping", name)):
            job = shadow.start(context.settings, database, request, requester, _now_ms())
        done = _run(context, job, report)
    if done.state is not JobState.DONE:
        raise JobFailed(str(done.result.get("error", "")), _failure_of(done))
    return done.result


def _context(home: Path, database: Database) -> JobContext:
    settings = load(home)
    owner = f"{operator()}-{secrets.token_hex(8)}"
    return JobContext(settings, database, MessageSubjects(settings, database), _now_ms, owner)


def _create(context: JobContext, request: JobRequest) -> BackgroundJob:
    requester = Requester(operator(), owner=context.owner)
    return requests.create(context.database, request, UNLIMITED, requester, _now_ms())


class _Hold:
    """The lease of a job in the foreground: renewed in time, until somebody stops the job."""

    def __init__(self, context: JobContext, job: BackgroundJob) -> None:
        self._context = context
        self._job = job
        self._renewed_at = self._read_at = time.monotonic()

    def is_kept(self) -> bool:
        """Extend the lease if it is time; False if the job is to stop. Raises LeaseLost."""
        context, now = self._context, time.monotonic()
        if now - self._renewed_at > _RENEW_SECONDS:
            jobs.renew(context.database, self._job.id, context.owner, context.clock())
            self._renewed_at = now
        if now - self._read_at < _READ_SECONDS:
            return True
        self._read_at = now
        state = jobs.held_state(context.database, self._job.id, context.owner)
        return state is not JobState.STOPPING


def _failure_of(job: BackgroundJob) -> str:
    return str(job.result.get("detail") or job.result.get("error") or f"the job is {job.state}")


def _run(context: JobContext, job: BackgroundJob, report: Report) -> BackgroundJob:
    """Work at a job of this command until its end; if it is interrupted, stop the job."""
    work, hold = make_work(context, job), _Hold(context, job)
    try:
        while not run_step(context, job, work, UNLIMITED, time.monotonic() + _STEP_SECONDS):
            if not hold.is_kept():
                finish(context, job, work, JobState.STOPPED)
                break
            current = jobs.find(context.database, job.id)
            report(job.title, current.handled, max(job.expected, current.handled))
    except KeyboardInterrupt:
        finish(context, job, work, JobState.STOPPED)
        raise
    return jobs.find(context.database, job.id)


def list_jobs(home: Path, limit: int) -> list[dict[str, Any]]:
    """List all background jobs, newest first."""
    with bridge_database(home) as database:
        return [job.as_json() for job in jobs.newest(database, None, limit)]


def show_job(home: Path, job_id: int, *, failed_only: bool) -> tuple[dict[str, Any], list[Any]]:
    """Return a job and its first results by row. Raises NoSuchItem."""
    with bridge_database(home) as database:
        job = jobs.find(database, job_id)
        rows = jobs.rows_of(database, job_id, failed_only=failed_only, after=0, limit=_SHOWN_ROWS)
    return job.as_json(), rows


def stop_job(home: Path, job_id: int) -> dict[str, Any]:
    """Let a job end after its current row; audited. Raises NoSuchItem."""
    with bridge_database(home) as database:
        jobs.find(database, job_id)
        with audited(home, database, "stop job", ("background job", str(job_id))):
            jobs.stop(database, job_id, _now_ms())
        return jobs.find(database, job_id).as_json()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
