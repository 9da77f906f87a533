"""Group commit: use cases that share a transaction succeed or fail each on its own."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import event, insert

from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import AuditEvent
from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.live.database_executor import Batcher, DatabaseExecutor
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
    return [change["orders"][0]["Accession"] for change in page.changes]


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
    assert all(isinstance(item, str) for item in (a, c, e))
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
    codes = [outcome.code for outcome in outcomes if isinstance(outcome, EngineError)]
    assert codes == ["already_signed"] * 5
    assert harness.releases() == [("final", 1)]


def test_many_share_few_commits(harness: ServiceHarness, executor: DatabaseExecutor) -> None:
    """Forty concurrent use cases need fewer than ten commits, each announced once."""
    commits: list[object] = []
    event.listen(harness.database.engine, "commit", commits.append)
    outcomes = together(executor, *(order(f"A{number}") for number in range(40)))
    assert len({str(outcome) for outcome in outcomes}) == 40
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
    failed = [f"A{n}" for n, outcome in enumerate(outcomes) if isinstance(outcome, Exception)]
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


class RefusedError(Exception):
    """The error of one item."""


class Counter:
    """Doubles numbers and records the batches; 13 is refused, 99 fails all items of its batch."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    async def together(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(numbers))
        await asyncio.sleep(0.01)  # as a transaction takes some time
        if 99 in numbers:
            raise RefusedError
        return [RefusedError() if number == 13 else 2 * number for number in numbers]


def submitted(
    counter: Counter, numbers: Sequence[int], most: int = 4, concurrency: int = 1
) -> list[int]:
    """Submit numbers at once; the result of a refusal is -1."""

    async def submit_all() -> list[int]:
        batcher = Batcher[int, int](counter.together, most, concurrency)
        results = await asyncio.gather(
            *(batcher.submit(number) for number in numbers), return_exceptions=True
        )
        return [result if isinstance(result, int) else -1 for result in results]

    return asyncio.run(submit_all())


def test_items_of_one_turn_form_batches_of_limited_size() -> None:
    counter = Counter()
    assert submitted(counter, range(10)) == [2 * number for number in range(10)]
    assert counter.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_refused_item_does_not_affect_others() -> None:
    assert submitted(Counter(), [1, 13, 2]) == [2, -1, 4]


def test_the_error_of_a_batch_is_that_of_its_items() -> None:
    """The next batch is processed."""
    assert submitted(Counter(), [1, 99, 2, 3, 5]) == [-1, -1, -1, -1, 10]


def test_batches_run_concurrently() -> None:
    """A second batch does not wait for the first."""

    async def submit_all() -> None:
        gate = asyncio.Event()

        async def together(numbers: Sequence[int]) -> Sequence[int]:
            if numbers[0] == 0:
                await gate.wait()
            return numbers

        batcher = Batcher[int, int](together, 1, concurrency=2)
        held = asyncio.create_task(batcher.submit(0))
        assert await asyncio.wait_for(batcher.submit(1), PATIENCE) == 1
        gate.set()
        assert await held == 0

    asyncio.run(submit_all())


def test_a_cancelled_caller_does_not_affect_others() -> None:
    """The result of a cancelled item is dropped."""

    async def submit_all() -> None:
        batcher = Batcher[int, int](Counter().together, 4)
        cancelled, stays = (asyncio.create_task(batcher.submit(number)) for number in (1, 2))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert await stays == 4
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(submit_all())


def test_a_cancelled_batch_cancels_its_items() -> None:
    """The next batch is processed."""

    async def submit_all() -> None:
        begun = asyncio.Event()
        running: list[asyncio.Task[Any] | None] = []

        async def together(items: Sequence[int]) -> list[int]:
            running.append(asyncio.current_task())
            if len(running) == 1:
                begun.set()
                await asyncio.Event().wait()
            return list(items)

        batcher = Batcher[int, int](together, 8)
        submitted = asyncio.ensure_future(batcher.submit(1))
        await begun.wait()
        later = asyncio.ensure_future(batcher.submit(2))
        (batch,) = running
        assert batch is not None
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitted
        assert await later == 2

    asyncio.run(submit_all())
