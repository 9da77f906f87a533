"""Short work runs on the event loop and other work on a thread, with the same result."""

import asyncio
import threading
from collections.abc import Sequence

import pytest
from typing_extensions import override

from bridge.errors import FailureKind
from bridge.queue.claims import MessageOutcome, OutcomeRecords, SettlementResult
from bridge.queue.inbox import ClaimedBatch, Inbox
from bridge.queue.states import QueueEvent, QueueState
from bridge.queue.worker.batches import AsyncInbox
from bridge.store.database import Database
from bridge.store.short_work import SHORT, ShortWork
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, enqueue, state_of
from tests.eventually import eventually_async


class RecordingInbox(Inbox):
    def __init__(self, database: Database) -> None:
        super().__init__(database, "node")
        self.loop = threading.get_ident()
        self.here: list[str] = []

    def record(self, call: str) -> None:
        self.here.append(call if threading.get_ident() == self.loop else f"{call} in a thread")

    @override
    def claim_without_blobs(self, now: int, limit: int) -> ClaimedBatch:
        self.record("claim")
        return super().claim_without_blobs(now, limit)

    @override
    def with_payloads(self, batch: ClaimedBatch) -> ClaimedBatch:
        self.record("payloads")
        return super().with_payloads(batch)

    @override
    def settle(self, outcomes: Sequence[MessageOutcome], now: int) -> SettlementResult:
        self.record("settle")
        return super().settle(outcomes, now)

    @override
    def settle_and_claim(
        self, outcomes: Sequence[MessageOutcome], now: int, limit: int
    ) -> tuple[SettlementResult, ClaimedBatch]:
        self.record("settle and claim")
        return super().settle_and_claim(outcomes, now, limit)


@pytest.fixture
def recording_inbox(store: Database) -> RecordingInbox:
    """An inbox on each database, whose disk counts as fast."""
    if store.short_work is not None:
        store.short_work = ShortWork(store.write_lock, lambda: 0.0, lambda: 0.0)
    return RecordingInbox(store)


@pytest.fixture
def has_short_work(store: Database) -> bool:
    """Return whether the database offers short work on the loop."""
    return store.short_work is not None


def accepted(batch: ClaimedBatch, records: OutcomeRecords | None = None) -> list[MessageOutcome]:
    return [
        MessageOutcome(each.message_id, QueueEvent.ACCEPTED, records=records)
        for each in batch.messages
    ]


def patients(number: int) -> list[str]:
    return [str(each) for each in range(number)]


def test_short_work_runs_on_the_loop(
    recording_inbox: RecordingInbox, intake: Intake, has_short_work: bool, store: Database
) -> None:
    """The loop runs short work itself if the database is a file."""
    ids = enqueue(intake, *patients(4))

    async def scenario() -> list[int]:
        async_inbox = AsyncInbox(recording_inbox)
        first = await async_inbox.claim(NOW, 2)
        then = await async_inbox.claim(NOW, 2)
        after = await async_inbox.settle_and_claim(accepted(first), NOW, 100)
        await async_inbox.settle(accepted(then), NOW)
        assert not after.messages
        return [each.message_id for each in [*first.messages, *then.messages]]

    assert asyncio.run(scenario()) == ids
    done = ["claim", "claim", "settle and claim", "settle"]
    # The first claim left messages, so the second may be larger.
    here = ["claim", "claim in a thread", "settle and claim", "settle"]
    assert recording_inbox.here == (
        here if has_short_work else [f"{each} in a thread" for each in done]
    )
    assert {state_of(store, each) for each in ids} == {QueueState.DONE}


def test_long_work_runs_on_a_thread(
    recording_inbox: RecordingInbox, intake: Intake, has_short_work: bool
) -> None:
    """A thread runs long work, except the first small batch of an unknown backlog."""
    enqueue(intake, *patients(3 * SHORT))

    async def scenario() -> list[int]:
        async_inbox = AsyncInbox(recording_inbox)
        first = await async_inbox.claim(NOW, 100)
        second = await async_inbox.settle_and_claim(accepted(first), NOW, 100)
        await async_inbox.settle(accepted(second), NOW)
        return [len(first.messages), len(second.messages)]

    sizes = asyncio.run(scenario())
    if has_short_work:
        assert sizes == [SHORT, 2 * SHORT]
        assert recording_inbox.here == [
            "claim",
            "settle and claim in a thread",
            "settle in a thread",
        ]
    else:
        assert sizes == [3 * SHORT, 0]


def test_the_loop_does_not_wait_for_a_writer(
    recording_inbox: RecordingInbox, intake: Intake, store: Database
) -> None:
    """While one thread writes, another waits for it, and the loop runs."""
    enqueue(intake, "1")
    writing, enough = threading.Event(), threading.Event()

    def write() -> None:
        with store.write():
            writing.set()
            enough.wait()

    async def scenario() -> ClaimedBatch:
        taking = asyncio.create_task(AsyncInbox(recording_inbox).claim(NOW, 10))
        if store.dialect == "sqlite":
            await eventually_async(lambda: recording_inbox.here)  # waits in its thread
            assert not taking.done()
        else:
            await taking  # other writers do not matter
        enough.set()
        return await taking

    thread = threading.Thread(target=write)
    thread.start()
    writing.wait()
    assert len(asyncio.run(scenario()).messages) == 1
    assert recording_inbox.here == ["claim in a thread"]
    thread.join()


def test_long_records_are_written_on_a_thread(
    recording_inbox: RecordingInbox, intake: Intake, has_short_work: bool
) -> None:
    """A merge may change thousands of orders, so a thread writes its records."""
    enqueue(intake, "1", "2")
    otherwise = MessageOutcome(0, QueueEvent.POSTPONED, FailureKind.AMBIGUOUS)

    async def scenario() -> None:
        async_inbox = AsyncInbox(recording_inbox)
        batch = await async_inbox.claim(NOW, 2)
        for outcome, brief in zip(accepted(batch), (False, True), strict=True):
            records = OutcomeRecords(None, otherwise, is_short=brief)
            outcome_with_records = MessageOutcome(
                outcome.message_id, QueueEvent.ACCEPTED, records=records
            )
            await async_inbox.settle([outcome_with_records], NOW)

    asyncio.run(scenario())
    here = "settle" if has_short_work else "settle in a thread"
    assert recording_inbox.here[1:] == ["settle in a thread", here]


def test_large_messages_are_read_in_a_thread(
    recording_inbox: RecordingInbox, intake: Intake
) -> None:
    """Large messages have megabytes in another table, so a thread reads them."""
    content = "x" * 2**20
    large = arrival(content=content)
    intake.enqueue(large)

    async def scenario() -> ClaimedBatch:
        return await AsyncInbox(recording_inbox).claim(NOW, 2)

    (claimed,) = asyncio.run(scenario()).messages
    assert claimed.payload == large.payload
    assert recording_inbox.here[1:] in ([], ["payloads in a thread"])
