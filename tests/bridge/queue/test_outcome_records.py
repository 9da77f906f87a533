"""Records of an outcome are written in its transaction, or neither is stored."""

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
from tests.bridge.queue.samples import NOW, keep, state_of

_WRITE = text("UPDATE message SET detail = :said WHERE id = :id")


class Memory:
    """Writes news into a column of the message; counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.away = False

    def write(self, connection: Connection, contents: Sequence[tuple[int, str | None]]) -> None:
        """Write; what says None is refused by the database."""
        self.asked.append(len(contents))
        for number, said in contents:
            connection.execute(_WRITE, {"id": number, "said": said})
        if self.away:
            raise StoreUnavailable("SQLITE_FULL")


def bringing(number: int, said: str | None) -> MessageOutcome:
    """Give an outcome with news; it is tried again where they cannot be written."""
    otherwise = MessageOutcome(
        number, QueueEvent.POSTPONED, FailureKind.AMBIGUOUS, "not_remembered", retry_at=NOW
    )
    return MessageOutcome(
        number, QueueEvent.ACCEPTED, records=OutcomeRecords((number, said), otherwise)
    )


@pytest.fixture
def memory() -> Memory:
    """A memory that has been told nothing."""
    return Memory()


@pytest.fixture
def mindful(store: Database, memory: Memory) -> Inbox:
    """An inbox with that memory."""
    return Inbox(store, "node", write_records=memory.write)


def test_records_of_a_batch_share_a_transaction(
    intake: Intake, mindful: Inbox, store: Database, memory: Memory
) -> None:
    """One call for all of them, in the transaction of their outcomes."""
    ids = keep(intake, "1", "2", "3")
    mindful.claim(NOW, 10)
    settled = mindful.settle([bringing(each, f"of {each}") for each in ids], NOW)
    assert settled.owned == set(ids)
    assert memory.asked == [3]
    assert [queries.message(store, each).row.detail for each in ids] == [f"of {n}" for n in ids]


def test_records_that_fail_are_retried_alone(
    intake: Intake, mindful: Inbox, store: Database
) -> None:
    """The others of its batch are done, and their news are there."""
    good, bad, other = keep(intake, "1", "2", "3")
    mindful.claim(NOW, 10)
    given = [bringing(good, "a"), bringing(bad, None), bringing(other, "b")]
    assert mindful.settle(given, NOW).owned == {good, bad, other}
    assert [state_of(store, each) for each in (good, bad, other)] == [
        QueueState.DONE,
        QueueState.QUEUED,
        QueueState.DONE,
    ]
    assert queries.message(store, bad).row.code == "not_remembered"
    assert queries.message(store, good).row.detail == "a"


def test_nothing_is_settled_without_a_database(
    intake: Intake, mindful: Inbox, store: Database, memory: Memory
) -> None:
    """The outcome is not written without its news; both are, when the database is back."""
    (number,) = keep(intake, "1")
    mindful.claim(NOW, 10)
    memory.away = True
    with pytest.raises(StoreUnavailable):
        mindful.settle([bringing(number, "a")], NOW)
    assert state_of(store, number) is QueueState.CLAIMED
    memory.away = False
    assert mindful.settle([bringing(number, "a")], NOW).owned == {number}
    assert state_of(store, number) is QueueState.DONE


def test_records_of_lost_claims_are_not_written(
    intake: Intake, mindful: Inbox, store: Database, memory: Memory
) -> None:
    """Whoever has the message by now brings them himself."""
    (number,) = keep(intake, "1")
    mindful.claim(NOW, 10)
    other = Inbox(store, "node-2", lease=1000)
    other.requeue_expired_claims(NOW + 10**6)
    other.claim(NOW + 10**6, 10)
    assert mindful.settle([bringing(number, "late")], NOW).owned == set()
    assert memory.asked == []


def test_the_next_batch_is_claimed_with_the_outcomes(
    intake: Intake, mindful: Inbox, store: Database
) -> None:
    """Also what stood behind one of them in its lane."""
    first, behind, other = keep(intake, "1", "1", "2")
    assert [each.message_id for each in mindful.claim(NOW, 1)] == [first]
    settled, taken = mindful.settle_and_claim([bringing(first, "a")], NOW, 10)
    assert settled.owned == {first}
    assert [each.message_id for each in taken.messages] == [behind, other]
    assert not taken.more
    states = [state_of(store, each) for each in (first, behind, other)]
    assert states == [QueueState.DONE, QueueState.CLAIMED, QueueState.CLAIMED]


def test_nothing_is_claimed_if_records_fail(
    intake: Intake, mindful: Inbox, store: Database
) -> None:
    """The outcomes are written one by one, and whoever asks is told that there may be more."""
    good, bad, other = keep(intake, "1", "2", "3")
    mindful.claim(NOW, 2)
    given = [bringing(good, "a"), bringing(bad, None)]
    settled, taken = mindful.settle_and_claim(given, NOW, 10)
    assert settled.owned == {good, bad}
    assert (taken.messages, taken.more) == ([], True)
    states = [state_of(store, each) for each in (good, bad, other)]
    assert states == [QueueState.DONE, QueueState.QUEUED, QueueState.QUEUED]
