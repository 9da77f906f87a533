"""
Bulk actions: replay, cancel, retry, skip and acknowledge, for the rows of a selection.

The change of a row, its audit event, its result and the progress of the job are one transaction.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from sqlalchemy import Connection
from typing_extensions import override

from bridge.admin.background import jobs
from bridge.admin.background.jobs import (
    DONE,
    BackgroundJob,
    JobKind,
    JobRow,
    LeaseLost,
    Progress,
)
from bridge.admin.background.work import (
    MAX_ACTION_ROWS,
    JobContext,
    JobWork,
    SelectedRow,
    SelectedRows,
    log_failure,
)
from bridge.admin.errors import NoSuchItem
from bridge.admin.lists.listing import Access
from bridge.admin.messages.message_replay import BatchReplay
from bridge.audit import outbox
from bridge.audit.events import AuditEvent, AuditOrigin, code_of, command_event
from bridge.errors import BridgeError
from bridge.queue import operations
from bridge.queue.errors import NoSuchRow
from bridge.queue.states import QueueState
from bridge.store.errors import StoreError
from bridge.store.records import exceptions
from bridge.store.records.exceptions import ExceptionSubject

SUBJECTS: Final[Mapping[str, str]] = {"messages": "message", "deliveries": "delivery"}
"""What a row of each list is called in audit events."""
ACTIONS: Final[Mapping[str, frozenset[JobKind]]] = {
    "messages": frozenset({JobKind.REPLAY, JobKind.CANCEL, JobKind.ACKNOWLEDGE}),
    "deliveries": frozenset({JobKind.RETRY, JobKind.SKIP, JobKind.ACKNOWLEDGE}),
}
"""The actions on the rows of each list."""
RATE: Final = 100.0
"""Rows a second, at most, unless the job has another rate (0: no limit)."""

Change = Callable[[int], int | None]
"""Changes a row; may return how many later messages of its patient are already applied."""


class RowRate:
    """At most so many rows a second; 0: no limit. After a delay the rows do not come faster."""

    def __init__(
        self,
        rate: float,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = 1 / rate if rate else 0.0
        self._sleep = sleep
        self._clock = clock
        self._due = clock()

    def wait(self, until: float) -> bool:
        """Wait until the next row is due; False if that is after `until`."""
        wait = self._due - self._clock()
        if wait > 0:
            self._sleep(min(wait, max(0.0, until - self._clock())))
        return self._due <= self._clock()

    def begin(self) -> None:
        """Note that a row begins."""
        self._due = max(self._due, self._clock()) + self._interval


class BulkAction(JobWork):
    """The work of a bulk action."""

    def __init__(self, context: JobContext, job: BackgroundJob) -> None:
        self._context = context
        self._job = job
        self._rows = SelectedRows(context.database, job)
        self._change = _change_of(context, job)
        self._rate = RowRate(float(job.options.get("rate", RATE)))
        self._stored = job.cursor
        self._left = MAX_ACTION_ROWS - job.handled

    @property
    def is_complete(self) -> bool:
        """True after the last row, or after as many as an action may change."""
        return self._rows.is_complete or self._left <= 0

    @override
    def step(self, access: Access, until: float) -> bool:
        while self.act(access, until) is not None and time.monotonic() < until:
            pass
        return self.is_complete

    def act(self, access: Access, until: float) -> JobRow | None:
        """Change the next row, and return its result; None if none is due before `until`."""
        if self._left <= 0 or not self._rate.wait(until):
            return None
        row = self._rows.next(access, until)
        if row is None:
            self._pass_over()
            return None
        self._rate.begin()
        self._left -= 1
        self._stored = self._rows.cursor
        return self._result_of(row)

    @override
    def result(self) -> dict[str, object]:
        return {"more": True} if self._left <= 0 and not self._rows.is_complete else {}

    def _pass_over(self) -> None:
        """Store that rows which do not match were examined."""
        if self._rows.cursor == self._stored:
            return
        with self._context.database.write_without_sync() as connection:
            passed = Progress(self._rows.cursor)
            jobs.store_progress(connection, self._job.id, self._context.owner, passed)
        self._stored = self._rows.cursor

    def _result_of(self, row: SelectedRow) -> JobRow:
        subject = SUBJECTS[self._job.selection.list], row.id
        event = event_of(self._job, self._job.kind.value, subject)
        stored = _RowResult(self._context, self._job, row.id, self._rows.cursor)
        database, now = self._context.database, self._context.clock()
        try:
            with outbox.recorded(database, event, now, stored):
                overtaken = self._changed(row)
        except (StoreError, LeaseLost):
            raise
        except Exception as error:  # noqa: BLE001  # the other rows are still handled
            if not isinstance(error, BridgeError):
                log_failure("row failed", self._job, error)
            return stored.row
        if overtaken:
            text = f"{overtaken} later messages of this patient are already applied"
            jobs.add_detail(database, self._job.id, row.id, text)
            return JobRow(row.id, DONE, text)
        return stored.row

    def _changed(self, row: SelectedRow) -> int | None:
        """Change a row. Raises NoSuchItem if it may not be seen."""
        if row.is_hidden:
            subject = SUBJECTS[self._job.selection.list]
            raise NoSuchItem(f"there is no {subject} {row.id}")
        return self._change(row.id)


class _RowResult:
    """Stores the result of a row and the progress of its job, with the row's audit event."""

    def __init__(self, context: JobContext, job: BackgroundJob, row_id: int, cursor: int) -> None:
        self._context = context
        self._job = job
        self._row_id = row_id
        self._cursor = cursor
        self._is_stored = False
        self.row = JobRow(row_id, DONE, "")

    def __call__(self, connection: Connection, error: Exception | None) -> None:
        """
        Store them. Raises LeaseLost, which undoes the change, if another process has the job.

        A row has no result while the database is not available: it is handled again.
        """
        if isinstance(error, StoreError | LeaseLost):
            raise error
        if error is not None:
            self.row = JobRow(self._row_id, _code_of(error), _text_of(error))
        if not jobs.store_row(connection, self._job.id, self.row):
            if self._is_stored:
                return
            raise LeaseLost
        self._is_stored = True
        counts = Progress(self._cursor, 1, int(error is None), int(error is not None))
        jobs.store_progress(connection, self._job.id, self._context.owner, counts)


def _code_of(error: Exception) -> str:
    return "not_found" if isinstance(error, NoSuchItem | NoSuchRow) else code_of(error)


def _text_of(error: Exception) -> str:
    """Return the text of an error of ours; others may quote patient data."""
    return str(error) if isinstance(error, BridgeError) else ""


def event_of(job: BackgroundJob, action: str, target: tuple[str, object]) -> AuditEvent:
    """Return an audit event of a job."""
    details = {"job": job.id} | ({"reason": job.reason} if job.reason else {})
    named = (target[0], str(target[1]))
    if not job.account_id:
        return command_event(action, target=named, details=details)
    return AuditEvent(
        action, details=details, actor=job.actor, origin=AuditOrigin.CONSOLE, target=named
    )


def _change_of(context: JobContext, job: BackgroundJob) -> Change:
    """Return the function that changes a row."""
    database, chosen = context.database, _chosen_state(job)
    if job.kind is JobKind.REPLAY:
        return BatchReplay(context.settings, database, chosen)
    if job.kind is JobKind.RETRY:
        return partial(operations.retry_delivery, database, expected_state=chosen)
    if job.kind is JobKind.ACKNOWLEDGE:
        subject = ExceptionSubject(SUBJECTS[job.selection.list])

        def acknowledge(row_id: int) -> None:
            rows = [(subject, row_id)]
            exceptions.mark_seen(database, rows, context.clock(), job.actor)

        return acknowledge
    single = {JobKind.CANCEL: operations.cancel_message, JobKind.SKIP: operations.skip_delivery}
    return partial(single[job.kind], database)


def _chosen_state(job: BackgroundJob) -> QueueState | None:
    """Return the single state for which the rows were selected, if any."""
    chosen = (job.selection.filters or job.options).get("state", ())
    states = [chosen] if isinstance(chosen, str) else list(chosen)
    one = states[0] if len(states) == 1 else ""
    return QueueState(one) if one in set(QueueState) else None
