"""Concurrent claims on PostgreSQL do not wait for each other, so they cannot deadlock."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, make_url, text
from typing_extensions import override

from bridge.errors import FailureKind
from bridge.queue import queries
from bridge.queue.claims import ClaimedMessage, MessageOutcome, OutcomeRecords, SettlementResult
from bridge.queue.inbox import ClaimedBatch, Inbox
from bridge.queue.lanes import Lanes
from bridge.queue.statements import INBOX
from bridge.queue.states import QueueEvent, QueueState
from bridge.queue.worker import Worker
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, enqueue, ids_of, state_of
from tests.bridge.queue.worker_runner import WorkerRunner, accepted
from tests.eventually import PATIENCE, eventually_async

_LOCK = text("SELECT id FROM message WHERE id = ANY(:ids) FOR UPDATE")
_LOOK = text("SELECT lane FROM message_lane WHERE message_id = :id AND lane = :lane FOR SHARE")


@pytest.fixture
def impatient(database_url: str) -> Iterator[Database]:
    """The same database with a lock time-out of half a second."""
    address = make_url(database_url).update_query_dict({"options": "-c lock_timeout=500"})
    database = Database(address.render_as_string(hide_password=False))
    yield database
    database.dispose()


def claimed(connection: Connection, store: Database) -> list[int]:
    line = Lanes(store, INBOX, parked_block=False)
    return line.claim(connection, owner="another", now=NOW, lease=1000, limit=10).ids


@contextmanager
def other_transaction(store: Database) -> Iterator[Connection]:
    """Open a transaction of another node, which changes nothing."""
    with store.engine.connect() as connection:
        yield connection
        connection.rollback()


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_locked_message_is_skipped(intake: Intake, store: Database, impatient: Database) -> None:
    """A claim skips a message that another claim has locked, and takes it later."""
    first, behind = (item.message_id for item in intake.enqueue(arrival(), arrival()))
    inbox = Inbox(impatient, "node")
    with other_transaction(store) as locker:
        locker.execute(_LOCK, {"ids": [first]})
        with store.write() as claimer:
            assert claimed(claimer, store) == []
            locker.rollback()
            batch = inbox.claim_batch(NOW, 10)
            assert (batch.messages, batch.undecided) == ([], True)
    assert ids_of(inbox.claim(NOW, 10)) == [first]
    assert inbox.claim(NOW, 10) == []
    inbox.settle([MessageOutcome(first, QueueEvent.ACCEPTED)], NOW)
    assert ids_of(inbox.claim(NOW, 10)) == [behind]


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("held", [0, 1])
def test_a_locked_lane_of_a_merge(
    intake: Intake, store: Database, impatient: Database, held: int
) -> None:
    merge = arrival(patient=("1", "2"))
    both, other = (item.message_id for item in intake.enqueue(merge, arrival(patient="3")))
    inbox = Inbox(impatient, "node")
    with other_transaction(store) as claimer:
        claimer.execute(_LOOK, {"id": both, "lane": merge.lanes[held]})
        batch = inbox.claim_batch(NOW, 10)
        assert (ids_of(batch.messages), batch.undecided) == ([other], True)
    with store.read() as connection:
        marked = text("SELECT message_id FROM message_lane WHERE claimed = 1")
        assert connection.execute(marked).scalars().all() == [other]
    assert ids_of(inbox.claim(NOW, 10)) == [both]


@pytest.fixture
def runner(store: Database, intake: Intake) -> WorkerRunner:
    return WorkerRunner(store, intake)


def test_an_outcome_is_about_the_claimed_message(runner: WorkerRunner) -> None:
    """After a failover that lost commits, a later message can have the id of a claimed one."""
    runner.enqueue("1")
    applied: list[int] = []
    another = text("UPDATE message SET received_at = received_at + 1")

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        with runner.store.write() as connection:
            connection.execute(another)
        yield [accepted(message) for message in batch]
        applied.extend(claimed_message.message_id for claimed_message in batch)

    runner.run(apply, lambda: bool(applied))
    assert runner.states() == [QueueState.CLAIMED]


def test_an_outcome_is_about_its_own_claim(runner: WorkerRunner) -> None:
    """A process that was frozen claims a message again while its earlier call is under way."""
    runner.enqueue("1")
    applied: list[int] = []
    inbox = Inbox(runner.store, "node")

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        if not applied:
            inbox.requeue_expired_claims(NOW, include_own=True)
            assert [message.attempts for message in inbox.claim(NOW, 10)] == [2]
        yield [accepted(message) for message in batch]
        applied.extend(claimed_message.message_id for claimed_message in batch)

    runner.run(apply, lambda: bool(applied))
    assert runner.states() == [QueueState.CLAIMED]


LOST = "lost: no connection"


class UnconfirmingInbox(Inbox):
    """An inbox whose third claim or first settlement loses the confirmation."""

    lost = ""
    claims = 0
    settlements = 0

    @override
    def claim_batch(self, now: int, limit: int) -> ClaimedBatch:
        batch = super().claim_batch(now, 1)
        self.claims += 1
        if self.claims == 3 and self.lost == "claim":
            raise StoreUnavailable(LOST)
        return batch

    @override
    def settle_and_claim(
        self, outcomes: Sequence[MessageOutcome], now: int, limit: int
    ) -> tuple[SettlementResult, ClaimedBatch]:
        result = super().settle_and_claim(outcomes, now, 1)
        self.settlements += 1
        if self.settlements == 1 and self.lost == "settlement":
            raise StoreUnavailable(LOST)
        return result


@pytest.mark.parametrize("lost", ["claim", "settlement"])
def test_an_unconfirmed_claim_is_applied_once(
    store: Database, intake: Intake, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Each message is applied once, long before the lease expires."""
    monkeypatch.setattr("bridge.queue.worker._STORE_RETRY_SECONDS", 0.01)
    runner = WorkerRunner(store, intake)
    inbox = runner.inbox = UnconfirmingInbox(store, "node", lease=60_000)
    inbox.lost = lost
    stored = runner.enqueue(*map(str, range(12)))
    applied: Counter[int] = Counter()

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        applied.update(message.message_id for message in batch)
        await asyncio.sleep(0.05)  # others are in progress while one is requeued
        yield [accepted(claimed_message) for claimed_message in batch]

    runner.run(apply, runner.all_done)

    assert applied == Counter(stored)
    assert inbox.claims > 3
    assert inbox.settlements > 0


class UnavailableInbox(Inbox):
    """An inbox whose first claim fails."""

    claims = 0

    @override
    def claim_batch(self, now: int, limit: int) -> ClaimedBatch:
        """Fail once."""
        self.claims += 1
        if self.claims == 1:
            raise StoreUnavailable(LOST)
        return super().claim_batch(now, limit)


def test_a_failed_claim_is_repeated(
    store: Database, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message is applied although no notification and no poll follows the failed claim."""
    monkeypatch.setattr("bridge.queue.worker._STORE_RETRY_SECONDS", 0.01)
    runner = WorkerRunner(store, intake)
    inbox = runner.inbox = UnavailableInbox(store, "node", lease=60_000)
    runner.enqueue("1")

    async def apply(batch: Sequence[ClaimedMessage]) -> AsyncGenerator[Sequence[MessageOutcome]]:
        yield [accepted(message) for message in batch]

    worker = Worker(inbox, apply, clock=lambda: NOW, poll=10 * PATIENCE)

    async def scenario() -> None:
        await worker.start()
        await eventually_async(runner.all_done)
        await worker.stop()

    asyncio.run(scenario())
    assert inbox.claims > 1


class CountingInbox(Inbox):
    """An inbox that counts calls of `settle_and_claim`, and can fail in them."""

    calls = 0
    away = False

    @override
    def settle_and_claim(
        self, outcomes: Sequence[MessageOutcome], now: int, limit: int
    ) -> tuple[SettlementResult, ClaimedBatch]:
        self.calls += 1
        if self.away:
            raise StoreUnavailable("SQLITE_FULL")
        return super().settle_and_claim(outcomes, now, limit)


@pytest.mark.parametrize("away", [False, True])
def test_settle_and_claim(
    runner: WorkerRunner, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    """The worker claims new messages with its outcomes, or separately if that fails."""
    monkeypatch.setattr("bridge.queue.worker._STORE_RETRY_SECONDS", 0.01)
    runner.enqueue("1")
    inbox = CountingInbox(runner.store, "node")
    inbox.away = away
    runner.inbox = inbox
    log: list[int] = []

    async def scenario() -> None:
        async def apply(
            batch: Sequence[ClaimedMessage],
        ) -> AsyncGenerator[Sequence[MessageOutcome]]:
            log.extend(message.message_id for message in batch)
            if len(log) < 4:
                await asyncio.to_thread(runner.enqueue, "1", str(len(log)))
                worker.notify()
            yield [accepted(claimed_message) for claimed_message in batch]

        worker = Worker(inbox, apply, clock=lambda: NOW, poll=60, parallel=1, gather_seconds=9)
        await worker.start()
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(runner.all_done):  # noqa: ASYNC110  # see `WorkerRunner.run`
                await asyncio.sleep(0.005)
        await worker.stop()

    asyncio.run(scenario())
    assert sorted(log) == [1, 2, 3, 4, 5]
    assert inbox.calls == 2


_WRITE = text("UPDATE message SET detail = :detail WHERE id = :id")


class RecordWriter:
    def __init__(self) -> None:
        self.batch_sizes: list[int] = []
        self.away = False

    def write(self, connection: Connection, contents: Sequence[tuple[int, str | None]]) -> None:
        """Write the records. The database refuses None."""
        self.batch_sizes.append(len(contents))
        for number, detail in contents:
            connection.execute(_WRITE, {"id": number, "detail": detail})
        if self.away:
            raise StoreUnavailable("SQLITE_FULL")


def outcome_with_record(number: int, detail: str | None) -> MessageOutcome:
    """Return an outcome with a record. It is retried if the record cannot be written."""
    otherwise = MessageOutcome(
        number, QueueEvent.POSTPONED, FailureKind.AMBIGUOUS, "not_remembered", retry_at=NOW
    )
    return MessageOutcome(
        number, QueueEvent.ACCEPTED, records=OutcomeRecords((number, detail), otherwise)
    )


@pytest.fixture
def writer() -> RecordWriter:
    return RecordWriter()


@pytest.fixture
def inbox(store: Database, writer: RecordWriter) -> Inbox:
    return Inbox(store, "node", write_records=writer.write)


def test_records_of_a_batch_share_a_transaction(
    intake: Intake, inbox: Inbox, store: Database, writer: RecordWriter
) -> None:
    ids = enqueue(intake, "1", "2", "3")
    inbox.claim(NOW, 10)
    settled = inbox.settle(
        [outcome_with_record(identifier, f"of {identifier}") for identifier in ids], NOW
    )
    assert settled.owned == set(ids)
    assert writer.batch_sizes == [3]
    assert [queries.message(store, row_id).row.detail for row_id in ids] == [f"of {n}" for n in ids]


def test_records_that_fail_are_retried_alone(intake: Intake, inbox: Inbox, store: Database) -> None:
    """The others of the batch are settled with their records."""
    good, bad, other = enqueue(intake, "1", "2", "3")
    inbox.claim(NOW, 10)
    given = [
        outcome_with_record(good, "a"),
        outcome_with_record(bad, None),
        outcome_with_record(other, "b"),
    ]
    assert inbox.settle(given, NOW).owned == {good, bad, other}
    assert [state_of(store, item) for item in (good, bad, other)] == [
        QueueState.DONE,
        QueueState.QUEUED,
        QueueState.DONE,
    ]
    assert queries.message(store, bad).row.code == "not_remembered"
    assert queries.message(store, good).row.detail == "a"


def test_nothing_is_settled_without_a_database(
    intake: Intake, inbox: Inbox, store: Database, writer: RecordWriter
) -> None:
    """Outcome and record are both written when the database is back."""
    (number,) = enqueue(intake, "1")
    inbox.claim(NOW, 10)
    writer.away = True
    with pytest.raises(StoreUnavailable):
        inbox.settle([outcome_with_record(number, "a")], NOW)
    assert state_of(store, number) is QueueState.CLAIMED
    writer.away = False
    assert inbox.settle([outcome_with_record(number, "a")], NOW).owned == {number}
    assert state_of(store, number) is QueueState.DONE


def test_records_of_lost_claims_are_not_written(
    intake: Intake, inbox: Inbox, store: Database, writer: RecordWriter
) -> None:
    """The present owner of the message writes its own record."""
    (number,) = enqueue(intake, "1")
    inbox.claim(NOW, 10)
    other = Inbox(store, "node-2", lease=1000)
    other.requeue_expired_claims(NOW + 10**6)
    other.claim(NOW + 10**6, 10)
    assert inbox.settle([outcome_with_record(number, "late")], NOW).owned == set()
    assert writer.batch_sizes == []


def test_the_next_batch_is_claimed_with_the_outcomes(
    intake: Intake, inbox: Inbox, store: Database
) -> None:
    """The claim includes messages that waited for the settled ones."""
    first, behind, other = enqueue(intake, "1", "1", "2")
    assert [message.message_id for message in inbox.claim(NOW, 1)] == [first]
    settled, taken = inbox.settle_and_claim([outcome_with_record(first, "a")], NOW, 10)
    assert settled.owned == {first}
    assert [message.message_id for message in taken.messages] == [behind, other]
    assert not taken.more
    states = [state_of(store, item) for item in (first, behind, other)]
    assert states == [QueueState.DONE, QueueState.CLAIMED, QueueState.CLAIMED]


def test_nothing_is_claimed_if_records_fail(intake: Intake, inbox: Inbox, store: Database) -> None:
    """The outcomes are written one by one, and the caller learns that more may be due."""
    good, bad, other = enqueue(intake, "1", "2", "3")
    inbox.claim(NOW, 2)
    given = [outcome_with_record(good, "a"), outcome_with_record(bad, None)]
    settled, taken = inbox.settle_and_claim(given, NOW, 10)
    assert settled.owned == {good, bad}
    assert (taken.messages, taken.more) == ([], True)
    states = [state_of(store, item) for item in (good, bad, other)]
    assert states == [QueueState.DONE, QueueState.QUEUED, QueueState.QUEUED]
