"""
The records of background jobs: created, claimed with a lease, stopped, read.

A job works through the rows of a list in the order of their ids. The row up to which it has come
(`cursor`), its counts, and what it has written for these rows are stored in one transaction. So
each row has exactly one result, also if a process is killed and another one continues.

A process that runs a job holds a lease. `store_progress` raises LeaseLost if another process has
the job now, which rolls the transaction back. Blocking.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, case, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as add

from bridge.admin.access.permissions import Grant, Permission
from bridge.admin.errors import InvalidState, NoSuchItem
from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.store.lease_clock import lease_time
from bridge.store.records.background_jobs import OPEN_STATES, delete_parts
from bridge.store.tables import BACKGROUND_JOB_PARTS, BACKGROUND_JOB_ROWS, BACKGROUND_JOBS

LEASE_MS: Final = 60_000
MAX_OPEN: Final = 20
MAX_OPEN_OF_ACCOUNT: Final = 5
_LOCK: Final = "background jobs"
_JOB: Final = BACKGROUND_JOBS.c
_ROW: Final = BACKGROUND_JOB_ROWS.c
_PART: Final = BACKGROUND_JOB_PARTS.c


class JobKind(StrEnum):
    REPLAY = "replay"
    RETRY = "retry"
    SKIP = "skip"
    CANCEL = "cancel"
    ACKNOWLEDGE = "acknowledge"
    EXPORT = "export"
    SEARCH = "search"
    SHADOW = "shadow"
    EXAMINE = "examine"


class JobState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


FOUND: Final = "found"
"""The outcome of a row that a deep search has found."""
DONE: Final = "done"
"""The outcome of a row for which the action succeeded; others are codes of errors."""


class LeaseLost(BridgeError):
    """Another process continues this job."""

    def __init__(self) -> None:
        super().__init__("another process continues this job")


class TooManyJobs(InvalidState):
    """There are as many unfinished jobs as permitted."""

    code = "too_many_jobs"

    def __init__(self) -> None:
        super().__init__("too many background jobs are unfinished; wait for one, or stop one")


@dataclass(frozen=True, slots=True)
class Selection:
    """
    Rows of a list: those with `ids`, or those that match `filters` except `except_ids`.

    Values of private filters are sealed (`MessageList.sealed`).
    """

    list: str
    filters: Mapping[str, Any] | None = None
    ids: Sequence[int] = ()
    except_ids: Sequence[int] = ()

    def to_json(self) -> str:
        members: dict[str, Any] = {"list": self.list}
        if self.filters is None:
            return json.dumps({**members, "ids": sorted(set(self.ids))})
        except_ids = sorted(set(self.except_ids))
        return json.dumps({**members, "filters": dict(self.filters), "except_ids": except_ids})


@dataclass(frozen=True, slots=True)
class Requester:
    """
    Who creates a job.

    `account_id` is '' for a command, which runs its job itself, as `owner`. `sites` are the sites
    that the session may see; None: all.
    """

    actor: str
    account_id: str = ""
    sites: frozenset[str] | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True)
class NewJob:
    """
    A job to be stored.

    `options` are those of the kind. `permissions` are required while it runs. `upper_id` is the
    newest row that it handles.
    """

    kind: JobKind
    title: str
    selection: Selection
    upper_id: int
    expected: int
    exact: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    permissions: frozenset[Permission] = frozenset()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BackgroundJob:
    """A stored job; times in ms. `account_id` is '' for a command's job."""

    id: int
    kind: JobKind
    title: str
    selection: Selection
    options: Mapping[str, Any]
    upper_id: int
    actor: str
    account_id: str
    reason: str
    state: JobState
    expected: int
    handled: int
    succeeded: int
    failed: int
    cursor: int
    result: Mapping[str, Any]
    created_at: int
    finished_at: int | None

    @property
    def sites(self) -> frozenset[str] | None:
        """The sites that its creator could see; None: all."""
        found = self.options.get("sites")
        return None if found is None else frozenset(found)

    @property
    def permissions(self) -> frozenset[Permission]:
        return frozenset(map(Permission, self.options.get("permissions", ())))

    @property
    def exact(self) -> bool:
        """True if `expected` is the number of rows; else there may be more."""
        return bool(self.options.get("exact"))

    def may_be_seen(self, grant: Grant) -> bool:
        """True for its creator, and for those who grant roles."""
        own = self.account_id and self.account_id == grant.account_id
        return bool(own) or Permission.GRANT in grant.permissions

    def as_json(self) -> dict[str, Any]:
        """Return what pages show: no filters, because they may contain patient data."""
        return {
            "id": self.id,
            "kind": self.kind.value,
            "title": self.title,
            "actor": self.actor,
            "reason": self.reason,
            "state": self.state.value,
            "list": self.selection.list,
            "format": self.options.get("format", ""),
            "expected": max(self.expected, self.handled),
            "exact": self.exact,
            "handled": self.handled,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "created_at": self.created_at,
            "finished_at": self.finished_at,
            "result": {name: value for name, value in self.result.items() if name != "state"},
        }


@dataclass(frozen=True, slots=True)
class JobRow:
    """The result for one row: `done`, `found`, or the code of an error with its text."""

    row_id: int
    outcome: str
    detail: str

    @property
    def is_done(self) -> bool:
        return self.outcome in {DONE, FOUND}


@dataclass(frozen=True, slots=True)
class Progress:
    """What a job has done since its last progress was stored; `cursor`: the last row examined."""

    cursor: int
    handled: int = 0
    succeeded: int = 0
    failed: int = 0


def create(database: Database, job: NewJob, requester: Requester, now: int) -> BackgroundJob:
    """
    Store a job that waits for a process; a command's job runs at once. Raises TooManyJobs.

    The audit event of the caller is stored in the same transaction.
    """
    options = {
        **job.options,
        "sites": None if requester.sites is None else sorted(requester.sites),
        "permissions": sorted(permission.value for permission in job.permissions),
        "exact": job.exact,
    }
    row = {
        "kind": job.kind.value,
        "title": job.title,
        "selection": job.selection.to_json(),
        "options": json.dumps(options),
        "upper_id": job.upper_id,
        "actor": requester.actor,
        "account_id": requester.account_id,
        "reason": job.reason,
        "state": JobState.RUNNING.value if requester.owner else JobState.WAITING.value,
        "expected": job.expected,
        "created_at": now,
    }
    with database.write() as connection:
        database.serialize(connection, _LOCK)
        if requester.account_id:
            _require_place(connection, requester.account_id)
        if requester.owner:
            until = lease_time(connection, now) + LEASE_MS
            row |= {"owner": requester.owner, "lease_until": until, "started_at": now}
        found = connection.execute(
            insert(BACKGROUND_JOBS).values(row).returning(*BACKGROUND_JOBS.c)
        ).one()
    return _job(found)


def _require_place(connection: Connection, account_id: str) -> None:
    open_jobs = select(func.count()).where(_JOB.state.in_(OPEN_STATES))
    own = open_jobs.where(_JOB.account_id == account_id)
    if (
        connection.execute(open_jobs).scalar_one() >= MAX_OPEN
        or connection.execute(own).scalar_one() >= MAX_OPEN_OF_ACCOUNT
    ):
        raise TooManyJobs


def claim(
    database: Database, owner: str, kinds: Sequence[JobKind], held: Sequence[int], now: int
) -> BackgroundJob | None:
    """
    Claim the oldest job of these kinds that no process runs, except those `held` by this one.

    Jobs of commands are never claimed: a command that was killed must not be continued.
    """
    with database.read_committed() as connection:
        if connection.execute(_OPEN).first() is None:  # nearly always
            return None
        if connection.execute(_claimable(connection, owner, kinds, held, now)).first() is None:
            return None
    with database.write() as connection:
        statement = _claimable(connection, owner, kinds, held, now)
        job_id = connection.execute(statement.with_for_update(skip_locked=True)).scalar()
        if job_id is None:
            return None
        until = lease_time(connection, now) + LEASE_MS
        claimed = update(BACKGROUND_JOBS).where(_JOB.id == job_id)
        row = connection.execute(
            claimed.values(
                owner=owner,
                lease_until=until,
                started_at=func.coalesce(_JOB.started_at, now),
                # One that is to stop stays so.
                state=case(
                    (_JOB.state == JobState.WAITING.value, JobState.RUNNING.value),
                    else_=_JOB.state,
                ),
            ).returning(*BACKGROUND_JOBS.c)
        ).one()
    return _job(row)


_OPEN: Final = select(_JOB.id).where(_JOB.state.in_(OPEN_STATES), _JOB.account_id != "").limit(1)


def _claimable(
    connection: Connection, owner: str, kinds: Sequence[JobKind], held: Sequence[int], now: int
) -> Select[tuple[int]]:
    moment = lease_time(connection, now)
    free = or_(
        _JOB.state == JobState.WAITING.value,
        _JOB.owner == owner,
        _JOB.lease_until < moment,
        _JOB.lease_until > moment + LEASE_MS,  # of a clock before a reboot
    )
    return (
        select(_JOB.id)
        .where(_JOB.state.in_(OPEN_STATES), free, _JOB.account_id != "")
        .where(_JOB.kind.in_([kind.value for kind in kinds]), _JOB.id.not_in(list(held)))
        .order_by(_JOB.id)
        .limit(1)
    )


def stop_abandoned(database: Database, now: int) -> None:
    """End the jobs of commands that were killed."""
    with database.read() as connection:
        moment = lease_time(connection, now)
        abandoned = (
            _JOB.state.in_(OPEN_STATES),
            _JOB.account_id == "",
            or_(_JOB.lease_until < moment, _JOB.lease_until > moment + LEASE_MS),
        )
        found = connection.scalars(select(_JOB.id).where(*abandoned)).all()
    for job_id in found:
        with database.write() as connection:
            ended = update(BACKGROUND_JOBS).where(_JOB.id == job_id, *abandoned)
            connection.execute(_ended(ended, JobState.STOPPED, now))
        delete_parts(database, job_id)


def renew(database: Database, job_id: int, owner: str, now: int) -> None:
    """Extend the lease. Raises LeaseLost."""
    with database.write_without_sync() as connection:
        until = lease_time(connection, now) + LEASE_MS
        held = update(BACKGROUND_JOBS).where(*_held(job_id, owner)).values(lease_until=until)
        if not connection.execute(held).rowcount:
            raise LeaseLost


def release(database: Database, owner: str) -> None:
    """Let other processes continue the jobs of this one at once."""
    own = update(BACKGROUND_JOBS).where(_JOB.owner == owner, _JOB.state.in_(OPEN_STATES))
    with database.write_without_sync() as connection:
        connection.execute(own.values(owner=None, lease_until=0))


def held_state(database: Database, job_id: int, owner: str) -> JobState:
    """Return the state of a job that this process holds. Raises LeaseLost."""
    with database.read() as connection:
        state = connection.scalar(select(_JOB.state).where(*_held(job_id, owner)))
    if state is None:
        raise LeaseLost
    return JobState(state)


def store_progress(
    connection: Connection,
    job_id: int,
    owner: str,
    progress: Progress,
    result: Mapping[str, Any] | None = None,
) -> None:
    """Add to the counts of a job, and replace its result if one is given. Raises LeaseLost."""
    held = update(BACKGROUND_JOBS).where(*_held(job_id, owner))
    changed = held.values(
        cursor=progress.cursor,
        handled=_JOB.handled + progress.handled,
        succeeded=_JOB.succeeded + progress.succeeded,
        failed=_JOB.failed + progress.failed,
    )
    if result is not None:
        changed = changed.values(result=json.dumps(result))
    if not connection.execute(changed).rowcount:
        raise LeaseLost


def store_row(connection: Connection, job_id: int, row: JobRow) -> bool:
    """Store the result of a row; False if it has one already."""
    values = {"job_id": job_id, "row_id": row.row_id, "outcome": row.outcome, "detail": row.detail}
    added = add(BACKGROUND_JOB_ROWS).values(values).on_conflict_do_nothing()
    return connection.execute(added.returning(_ROW.row_id)).first() is not None


def add_detail(database: Database, job_id: int, row_id: int, detail: str) -> None:
    """Add a note to the result of a row."""
    own = update(BACKGROUND_JOB_ROWS).where(_ROW.job_id == job_id, _ROW.row_id == row_id)
    with database.write_without_sync() as connection:
        connection.execute(own.values(detail=detail))


def finish(
    database: Database,
    job: BackgroundJob,
    owner: str,
    state: JobState,
    now: int,
    result: Mapping[str, Any] | None = None,
) -> None:
    """
    End a job; only a complete export keeps its file. Raises LeaseLost.

    What the job needed and nobody reads afterwards is deleted: search conditions, export keys.
    """
    options = {name: value for name, value in job.options.items() if name not in _SECRETS}
    with database.write() as connection:
        held = update(BACKGROUND_JOBS).where(*_held(job.id, owner))
        ended = _ended(held, state, now).values(options=json.dumps(options))
        if result is not None:
            ended = ended.values(result=json.dumps(result))
        if not connection.execute(ended).rowcount:
            raise LeaseLost
    if state is not JobState.DONE:
        delete_parts(database, job.id)


_SECRETS: Final = frozenset({"where", "nonce"})


def _ended(statement: Any, state: JobState, now: int) -> Any:
    return statement.values(state=state.value, finished_at=now, owner=None, lease_until=None)


def _held(job_id: int, owner: str) -> tuple[Any, ...]:
    return _JOB.id == job_id, _JOB.owner == owner, _JOB.state.in_(OPEN_STATES)


def find(database: Database, job_id: int) -> BackgroundJob:
    """Return a job. Raises NoSuchItem."""
    with database.read() as connection:
        row = connection.execute(select(BACKGROUND_JOBS).where(_JOB.id == job_id)).first()
    if row is None:
        raise NoSuchItem("there is no such background job")
    return _job(row)


def find_visible(database: Database, job_id: int, grant: Grant) -> BackgroundJob:
    """Return a job of this user; those who grant roles see all. Raises NoSuchItem."""
    job = find(database, job_id)
    if not job.may_be_seen(grant):
        raise NoSuchItem("there is no such background job")
    return job


def newest(
    database: Database, account_id: str | None, limit: int, kind: JobKind | None = None
) -> list[BackgroundJob]:
    """List jobs, newest first: those of an account, or all (None); of a kind, or of all."""
    statement = select(BACKGROUND_JOBS).order_by(_JOB.id.desc()).limit(limit)
    if kind is not None:
        statement = statement.where(_JOB.kind == kind.value)
    if account_id is not None:
        statement = statement.where(_JOB.account_id == account_id)
    with database.read() as connection:
        return [_job(row) for row in connection.execute(statement)]


def rows_of(
    database: Database, job_id: int, *, failed_only: bool, after: int, limit: int
) -> list[JobRow]:
    """List results of rows above an id, in the order of the ids."""
    statement = (
        select(_ROW.row_id, _ROW.outcome, _ROW.detail)
        .where(_ROW.job_id == job_id, _ROW.row_id > after)
        .order_by(_ROW.row_id)
        .limit(limit)
    )
    if failed_only:
        statement = statement.where(_ROW.outcome.not_in([DONE, FOUND]))
    with database.read() as connection:
        return [JobRow(*row) for row in connection.execute(statement)]


def stop(database: Database, job_id: int, now: int) -> None:
    """Let a job end after its current row; one that no process has claimed ends at once."""
    own = update(BACKGROUND_JOBS).where(_JOB.id == job_id)
    with database.write() as connection:
        waiting = own.where(_JOB.state == JobState.WAITING.value)
        connection.execute(_ended(waiting, JobState.STOPPED, now))
        running = own.where(_JOB.state == JobState.RUNNING.value)
        connection.execute(running.values(state=JobState.STOPPING.value))


def part_numbers(database: Database, job_id: int) -> list[int]:
    """Return the numbers of the parts of a job's file, in order."""
    own = select(_PART.number).where(_PART.job_id == job_id).order_by(_PART.number)
    with database.read() as connection:
        return list(connection.scalars(own))


def part(database: Database, job_id: int, number: int) -> bytes:
    """Return a part of a job's file. Raises NoSuchItem if it was deleted."""
    own = select(_PART.content).where(_PART.job_id == job_id, _PART.number == number)
    with database.read() as connection:
        found = connection.scalar(own)
    if found is None:
        raise NoSuchItem("this file was deleted")
    return bytes(found)


def parts(database: Database, job_id: int) -> Iterator[bytes]:
    """Yield the parts of a job's file."""
    for number in part_numbers(database, job_id):
        yield part(database, job_id, number)


def file_bytes(connection: Connection, job_id: int | None = None) -> int:
    """Return the size of a job's file, or of all files."""
    total = select(func.coalesce(func.sum(func.length(_PART.content)), 0))
    if job_id is not None:
        total = total.where(_PART.job_id == job_id)
    return int(connection.execute(total).scalar_one())


def _job(row: Row[Any]) -> BackgroundJob:
    selection = json.loads(row.selection)
    return BackgroundJob(
        id=row.id,
        kind=JobKind(row.kind),
        title=row.title,
        selection=Selection(
            selection["list"],
            selection.get("filters"),
            tuple(selection.get("ids", ())),
            tuple(selection.get("except_ids", ())),
        ),
        options=json.loads(row.options),
        upper_id=row.upper_id or 0,
        actor=row.actor,
        account_id=row.account_id,
        reason=row.reason,
        state=JobState(row.state),
        expected=row.expected or 0,
        handled=row.handled,
        succeeded=row.succeeded,
        failed=row.failed,
        cursor=row.cursor,
        result=json.loads(row.result) if row.result else {},
        created_at=row.created_at,
        finished_at=row.finished_at,
    )
