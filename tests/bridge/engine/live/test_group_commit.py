"""Group commit: use cases that share a transaction succeed or fail each on its own."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import event, insert

from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import AuditEvent
from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.records.tables import Site, metadata
from bridge.engine.service import change_feed
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.work import ActorRef, Work
from bridge.store.database import Database
from tests.bridge.engine.registrations import register
from tests.bridge.engine.service.harness import SITE, START, ServiceHarness
from tests.eventually import PATIENCE

Use = Callable[[Work], object]
SITES = metadata.tables[str(Site.__tablename__)]


class BrokenError(Exception):
    """A defect in one use case."""


@pytest.fixture
def harness(database: Database) -> ServiceHarness:
    return ServiceHarness(database)


@pytest.fixture
def executor(harness: ServiceHarness) -> Iterator[DatabaseExecutor]:
    executor = DatabaseExecutor(harness.database, 4)
    yield executor
    executor.close()


def order(accession: str) -> Use:
    def use(work: Work) -> str:
        work.audit(AuditEvent("order", SITE, details={"name": accession}))
        return register(work, SITE, OrderInput("M1", accession)).report_id

    return use


def after(first: Use, error: Exception) -> Use:
    """Return a use case that runs another one and then fails."""

    def use(work: Work) -> None:
        first(work)
        raise error

    return use


def together(executor: DatabaseExecutor, *uses: Use) -> list[object]:
    """Submit use cases in one turn of the loop; return results and errors."""

    async def submit_all() -> list[object]:
        # The first runs alone and occupies the batcher, so that the others form a batch.
        return await asyncio.gather(
            *(executor.change(ActorRef(), START, use) for use in uses), return_exceptions=True
        )

    return asyncio.run(submit_all())


def feed_of(harness: ServiceHarness) -> list[str]:
    """Return the accessions in the feed, in its order."""
    with harness.database.read() as connection:
        page = change_feed.read_changes(connection, [SITE], 0, 1000)
    return [each["orders"][0]["Accession"] for each in page.changes]


def trail_of(harness: ServiceHarness) -> list[str]:
    """Return the names in the audit trail, in its order, after a check of the chain."""
    with harness.database.read() as connection:
        assert ENGINE_CHAIN.verify(connection).broken is None
        rows = connection.execute(
            ENGINE_CHAIN.table.select().order_by(ENGINE_CHAIN.table.c.sequence)
        )
        return [row.details["name"] for row in rows if row.action == "order"]


def test_a_failed_use_case_does_not_affect_others(
    harness: ServiceHarness, executor: DatabaseExecutor
) -> None:
    """Refusals, defects and failed statements roll back only their own use case."""
    uses = [
        order("A"),
        after(order("B"), EngineError(ErrorCode.REPORT_NOT_FOUND)),
        order("C"),
        after(order("D"), BrokenError()),
        lambda work: work.connection.exec_driver_sql("SELECT nothing FROM nowhere"),
        order("E"),
    ]
    a, b, c, d, broken, e = together(executor, *uses)
    assert all(isinstance(each, str) for each in (a, c, e))
    assert isinstance(b, EngineError)
    assert isinstance(d, BrokenError)
    assert isinstance(broken, Exception)
    assert feed_of(harness) == trail_of(harness) == ["A", "C", "E"]


def test_a_unique_key_conflict_affects_one_use_case(
    harness: ServiceHarness, executor: DatabaseExecutor
) -> None:
    """It is repeated alone, then refused; the others are kept."""

    def twice(work: Work) -> None:
        order("T")(work)
        work.connection.execute(insert(SITES).values(site_id=SITE, created_at=START))

    outcomes = together(executor, order("A"), twice, order("B"))
    assert isinstance(outcomes[1], EngineError)
    assert outcomes[1].code == "changed"
    assert feed_of(harness) == ["A", "B"]


def test_use_cases_see_earlier_changes(harness: ServiceHarness, executor: DatabaseExecutor) -> None:
    """Of several that sign one report, one signs and the others are refused."""
    harness.draft("A")
    uses: list[Use] = [lambda work: sign(work, OrderKey(SITE, "M1", "A")).report_id] * 6
    outcomes = together(executor, *uses)
    codes = [each.code for each in outcomes if isinstance(each, EngineError)]
    assert codes == ["already_signed"] * 5
    assert harness.releases() == [("final", 1)]


def test_many_share_few_commits(harness: ServiceHarness, executor: DatabaseExecutor) -> None:
    """Forty concurrent use cases need fewer than ten commits, each announced once."""
    commits: list[object] = []
    event.listen(harness.database.engine, "commit", commits.append)
    outcomes = together(executor, *(order(f"A{number}") for number in range(40)))
    assert len({str(each) for each in outcomes}) == 40
    assert sorted(feed_of(harness)) == sorted(f"A{number}" for number in range(40))
    assert len(commits) < 10


@pytest.mark.parametrize("invalid", ["A1", "A3"])
def test_an_invalid_audit_event_fails_only_its_use_case(
    harness: ServiceHarness, executor: DatabaseExecutor, invalid: str
) -> None:
    """The others are repeated alone and kept."""

    def use(name: str) -> Use:
        def noting(work: Work) -> object:
            work.audit(AuditEvent("order", SITE, details={"name": name, "odd": object()}))
            return register(work, SITE, OrderInput("M1", name)).report_id

        return noting if name == invalid else order(name)

    outcomes = together(executor, *(use(f"A{number}") for number in range(5)))
    failed = [f"A{n}" for n, each in enumerate(outcomes) if isinstance(each, Exception)]
    assert failed == [invalid]
    assert (
        sorted(feed_of(harness))
        == sorted(trail_of(harness))
        == sorted({f"A{number}" for number in range(5)} - {invalid})
    )


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_use_case_that_waits_for_a_lock_leaves_the_batch(
    harness: ServiceHarness, executor: DatabaseExecutor
) -> None:
    """A locked report delays only the use cases of that report."""
    for name in "AB":
        harness.draft(name)

    async def submit_all() -> str:
        with harness.work() as other:
            lock_report(other, OrderKey(SITE, "M1", "A"))
            held = asyncio.gather(*(_signing(executor, "A") for _ in range(2)))
            free = asyncio.gather(*(_signing(executor, f"{n}") for n in "B"))
            await asyncio.wait_for(free, PATIENCE)
            assert not held.done()
        codes = await asyncio.wait_for(held, PATIENCE)
        return " ".join(sorted(codes))

    assert asyncio.run(submit_all()) == "already_signed signed"


async def _signing(executor: DatabaseExecutor, accession: str) -> str:
    try:
        await executor.change(
            ActorRef(), START, lambda work: sign(work, OrderKey(SITE, "M1", accession)).report_id
        )
    except EngineError as refusal:
        return refusal.code
    return "signed"
