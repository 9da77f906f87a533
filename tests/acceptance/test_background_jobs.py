"""A running service works at background jobs, and a new one continues them after a stop."""

import io
import time
import zipfile
from pathlib import Path
from typing import Any

from bridge.admin.access.grants import save_grant
from bridge.admin.access.permissions import ConsoleRole, Grant
from bridge.admin.background import jobs, requests
from bridge.admin.background.jobs import JobKind, JobState, Requester, Selection
from bridge.admin.background.requests import JobRequest
from bridge.admin.lists.listing import Access
from bridge.store.databases import bridge_database
from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.eventually import eventually

OPERATOR = Grant("op@site1.test", ConsoleRole.OPERATOR, bodies=True, account_id="4711")
COUNT = 6


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def create(house: House, kind: JobKind, **options: Any) -> int:
    """Create a job about all messages, as the console does."""
    request = JobRequest(kind, Selection("messages", {"type": "ORM^O01"}), options, "a test")
    requester = Requester(OPERATOR.email, OPERATOR.account_id)
    with bridge_database(house.home) as database:
        access = Access.of(OPERATOR)
        return requests.create(database, request, access, requester, now_ms()).id


def test_a_job_runs_in_the_service_and_continues_after_a_restart(tmp_path: Path) -> None:
    """A slow replay is interrupted by a stop; afterwards each message has one result."""
    house = House(tmp_path / "home")
    house.make()
    house.start()
    try:
        house.send(*(order(number) for number in range(1, COUNT + 1)))
        house.settle()
        with bridge_database(house.home) as database:
            save_grant(database, OPERATOR, 1, "test")
        export = create(house, JobKind.EXPORT, format="raw")
        with bridge_database(house.home) as database:
            eventually(lambda: jobs.find(database, export).state is JobState.DONE)
            content = b"".join(jobs.parts(database, export))
        assert len(zipfile.ZipFile(io.BytesIO(content)).namelist()) == COUNT + 1
        replay = create(house, JobKind.REPLAY, rate=2)
        with bridge_database(house.home) as database:
            eventually(lambda: jobs.find(database, replay).handled > 0)
        assert house.stop() == 0
        with bridge_database(house.home) as database:
            stopped = jobs.find(database, replay)
        assert (stopped.state, stopped.handled < COUNT) == (JobState.RUNNING, True)
        house.start()
        with bridge_database(house.home) as database:
            eventually(lambda: jobs.find(database, replay).state is JobState.DONE)
            rows = jobs.rows_of(database, replay, failed_only=False, after=0, limit=100)
            handled = jobs.find(database, replay).handled
        assert [row.outcome for row in rows] == ["done"] * COUNT
        assert handled == COUNT
        house.settle()
    finally:
        house.stop()
