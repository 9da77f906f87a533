"""Every claimed message gets an outcome, whatever applying it does."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest
from typing_extensions import override

from bridge.errors import FailureKind
from bridge.queue import queries
from bridge.queue.claims import ClaimedMessage, MessageOutcome, SettlementResult
from bridge.queue.inbox import ClaimedBatch, Inbox
from bridge.queue.states import QueueEvent, QueueState
from bridge.queue.worker.throttle import ProcessingThrottle, unthrottled
from bridge.queue.worker.worker import Apply, Worker
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW
from tests.bridge.queue.worker_runner import WorkerRunner, accepted
from tests.eventually import PATIENCE


@pytest.fixture
def bench(store: Database, intake: Intake) -> WorkerRunner:
    """A bench on each database."""
    return WorkerRunner(store, intake)


def applying(outcome: Callable[[ClaimedMessage], MessageOutcome], log: list[int]) -> Apply:
    """Make an apply that notes what it was given."""

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        log.extend(each.message_id for each in batch)
        await asyncio.sleep(0)
        yield [outcome(each) for each in batch]

    return apply


def test_everything_is_applied_once_and_in_order(bench: WorkerRunner) -> None:
    """Fifty messages of five patients, each once, each patient's in order."""
    ids = bench.keep(*(str(n % 5) for n in range(50)))
    log: list[int] = []
    bench.run(applying(accepted, log), bench.all_done, batch=7)
    assert sorted(log) == ids
    for patient in range(5):
        mine = [each for each in log if (each - ids[0]) % 5 == patient]
        assert mine == sorted(mine)


def test_what_raises_is_tried_again(bench: WorkerRunner, caplog: pytest.LogCaptureFixture) -> None:
    """An unforeseen error postpones its batch, and the log says its kind and no more."""
    bench.keep("1", "2")
    tries: list[int] = []

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        tries.append(len(batch))
        if len(tries) == 1:
            raise ValueError("SECRET")
        yield [accepted(each) for each in batch]

    bench.run(apply, bench.all_done)
    assert len(tries) >= 2
    assert "ValueError" in caplog.text
    assert "SECRET" not in caplog.text


def test_an_outcome_that_is_missing(bench: WorkerRunner) -> None:
    """What apply says nothing about may or may not have been applied: it is tried again."""
    (first, second) = bench.keep("1", "2")
    seen: list[int] = []

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        seen.extend(each.message_id for each in batch)
        yield [accepted(each) for each in batch if each.message_id == first or len(seen) > 2]

    bench.run(apply, bench.all_done)
    assert seen == [first, second, second]
    assert queries.message(bench.store, second).row.attempts == 2


def test_the_retry_policy_sets_the_time(bench: WorkerRunner) -> None:
    """What is postponed without a time of its own gets one from the policy."""
    bench.keep("1")

    def postponed(each: ClaimedMessage) -> MessageOutcome:
        if each.attempts < 4:
            return MessageOutcome(
                each.message_id, QueueEvent.POSTPONED, FailureKind.TRANSIENT, "503"
            )
        return accepted(each)

    log: list[int] = []
    bench.run(applying(postponed, log), bench.all_done)
    assert len(log) == 4


def _limited() -> ProcessingThrottle:
    """Return the throttle of a process to which a message comes every millisecond."""
    clock = itertools.count()
    throttle = ProcessingThrottle(lambda: next(clock), lambda: next(clock) / 1000, lambda: 0.0)
    while not throttle.is_limited:
        pass
    return throttle


@pytest.mark.parametrize("throttle", [unthrottled, _limited])
def test_a_slow_batch_delays_its_own_lanes_only(
    bench: WorkerRunner, throttle: Callable[[], ProcessingThrottle]
) -> None:
    """While a message of one patient waits, messages of others are applied."""
    slow, *others = bench.keep("1", "2", "3")
    log: list[int] = []
    go_on = asyncio.Event()

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        (each,) = batch
        if each.message_id == slow:
            await go_on.wait()
        log.append(each.message_id)
        if len(log) == len(others):
            go_on.set()
        yield [accepted(each)]

    bench.run(apply, bench.all_done, batch=1, throttle=throttle())
    assert log == [*others, slow]


def test_what_comes_meanwhile_is_one_batch(bench: WorkerRunner) -> None:
    """What is stored while a batch is on its way waits for it, and is claimed together."""
    bench.keep("1")
    sizes: list[int] = []

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        sizes.append(len(batch))
        if len(sizes) == 1:
            for patient in "23":
                await asyncio.to_thread(bench.keep, patient)
                await asyncio.sleep(0.1)
        yield [accepted(each) for each in batch]

    bench.run(apply, bench.all_done, gather_seconds=9)
    assert sizes == [1, 2]


class Flaky(Inbox):
    """An inbox whose database is away for the first two settlements."""

    away = 2

    @override
    def settle(self, outcomes: Sequence[MessageOutcome], now: int) -> SettlementResult:
        """Fail twice, then settle."""
        if self.away:
            self.away -= 1
            raise StoreUnavailable("SQLITE_FULL")
        return super().settle(outcomes, now)


def test_outcomes_survive_a_full_disk(bench: WorkerRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was applied is written down as soon as the database takes it, not applied again."""
    monkeypatch.setattr("bridge.queue.worker.worker._STORE_RETRY_SECONDS", 0.01)
    bench.keep("1", "2")
    bench.inbox = Flaky(bench.store, "node")
    log: list[int] = []
    bench.run(applying(accepted, log), bench.all_done)
    assert len(log) == 2


def test_a_restart_takes_up_what_was_in_hand(bench: WorkerRunner) -> None:
    """Claims of the process that was killed are applied at once after the start."""
    bench.keep("1", "2")
    assert len(Inbox(bench.store, "node").claim(NOW, 10)) == 2
    log: list[int] = []
    bench.run(applying(accepted, log), bench.all_done)
    assert len(log) == 2


def test_an_ended_lease_is_not_extended(bench: WorkerRunner) -> None:
    """A process that was frozen does not take its messages for its own again."""
    bench.keep("1")
    seconds = 0.0
    inbox = Inbox(bench.store, "node", lease=60_000, timer=lambda: seconds)
    held: list[bool] = []

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        nonlocal seconds
        for moment in (50.0, 109.0, 170.0):
            seconds = moment
            await worker.keep_leases()
            held.append(batch[0].lease.is_held)
        yield [accepted(each) for each in batch]

    worker = Worker(inbox, apply, clock=lambda: NOW, poll=120)

    async def story() -> None:
        await worker.start()
        async with asyncio.timeout(30):
            while not await asyncio.to_thread(bench.all_done):  # noqa: ASYNC110  # see `Bench.run`
                await asyncio.sleep(0.005)
        await worker.stop()

    asyncio.run(story())
    assert held == [True, True, False]


def test_stop_gives_back_what_hangs(bench: WorkerRunner) -> None:
    """What does not finish in time is queued again for whoever starts next."""
    bench.keep("1")
    begun: list[int] = []

    async def hang(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        begun.append(len(batch))
        await asyncio.sleep(60)
        yield []

    bench.run(hang, lambda: bool(begun), drain=0.01)
    assert bench.states() == [QueueState.QUEUED]


def test_notify_wakes_at_once(bench: WorkerRunner) -> None:
    """A worker that is told does not wait for its next look."""
    applied = asyncio.Event()

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        applied.set()
        yield [accepted(each) for each in batch]

    async def story() -> None:
        worker = Worker(bench.inbox, apply, clock=lambda: NOW, poll=120)
        await worker.start()
        await asyncio.sleep(0.05)
        await asyncio.to_thread(bench.keep, "1")
        worker.notify()
        async with asyncio.timeout(PATIENCE):
            await applied.wait()
        await worker.stop()

    asyncio.run(story())
    assert bench.all_done()


def without_looking(bench: WorkerRunner, **settings: Any) -> None:
    """Run a worker that hardly ever looks by itself, until all is applied."""

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        yield [accepted(each) for each in batch]

    async def story() -> None:
        worker = Worker(bench.inbox, apply, clock=lambda: NOW, poll=120, **settings)
        await worker.start()
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(bench.all_done):  # noqa: ASYNC110  # see `Bench.run`
                await asyncio.sleep(0.005)
        await worker.stop()

    asyncio.run(story())


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_what_moves_up_is_claimed_at_once(bench: WorkerRunner, batch: int) -> None:
    """Neither what stood behind another nor what was too much for one batch waits for a look."""
    bench.keep("1", "1", "1", "2", "2", "3", "4", "1")
    without_looking(bench, batch=batch)


class Counted(Inbox):
    """An inbox that counts how often it is asked."""

    asked = 0

    @override
    def claim_without_blobs(self, now: int, limit: int) -> ClaimedBatch:
        """Count, and take."""
        self.asked += 1
        return super().claim_without_blobs(now, limit)


def test_nothing_is_asked_for_in_vain(bench: WorkerRunner) -> None:
    """Where nothing stood behind what was claimed, one claim is enough."""
    bench.keep("1", "2", "3")
    bench.inbox = Counted(bench.store, "node")
    without_looking(bench)
    assert bench.inbox.asked == 1
