"""Background jobs of a test: created, and run until their end."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from bridge.admin.access.grants import grant_of, save_grant
from bridge.admin.access.permissions import ConsoleRole, Grant
from bridge.admin.background import jobs, requests
from bridge.admin.background.jobs import (
    LEASE_MS,
    BackgroundJob,
    JobKind,
    JobRow,
    JobState,
    Requester,
    Selection,
)
from bridge.admin.background.requests import JobRequest
from bridge.admin.background.runner import BackgroundJobs
from bridge.admin.background.work import JobContext
from bridge.admin.lists.listing import Access
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.store.database import Database
from bridge.store.records.background_jobs import OPEN_STATES
from bridge.store.tables import AUDIT_OUTBOX
from config import Settings
from config.listeners import ListenerSettings

OPERATOR = Grant("op@a.test", ConsoleRole.OPERATOR, bodies=True, account_id="7")
NOW = 1_700_001_000_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def make_context(database: Database, home: Path, owner: str, ahead: int = 0) -> JobContext:
    """Return the context of a process whose clock is ahead."""
    listener = ListenerSettings(name="ris", bind="127.0.0.1:2575", site="A")
    settings = Settings(home=home, listener=[listener])
    subjects_of = MessageSubjects(settings, database)
    return JobContext(settings, database, subjects_of, lambda: now_ms() + ahead, owner)


@dataclass
class JobRuns:
    """Creates jobs as `grant`, and runs them; `crashes` counts the processes that were killed."""

    database: Database
    home: Path
    grant: Grant = OPERATOR
    crashes: int = field(default=0)

    def grant_role(self, grant: Grant | None = None) -> None:
        self.grant = grant or self.grant
        before = grant_of(self.database, self.grant.account_id)
        save_grant(self.database, self.grant, 1, "test", before=before)

    def create(
        self,
        kind: JobKind,
        filters: dict[str, Any] | None = None,
        *,
        ids: tuple[int, ...] = (),
        except_ids: tuple[int, ...] = (),
        list_name: str = "messages",
        reason: str = "a test",
        **options: Any,
    ) -> BackgroundJob:
        selection = Selection(list_name, filters, ids, except_ids)
        request = JobRequest(kind, selection, options, reason)
        requester = Requester(self.grant.email, self.grant.account_id, self.grant.visible_sites)
        access = Access.of(self.grant)
        return requests.create(self.database, request, access, requester, now_ms())

    def runner(self, owner: str = "node") -> BackgroundJobs:
        """Return the runner of a new process, after the leases of killed ones have ended."""
        ahead = self.crashes * (LEASE_MS + 60_000)
        return BackgroundJobs(make_context(self.database, self.home, owner, ahead))

    def finish(self, job: BackgroundJob, runner: BackgroundJobs | None = None) -> BackgroundJob:
        """Run all jobs until this one has ended."""
        runner = runner or self.runner()
        while self.state(job) in OPEN_STATES:
            runner.step()
        return jobs.find(self.database, job.id)

    def state(self, job: BackgroundJob) -> JobState:
        return jobs.find(self.database, job.id).state

    def rows(self, job: BackgroundJob) -> list[JobRow]:
        return jobs.rows_of(self.database, job.id, failed_only=False, after=0, limit=100_000)

    def file(self, job: BackgroundJob) -> bytes:
        return b"".join(jobs.parts(self.database, job.id))

    def events(self, action: str) -> list[dict[str, Any]]:
        """Return the audit events of an action."""
        with self.database.read() as connection:
            bodies = connection.scalars(select(AUDIT_OUTBOX.c.body).order_by(AUDIT_OUTBOX.c.id))
            found = [json.loads(body) for body in bodies]
        return [event for event in found if event["action"] == action]

    def count(self, table: Any) -> int:
        with self.database.read() as connection:
            return int(connection.execute(select(func.count()).select_from(table)).scalar_one())
