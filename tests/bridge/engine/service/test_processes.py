"""Two processes on one database: each report is signed once, and the feed skips nothing."""

from concurrent.futures import Future, ProcessPoolExecutor

import pytest

from bridge.engine.service import change_feed
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.work import ActorRef, transaction
from bridge.store.database import Database
from tests.bridge.engine.registrations import register
from tests.bridge.engine.service.harness import SITE, START, ServiceHarness
from tests.processes import FORKED

pytestmark = pytest.mark.slow


def register_all(url: str, prefix: str, count: int) -> int:
    database = Database(url)
    for number in range(count):
        with transaction(database, ActorRef(), START) as work:
            register(work, SITE, OrderInput(f"{prefix}", f"{prefix}{number}"))
    database.dispose()
    return count


def test_a_reader_of_the_feed_gets_every_change(harness: ServiceHarness, database_url: str) -> None:
    """Cursors increase in commit order: reading from the last cursor returns every change."""
    cursors: list[int] = []
    with ProcessPoolExecutor(2, mp_context=FORKED) as pool:
        running: list[Future[int]] = [
            pool.submit(register_all, database_url, prefix, 60) for prefix in "BC"
        ]
        while not all(task.done() for task in running):
            cursors += _read_next(harness, cursors)
    cursors += _read_next(harness, cursors)

    assert sum(task.result() for task in running) == len(cursors) == len(set(cursors))


def _read_next(harness: ServiceHarness, cursors: list[int]) -> list[int]:
    with harness.database.read() as connection:
        page = change_feed.read_changes(connection, [SITE], max(cursors, default=0), 1000)
    return [change["cursor"] for change in page.changes]
