"""Each claimed message gets an outcome, whatever the application does."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from structlog.testing import capture_logs
from typing_extensions import override

from bridge.errors import FailureKind
from bridge.queue import queries
from bridge.queue.claims import ClaimedMessage, MessageOutcome, SettlementResult
from bridge.queue.inbox import ClaimedBatch, Inbox
from bridge.queue.lanes import ScanWatermark
from bridge.queue.states import QueueEvent, QueueState, RetryPolicy
from bridge.queue.worker import Apply, Worker
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW
from tests.bridge.queue.worker_runner import WorkerRunner, accepted
from tests.eventually import PATIENCE, eventually_async


@pytest.fixture
def runner(store: Database, intake: Intake) -> WorkerRunner:
    return WorkerRunner(store, intake)


def applying(outcome: Callable[[ClaimedMessage], MessageOutcome], log: list[int]) -> Apply:
    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        log.extend(message.message_id for message in batch)
        await asyncio.sleep(0)
        yield [outcome(claimed_message) for claimed_message in batch]

    return apply


def test_everything_is_applied_once_and_in_order(runner: WorkerRunner) -> None:
    """Fifty messages of five patients are applied once, in order for each patient."""
    ids = runner.enqueue(*(str(n % 5) for n in range(50)))
    log: list[int] = []
    runner.run(applying(accepted, log), runner.all_done, batch=7)
    assert sorted(log) == ids
    for patient in range(5):
        mine = [item for item in log if (item - ids[0]) % 5 == patient]
        assert mine == sorted(mine)


def test_an_error_is_retried(runner: WorkerRunner) -> None:
    """An unexpected error postpones its batch. The log has only its class and place."""
    runner.enqueue("1", "2")
    tries: list[int] = []

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        tries.append(len(batch))
        if len(tries) == 1:
            raise ValueError("SECRET")
        yield [accepted(message) for message in batch]

    with capture_logs() as log:
        runner.run(apply, runner.all_done)
    assert len(tries) >= 2
    assert "ValueError at test_worker.py:" in str(log)
    assert "SECRET" not in str(log)


def test_an_outcome_that_is_missing(runner: WorkerRunner) -> None:
    """A message without an outcome may or may not be applied, so it is retried."""
    (first, second) = runner.enqueue("1", "2")
    applied: list[int] = []

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        applied.extend(message.message_id for message in batch)
        yield [
            accepted(claimed_message)
            for claimed_message in batch
            if claimed_message.message_id == first or len(applied) > 2
        ]

    runner.run(apply, runner.all_done)
    assert applied == [first, second, second]
    assert queries.message(runner.store, second).row.attempts == 2


def test_the_retry_policy_sets_the_time(runner: WorkerRunner) -> None:
    """The policy sets the time of a postponed message without one."""
    runner.enqueue("1")

    def postponed(message: ClaimedMessage) -> MessageOutcome:
        if message.attempts < 4:
            return MessageOutcome(
                message.message_id, QueueEvent.POSTPONED, FailureKind.TRANSIENT, "503"
            )
        return accepted(message)

    log: list[int] = []
    runner.run(applying(postponed, log), runner.all_done)
    assert len(log) == 4


def postponed_once(log: list[int]) -> Apply:
    """Return an apply function that postpones the first attempt, and accepts the second."""

    def outcome(message: ClaimedMessage) -> MessageOutcome:
        if message.attempts == 1:
            return MessageOutcome(message.message_id, QueueEvent.POSTPONED, FailureKind.AMBIGUOUS)
        return accepted(message)

    return applying(outcome, log)


def test_the_delay_of_the_retry_policy(runner: WorkerRunner) -> None:
    """A postponed message is due when the delay has passed, not earlier."""
    (number,) = runner.enqueue("1")
    log: list[int] = []

    async def scenario() -> None:
        policy = RetryPolicy(first=60, maximum=60, jitter=0)
        apply = postponed_once(log)
        worker = Worker(runner.inbox, apply, clock=lambda: NOW, policy=policy, poll=0.01)
        await worker.start()
        await eventually_async(lambda: runner.states() == [QueueState.QUEUED] and log)
        await worker.stop()

    asyncio.run(scenario())
    assert runner.inbox.claim(NOW + 59_999, 10) == []
    assert [message.message_id for message in runner.inbox.claim(NOW + 60_000, 10)] == [number]


def test_a_retry_does_not_wait_for_the_next_poll(runner: WorkerRunner) -> None:
    """The worker wakes when a postponed message is due."""
    runner.enqueue("1")
    log: list[int] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        worker = Worker(
            runner.inbox,
            postponed_once(log),
            clock=lambda: NOW + round(loop.time() * 1000),
            policy=RetryPolicy(first=0.1, maximum=0.1),
            poll=10 * PATIENCE,
        )
        await worker.start()
        await eventually_async(runner.all_done)
        await worker.stop()

    asyncio.run(scenario())
    assert len(log) == 2


def test_a_slow_batch_delays_its_own_lanes_only(runner: WorkerRunner) -> None:
    """While a message of one patient waits, messages of others are applied."""
    slow, *others = runner.enqueue("1", "2", "3")
    log: list[int] = []
    others_done = asyncio.Event()

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        (message,) = batch
        if message.message_id == slow:
            await others_done.wait()
        log.append(message.message_id)
        if len(log) == len(others):
            others_done.set()
        yield [accepted(message)]

    runner.run(apply, runner.all_done, batch=1)
    assert log == [*others, slow]


def test_batches_side_by_side_are_limited(runner: WorkerRunner) -> None:
    """A batch that claims the next one passes its place on."""
    runner.enqueue(*map(str, range(8)))
    running: set[int] = set()
    most = 0

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        nonlocal most
        running.add(batch[0].message_id)
        most = max(most, len(running))
        await asyncio.to_thread(runner.states)
        running.remove(batch[0].message_id)
        yield [accepted(message) for message in batch]

    runner.run(apply, runner.all_done, batch=1, parallel=1)
    assert most == 1


def test_messages_during_a_batch_are_one_batch(runner: WorkerRunner) -> None:
    """Messages stored during a batch are claimed together after it."""
    runner.enqueue("1")
    sizes: list[int] = []

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        sizes.append(len(batch))
        if len(sizes) == 1:
            for patient in "23":
                await asyncio.to_thread(runner.enqueue, patient)
                await asyncio.sleep(0.1)  # the worker polls several times, and claims nothing
        yield [accepted(message) for message in batch]

    runner.run(apply, runner.all_done, gather_seconds=PATIENCE)
    assert sizes == [1, 2]


def test_a_claim_that_a_failover_loses(runner: WorkerRunner) -> None:
    """The attempt in progress goes on, and settles its message; there is no second one."""
    (number,) = runner.enqueue("1")
    log: list[int] = []

    def lose_the_claim() -> None:
        lost = "UPDATE message SET state = 'queued', attempts = 0, owner = NULL, lease_until = NULL"
        with runner.store.write() as connection:
            connection.execute(text(lost))

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        log.extend(message.message_id for message in batch)
        if len(log) == 1:
            await asyncio.to_thread(lose_the_claim)
            await eventually_async(lambda: runner.states() == [QueueState.CLAIMED])
        yield [accepted(message) for message in batch]

    runner.run(apply, runner.all_done)
    assert log == [number]


def test_a_stop_waits_for_no_poll(runner: WorkerRunner) -> None:
    """Also if the worker waits for a batch, to claim what has come since, when it is stopped."""
    runner.enqueue("1")

    async def scenario() -> None:
        started, ended = asyncio.Event(), asyncio.Event()

        async def apply(
            batch: Sequence[ClaimedMessage],
        ) -> AsyncGenerator[Sequence[MessageOutcome]]:
            started.set()
            await ended.wait()
            yield [accepted(message) for message in batch]

        worker = Worker(
            runner.inbox, apply, clock=lambda: NOW, poll=10 * PATIENCE, gather_seconds=PATIENCE
        )
        await worker.start()
        await started.wait()
        worker.notify()
        await asyncio.to_thread(runner.enqueue, "2")
        async with asyncio.timeout(PATIENCE / 2):
            stopping = asyncio.create_task(worker.stop())
            await asyncio.to_thread(runner.states)
            ended.set()
            await stopping

    asyncio.run(scenario())
    assert runner.states() == [QueueState.DONE, QueueState.QUEUED]


class FailingInbox(Inbox):
    """An inbox whose first two settlements fail."""

    failures = 2

    @override
    def settle(self, outcomes: Sequence[MessageOutcome], now: int) -> SettlementResult:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("SQLITE_FULL")
        return super().settle(outcomes, now)


def test_outcomes_survive_a_full_disk(
    runner: WorkerRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes are written when the database accepts them, and no message is applied twice."""
    monkeypatch.setattr("bridge.queue.worker._STORE_RETRY_SECONDS", 0.01)
    runner.enqueue("1", "2")
    runner.inbox = FailingInbox(runner.store, "node")
    log: list[int] = []
    runner.run(applying(accepted, log), runner.all_done)
    assert len(log) == 2


def test_a_full_disk_does_not_shorten_a_delay(
    runner: WorkerRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time until the next attempt begins when the outcome is written."""
    monkeypatch.setattr("bridge.queue.worker._STORE_RETRY_SECONDS", 0.01)
    (number,) = runner.enqueue("1")

    class SlowInbox(FailingInbox):
        """An inbox that is unavailable twice for two seconds."""

        @override
        def settle(self, outcomes: Sequence[MessageOutcome], now: int) -> SettlementResult:
            """Let two seconds pass in each failure."""
            runner.now += 2000 if self.failures else 0
            return super().settle(outcomes, now)

    inbox = SlowInbox(runner.store, "node")
    log: list[int] = []

    async def scenario() -> None:
        apply = applying(
            lambda item: MessageOutcome(
                item.message_id, QueueEvent.POSTPONED, retry_at=runner.now + 1000
            ),
            log,
        )
        worker = Worker(inbox, apply, clock=lambda: runner.now)
        await worker.start()
        await eventually_async(lambda: runner.states() == [QueueState.QUEUED] and log)
        await worker.stop()

    asyncio.run(scenario())
    assert inbox.claim(NOW + 4999, 10) == []
    assert [message.message_id for message in inbox.claim(NOW + 5000, 10)] == [number]


def test_a_restart_applies_its_claims(runner: WorkerRunner) -> None:
    """Claims of a killed process are applied at once after the start."""
    runner.enqueue("1", "2")
    assert len(Inbox(runner.store, "node").claim(NOW, 10)) == 2
    log: list[int] = []
    runner.run(applying(accepted, log), runner.all_done)
    assert len(log) == 2


def test_an_ended_lease_is_not_extended(runner: WorkerRunner) -> None:
    """A frozen process does not extend leases that ended."""
    runner.enqueue("1")
    seconds = 0.0
    inbox = Inbox(runner.store, "node", lease=60_000, timer=lambda: seconds)
    held: list[bool] = []

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        nonlocal seconds
        for moment in (50.0, 109.0, 170.0):
            seconds = moment
            await worker.keep_leases()
            held.append(batch[0].lease.is_held)
        yield [accepted(message) for message in batch]

    worker = Worker(inbox, apply, clock=lambda: NOW, poll=120)

    async def scenario() -> None:
        await worker.start()
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(runner.all_done):  # noqa: ASYNC110  # see `WorkerRunner.run`
                await asyncio.sleep(0.005)
        await worker.stop()

    asyncio.run(scenario())
    assert held == [True, True, False]


def test_retries_of_a_wrong_clock(runner: WorkerRunner) -> None:
    """A message that a clock which was ahead postponed is applied after the next check."""
    (number,) = runner.enqueue("1")
    runner.inbox.claim(NOW, 10)
    late = NOW + 10**9
    runner.inbox.settle([MessageOutcome(number, QueueEvent.POSTPONED, retry_at=late)], late)
    worker = Worker(runner.inbox, applying(accepted, []), clock=lambda: NOW, poll=PATIENCE)

    async def scenario() -> None:
        await worker.start()
        await worker.keep_leases()
        await eventually_async(runner.all_done)
        await worker.stop()

    asyncio.run(scenario())


def test_notify_wakes_at_once(runner: WorkerRunner) -> None:
    """A notified worker does not wait for its next poll."""
    applied = asyncio.Event()

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        applied.set()
        yield [accepted(message) for message in batch]

    inbox = CountingInbox(runner.store, "node")

    async def scenario() -> None:
        worker = Worker(inbox, apply, clock=lambda: NOW, poll=PATIENCE)
        await worker.start()
        await eventually_async(lambda: inbox.claims)  # its first claim has found nothing
        await asyncio.to_thread(runner.enqueue, "1")
        worker.notify()
        async with asyncio.timeout(PATIENCE):
            await applied.wait()
        await worker.stop()

    asyncio.run(scenario())
    assert runner.all_done()


def run_without_polls(runner: WorkerRunner, **settings: Any) -> None:
    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        yield [accepted(message) for message in batch]

    async def scenario() -> None:
        worker = Worker(runner.inbox, apply, clock=lambda: NOW, poll=120, **settings)
        await worker.start()
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(runner.all_done):  # noqa: ASYNC110  # see `WorkerRunner.run`
                await asyncio.sleep(0.005)
        await worker.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_unblocked_messages_are_claimed_at_once(runner: WorkerRunner, batch: int) -> None:
    """Unblocked messages and those beyond the batch size do not wait for a poll."""
    runner.enqueue("1", "1", "1", "2", "2", "3", "4", "1")
    run_without_polls(runner, batch=batch)


class CountingInbox(Inbox):
    claims = 0

    @override
    def claim_batch(self, now: int, limit: int) -> ClaimedBatch:
        self.claims += 1
        return super().claim_batch(now, limit)


def test_no_unneeded_claims(runner: WorkerRunner) -> None:
    """If the claimed messages blocked no others, one claim is enough."""
    runner.enqueue("1", "2", "3")
    runner.inbox = CountingInbox(runner.store, "node")
    run_without_polls(runner)
    assert runner.inbox.claims == 1


def test_stop_requeues_unfinished_messages(runner: WorkerRunner) -> None:
    """A message that does not finish in time is requeued at the stop."""
    runner.enqueue("1")
    begun: list[int] = []

    async def hang(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        begun.append(len(batch))
        await asyncio.sleep(60)
        yield []

    runner.run(hang, lambda: bool(begun), drain=0.01)
    assert runner.states() == [QueueState.QUEUED]


def test_stop_releases_claims_after_their_batches(runner: WorkerRunner) -> None:
    """A message stays claimed while its batch is being cancelled: another node may take it."""
    runner.enqueue("1")
    begun: list[int] = []
    during: list[QueueState] = []

    async def hang(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        begun.append(len(batch))
        try:
            await asyncio.Event().wait()
        finally:
            during.extend(runner.states())
        yield []

    runner.run(hang, lambda: bool(begun), drain=0.01)
    assert during == [QueueState.CLAIMED]
    assert runner.states() == [QueueState.QUEUED]


def test_stop_lets_batches_finish(runner: WorkerRunner) -> None:
    """A batch that finishes after the stop has begun is settled, and nothing is applied twice."""
    runner.enqueue("1")
    applied: list[int] = []

    async def scenario() -> None:
        begun, stopping = asyncio.Event(), asyncio.Event()

        async def slow(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
            begun.set()
            await stopping.wait()
            await asyncio.to_thread(runner.states)
            applied.extend(message.message_id for message in batch)
            yield [accepted(claimed_message) for claimed_message in batch]

        worker = Worker(runner.inbox, slow, clock=lambda: NOW)
        await worker.start()
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
            ending = asyncio.create_task(worker.stop(PATIENCE))
            await asyncio.sleep(0)
            stopping.set()
            await ending

    asyncio.run(scenario())
    assert len(applied) == 1
    assert runner.states() == [QueueState.DONE]


def test_the_first_scan_is_full() -> None:
    """The first scan is full, and so is one after each interval."""
    floor = ScanWatermark(interval=5.0, margin=10)
    assert floor.position(100.0) == 0
    floor.record(0, [57, 31], 100.0)
    assert floor.position(104.9) == 21
    assert floor.position(105.0) == 0


def test_later_scans_start_below_the_newest_id() -> None:
    """The margin covers other transactions, which commit later."""
    floor = ScanWatermark(interval=5.0, margin=10)
    floor.record(0, [], 0.0)
    assert floor.position(1.0) == 0
    floor.record(0, [157], 0.0)
    floor.record(140, [188], 1.0)
    floor.record(0, [], 5.0)
    assert floor.position(6.0) == 178


def test_a_partial_scan_does_not_postpone_the_full_one() -> None:
    """A partial scan changes neither the time of the full scan nor the watermark."""
    floor = ScanWatermark(interval=5.0, margin=10)
    floor.record(0, [100], 0.0)
    floor.record(90, [500], 4.0)
    assert floor.position(4.5) == 90
    assert floor.position(5.0) == 0


def test_a_notification_brings_a_full_scan_soon() -> None:
    """One full scan serves all earlier notifications."""
    floor = ScanWatermark(interval=5.0, margin=10)
    floor.record(0, [100], 0.0)
    floor.expect_old_rows()
    assert [floor.position(0.1), floor.position(0.25)] == [90, 0]
    floor.record(0, [100], 0.25)
    assert floor.position(1.0) == 90


def test_unblocked_rows_are_scanned_at_any_age() -> None:
    """Unblocked rows are scanned until the next full scan."""
    floor = ScanWatermark(interval=5.0, margin=10)
    floor.record(0, [100], 0.0)
    floor.include([])
    assert floor.position(1.0) == 90
    floor.include([7, 200])
    assert floor.position(1.0) == 7
    floor.record(0, [100], 5.0)
    assert floor.position(6.0) == 90


def test_scan_positions_are_rounded() -> None:
    """The scan includes one step below the watermark, so that postponed rows are due on time."""
    found = [
        ScanWatermark.partition_start(item) for item in (0, 99_999, 199_999, 200_000, 1_234_567)
    ]
    assert found == [0, 0, 0, 100_000, 1_100_000]


def test_delays_double_up_to_the_maximum() -> None:
    """Without jitter the delays are the powers of two, then the maximum."""
    policy = RetryPolicy(first=1, maximum=10, jitter=0)
    assert [policy.delay(n, Random(0)) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]


@given(st.integers(-5, 10**9), st.integers())
def test_any_attempt_has_a_delay_within_bounds(attempt: int, seed: int) -> None:
    """Each attempt waits longer than 0 and at most the maximum."""
    policy = RetryPolicy(first=0.5, maximum=60, jitter=0.5)
    assert 0.25 <= policy.delay(attempt, Random(seed)) <= 60


def test_jitter_spreads() -> None:
    """Messages that failed together are not retried together."""
    random = Random(1)
    assert len({RetryPolicy().delay(5, random) for _ in range(20)}) == 20


@pytest.mark.parametrize("wrong", [(0, 1, 0.1), (2, 1, 0.1), (1, 2, 1.1), (1, 2, -0.1)])
def test_an_invalid_policy_is_refused(wrong: tuple[float, float, float]) -> None:
    """A policy with impossible delays is refused."""
    with pytest.raises(ValueError, match="first"):
        RetryPolicy(*wrong)
