"""Claims are valid after changes of the wall clock, and with different clocks of nodes."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from bridge.queue.claims import MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.outbox import Outbox
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from bridge.store.lease_clock import since_boot
from bridge.store.options import DatabaseOptions
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival

JUMP = 10**9  # ms


@pytest.fixture
def store(database_url: str, database: Database) -> Iterator[Database]:
    """The database as the service opens it, without the locks by which nodes detect each other."""
    opened = Database(database_url, DatabaseOptions(lease_clock=True))
    yield opened
    opened.dispose()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("jump", [JUMP, -JUMP])
def test_a_clock_that_is_set_ends_no_claim(store: Database, intake: Intake, jump: int) -> None:
    """A changed clock of any node ends no claim of messages or deliveries."""
    intake.enqueue(arrival(patient="1"))
    mine, other = Inbox(store, "node-1"), Inbox(store, "node-2")
    (claimed,) = mine.claim(NOW, 10)
    assert other.requeue_expired_claims(NOW + jump) == 0
    mine.extend([claimed.message_id], NOW + jump)
    assert other.requeue_expired_claims(NOW) == 0
    assert Outbox(store, "node-2").requeue_expired_claims(NOW + jump) == 0
    assert mine.settle([MessageOutcome(claimed.message_id, QueueEvent.ACCEPTED)], NOW + jump).owned


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("left", [NOW, 0], ids=["of an older release", "of an earlier boot"])
def test_claims_of_another_clock(store: Database, intake: Intake, left: int) -> None:
    """After an upgrade or a boot an unowned claim is requeued soon, not in years."""
    intake.enqueue(arrival(patient="1"))
    Inbox(store, "node-1").claim(NOW, 10)
    with store.write() as connection:
        until = left or since_boot() + JUMP
        connection.execute(text("UPDATE message SET lease_until = :until"), {"until": until})
    assert Inbox(store, "node-2").requeue_expired_claims(NOW) == 1


def test_a_clock_that_is_set_back_delays_no_retry(store: Database, intake: Intake) -> None:
    """A postponed message is due at once if its time cannot be right."""
    intake.enqueue(arrival(patient="1"), arrival(patient="2"))
    inbox = Inbox(store, "node-1")
    first, second = (message.message_id for message in inbox.claim(NOW, 10))
    postponed = MessageOutcome(first, QueueEvent.POSTPONED, retry_at=NOW + 1000)
    asked_for = MessageOutcome(second, QueueEvent.POSTPONED, retry_at=NOW + JUMP)
    inbox.settle([postponed], NOW)
    inbox.settle([asked_for], NOW - JUMP)
    assert inbox.correct_due_times(NOW - 1000) == 0
    assert inbox.correct_due_times(NOW - JUMP) == 1
    assert [message.message_id for message in inbox.claim(NOW - JUMP, 10)] == [first]
