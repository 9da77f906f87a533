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
from tests.bridge.queue.samples import NOW, arrival, keep, state_of
from tests.eventually import eventually_async


class Watched(Inbox):
    """An inbox that notes what was done in the loop's turn."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "node")
        self.loop = threading.get_ident()
        self.here: list[str] = []

    def note(self, what: str) -> None:
        """Note where this is done."""
        self.here.append(what if threading.get_ident() == self.loop else f"{what} in a thread")

    @override
    def claim_without_blobs(self, now: int, limit: int) -> ClaimedBatch:
        self.note("take")
        return super().claim_without_blobs(now, limit)

    @override
    def with_payloads(self, batch: ClaimedBatch) -> ClaimedBatch:
        self.note("whole")
        return super().with_payloads(batch)

    @override
    def settle(self, outcomes: Sequence[MessageOutcome], now: int) -> SettlementResult:
        self.note("settle")
        return super().settle(outcomes, now)

    @override
    def settle_and_claim(
        self, outcomes: Sequence[MessageOutcome], now: int, limit: int
    ) -> tuple[SettlementResult, ClaimedBatch]:
        self.note("turn over")
        return super().settle_and_claim(outcomes, now, limit)


@pytest.fixture
def watched(store: Database) -> Watched:
    """An inbox on each database, whose disk is not slow, however busy the machine is."""
    if store.short_work is not None:
        store.short_work = ShortWork(store.write_lock, lambda: 0.0, lambda: 0.0)
    return Watched(store)


@pytest.fixture
def has_short_work(store: Database) -> bool:
    """Whether the database offers short work on the loop."""
    return store.short_work is not None


def accepted(batch: ClaimedBatch, records: OutcomeRecords | None = None) -> list[MessageOutcome]:
    """Accept everything."""
    return [
        MessageOutcome(each.message_id, QueueEvent.ACCEPTED, records=records)
        for each in batch.messages
    ]


def patients(number: int) -> list[str]:
    """Name so many patients."""
    return [str(each) for each in range(number)]


def test_short_work_runs_on_the_loop(
    watched: Watched, intake: Intake, has_short_work: bool, store: Database
) -> None:
    """Where it takes no way to a server."""
    ids = keep(intake, *patients(4))

    async def story() -> list[int]:
        at_hand = AsyncInbox(watched)
        first = await at_hand.claim(NOW, 2)
        then = await at_hand.claim(NOW, 2)
        after = await at_hand.settle_and_claim(accepted(first), NOW, 100)
        await at_hand.settle(accepted(then), NOW)
        assert not after.messages
        return [each.message_id for each in [*first.messages, *then.messages]]

    assert asyncio.run(story()) == ids
    done = ["take", "take", "turn over", "settle"]
    # The first left some, so that the second may be of more.
    here = ["take", "take in a thread", "turn over", "settle"]
    assert watched.here == (here if has_short_work else [f"{each} in a thread" for each in done])
    assert {state_of(store, each) for each in ids} == {QueueState.DONE}


def test_long_work_runs_on_a_thread(watched: Watched, intake: Intake, has_short_work: bool) -> None:
    """But for the first handful, of which nobody knew that there is more."""
    keep(intake, *patients(3 * SHORT))

    async def story() -> list[int]:
        at_hand = AsyncInbox(watched)
        first = await at_hand.claim(NOW, 100)
        second = await at_hand.settle_and_claim(accepted(first), NOW, 100)
        await at_hand.settle(accepted(second), NOW)
        return [len(first.messages), len(second.messages)]

    sizes = asyncio.run(story())
    if has_short_work:
        assert sizes == [SHORT, 2 * SHORT]
        assert watched.here == ["take", "turn over in a thread", "settle in a thread"]
    else:
        assert sizes == [3 * SHORT, 0]


def test_the_loop_does_not_wait_for_a_writer(
    watched: Watched, intake: Intake, store: Database
) -> None:
    """While a thread writes, another waits for it, and the loop goes on."""
    keep(intake, "1")
    writing, enough = threading.Event(), threading.Event()

    def write() -> None:
        with store.write():
            writing.set()
            enough.wait()

    async def story() -> ClaimedBatch:
        taking = asyncio.create_task(AsyncInbox(watched).claim(NOW, 10))
        if store.dialect == "sqlite":
            await eventually_async(lambda: watched.here)  # it waits in its thread
            assert not taking.done()
        else:
            await taking  # other writers are no matter
        enough.set()
        return await taking

    thread = threading.Thread(target=write)
    thread.start()
    writing.wait()
    assert len(asyncio.run(story()).messages) == 1
    assert watched.here == ["take in a thread"]
    thread.join()


def test_long_records_are_written_on_a_thread(
    watched: Watched, intake: Intake, has_short_work: bool
) -> None:
    """As merged patients, whose orders may be thousands."""
    keep(intake, "1", "2")
    otherwise = MessageOutcome(0, QueueEvent.POSTPONED, FailureKind.AMBIGUOUS)

    async def story() -> None:
        at_hand = AsyncInbox(watched)
        batch = await at_hand.claim(NOW, 2)
        for outcome, brief in zip(accepted(batch), (False, True), strict=True):
            records = OutcomeRecords(None, otherwise, is_short=brief)
            given = MessageOutcome(outcome.message_id, QueueEvent.ACCEPTED, records=records)
            await at_hand.settle([given], NOW)

    asyncio.run(story())
    here = "settle" if has_short_work else "settle in a thread"
    assert watched.here[1:] == ["settle in a thread", here]


def test_large_messages_are_read_in_a_thread(watched: Watched, intake: Intake) -> None:
    """They lie elsewhere, and may have megabytes."""
    content = "x" * 2**20
    keep_large = arrival(content=content)
    intake.keep(keep_large)

    async def story() -> ClaimedBatch:
        return await AsyncInbox(watched).claim(NOW, 2)

    (claimed,) = asyncio.run(story()).messages
    assert claimed.payload == keep_large.payload
    assert watched.here[1:] in ([], ["whole in a thread"])
