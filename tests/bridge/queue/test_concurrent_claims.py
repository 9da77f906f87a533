"""Concurrent claims on PostgreSQL do not wait for each other, so they cannot deadlock."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, make_url, text

from bridge.queue.claims import MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.lanes import Lanes
from bridge.queue.statements import INBOX
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, ids_of

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]

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
    """Claim in a transaction that stays open."""
    line = Lanes(store, INBOX, parked_block=False)
    return line.claim(connection, owner="another", now=NOW, lease=1000, limit=10).ids


@contextmanager
def other_transaction(store: Database) -> Iterator[Connection]:
    """Open a transaction of another node, which changes nothing."""
    with store.engine.connect() as connection:
        yield connection
        connection.rollback()


def test_a_locked_message_is_skipped(intake: Intake, store: Database, impatient: Database) -> None:
    """A claim skips a message that another claim has locked, and takes it later."""
    first, behind = (each.message_id for each in intake.enqueue(arrival(), arrival()))
    inbox = Inbox(impatient, "node")
    with other_transaction(store) as locker:
        locker.execute(_LOCK, {"ids": [first]})
        with store.write() as claimer:
            assert claimed(claimer, store) == []
            locker.rollback()
            batch = inbox.claim_without_blobs(NOW, 10)
            assert (batch.messages, batch.undecided) == ([], True)
    assert ids_of(inbox.claim(NOW, 10)) == [first]
    assert inbox.claim(NOW, 10) == []
    inbox.settle([MessageOutcome(first, QueueEvent.ACCEPTED)], NOW)
    assert ids_of(inbox.claim(NOW, 10)) == [behind]


@pytest.mark.parametrize("held", [0, 1])
def test_a_locked_lane_of_a_merge(
    intake: Intake, store: Database, impatient: Database, held: int
) -> None:
    merge = arrival(patient=("1", "2"))
    both, other = (each.message_id for each in intake.enqueue(merge, arrival(patient="3")))
    inbox = Inbox(impatient, "node")
    with other_transaction(store) as claimer:
        claimer.execute(_LOOK, {"id": both, "lane": merge.lanes[held]})
        batch = inbox.claim_without_blobs(NOW, 10)
        assert (ids_of(batch.messages), batch.undecided) == ([other], True)
    with store.read() as connection:
        marked = text("SELECT message_id FROM message_lane WHERE claimed = 1")
        assert connection.execute(marked).scalars().all() == [other]
    assert ids_of(inbox.claim(NOW, 10)) == [both]
