"""The records of an outcome are written in its transaction, or neither is stored."""

from collections.abc import Sequence

import pytest
from sqlalchemy import Connection, text

from bridge.errors import FailureKind
from bridge.queue import queries
from bridge.queue.claims import MessageOutcome, OutcomeRecords
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, enqueue, state_of

_WRITE = text("UPDATE message SET detail = :detail WHERE id = :id")


class RecordWriter:
    """Writes records into a column of the message, and counts the calls."""

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
    settled = inbox.settle([outcome_with_record(each, f"of {each}") for each in ids], NOW)
    assert settled.owned == set(ids)
    assert writer.batch_sizes == [3]
    assert [queries.message(store, each).row.detail for each in ids] == [f"of {n}" for n in ids]


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
    assert [state_of(store, each) for each in (good, bad, other)] == [
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
    assert [each.message_id for each in inbox.claim(NOW, 1)] == [first]
    settled, taken = inbox.settle_and_claim([outcome_with_record(first, "a")], NOW, 10)
    assert settled.owned == {first}
    assert [each.message_id for each in taken.messages] == [behind, other]
    assert not taken.more
    states = [state_of(store, each) for each in (first, behind, other)]
    assert states == [QueueState.DONE, QueueState.CLAIMED, QueueState.CLAIMED]


def test_nothing_is_claimed_if_records_fail(intake: Intake, inbox: Inbox, store: Database) -> None:
    """The outcomes are written one by one, and the caller learns that more may be due."""
    good, bad, other = enqueue(intake, "1", "2", "3")
    inbox.claim(NOW, 2)
    given = [outcome_with_record(good, "a"), outcome_with_record(bad, None)]
    settled, taken = inbox.settle_and_claim(given, NOW, 10)
    assert settled.owned == {good, bad}
    assert (taken.messages, taken.more) == ([], True)
    states = [state_of(store, each) for each in (good, bad, other)]
    assert states == [QueueState.DONE, QueueState.QUEUED, QueueState.QUEUED]
