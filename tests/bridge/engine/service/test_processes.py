"""Two processes on one database: each report is signed once, and the feed skips nothing."""

from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor

import pytest

from bridge.engine.errors import EngineError
from bridge.engine.rules.order import OrderId
from bridge.engine.service import change_feed
from bridge.engine.service.launch.creation import OrderInput
from bridge.engine.service.launch.registration import register
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.work import ActorRef, transaction
from bridge.store.database import Database
from tests.bridge.engine.service.harness import SITE, START, ServiceHarness
from tests.processes import FORKED

pytestmark = pytest.mark.slow


def sign_all(url: str, accessions: list[str]) -> Counter[str]:
    """Sign reports, and count the outcomes."""
    database = Database(url)
    outcome: Counter[str] = Counter()
    for accession in accessions:
        try:
            with transaction(database, ActorRef(), START) as work:
                sign(work, OrderId(SITE, "M1", accession))
            outcome["ok"] += 1
        except EngineError as refusal:
            outcome[refusal.code] += 1
    database.dispose()
    return outcome


def register_all(url: str, prefix: str, count: int) -> int:
    """Register orders, each in its own transaction."""
    database = Database(url)
    for number in range(count):
        with transaction(database, ActorRef(), START) as work:
            register(work, SITE, OrderInput(f"{prefix}", f"{prefix}{number}"))
    database.dispose()
    return count


def test_two_processes_sign_the_same_reports(harness: ServiceHarness, database_url: str) -> None:
    """Each report is signed once and released once."""
    names = [f"A{number}" for number in range(12)]
    for name in names:
        harness.draft(name)

    with ProcessPoolExecutor(2, mp_context=FORKED) as pool:
        one, two = pool.map(sign_all, [database_url] * 2, [names, names])

    assert one + two == {"ok": 12, "already_signed": 12}
    assert harness.releases() == [("final", 1)] * 12


def test_a_reader_of_the_feed_gets_every_change(harness: ServiceHarness, database_url: str) -> None:
    """Cursors increase in commit order: reading from the last cursor returns every change."""
    cursors: list[int] = []
    with ProcessPoolExecutor(2, mp_context=FORKED) as pool:
        running: list[Future[int]] = [
            pool.submit(register_all, database_url, prefix, 60) for prefix in "BC"
        ]
        while not all(each.done() for each in running):
            cursors += _read_next(harness, cursors)
    cursors += _read_next(harness, cursors)

    assert sum(each.result() for each in running) == len(cursors) == len(set(cursors))


def _read_next(harness: ServiceHarness, cursors: list[int]) -> list[int]:
    with harness.database.read() as connection:
        page = change_feed.read_changes(connection, [SITE], max(cursors, default=0), 1000)
    return [each["cursor"] for each in page.changes]
