"""What receivers answered: attempts, further replies, and how many of them are kept."""

import pytest

from bridge.queue import attempts
from bridge.queue.attempts import MAX_ATTEMPTS, Attempt, AttemptKind
from bridge.queue.deliveries import DeliveryOutcome, DeliveryRequest
from bridge.queue.operations import retry_delivery
from bridge.queue.outbox import MAX_FURTHER_REPLIES, Outbox
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from bridge.store.records.exceptions import ExceptionSubject, list_unseen
from bridge.wiring.stores import migrate_bridge


@pytest.fixture
def outbox(database: Database) -> Outbox:
    """Return the outbox with one delivery that was sent once and accepted."""
    migrate_bridge(database)
    made = Outbox(database, "test")
    with database.write() as connection:
        made.enqueue(connection, [DeliveryRequest("ris", "R1", "k1", "final", 0, {})], 0)
    (claimed,) = made.claim("ris", 1, 10)
    made.store_payloads({claimed.delivery_id: (b"MSH|", "ID1")})
    made.settle([DeliveryOutcome(claimed.delivery_id, QueueEvent.ACCEPTED, sent_at=2)], 3)
    return made


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("code", "is_negative"), [("AE", True), ("AA", False)])
def test_a_further_reply(
    outbox: Outbox, database: Database, code: str, *, known: bool, is_negative: bool
) -> None:
    """It is found by its MSA-2, also in another process; a negative one needs attention."""
    number = 1 if known else None
    for _ in range(MAX_FURTHER_REPLIES + 5):
        assert outbox.add_further_reply(
            "ris", "ID1", number, b"reply", (code, "207"), 9, is_negative=is_negative
        )
    stored = attempts.of_deliveries(database, [1])[1]
    assert len(stored) == MAX_FURTHER_REPLIES
    assert stored[0] == Attempt(1, AttemptKind.REPLY, 9, code, "207", None, b"reply")
    found = [(each.kind, each.row_id, each.code) for each in list_unseen(database, 10)]
    assert found == ([(ExceptionSubject.DELIVERY, 1, f"{code} 207")] if is_negative else [])


def test_a_reply_about_an_unknown_message(outbox: Outbox, database: Database) -> None:
    """Another control id, or another destination, is unknown."""
    for destination, name in (("ris", "ID2"), ("pacs", "ID1")):
        assert not outbox.add_further_reply(
            destination, name, None, b"", ("AE", ""), 9, is_negative=True
        )
    assert attempts.of_deliveries(database, [1]) == {}


def test_a_refusal_before_acceptance_is_no_exception(outbox: Outbox, database: Database) -> None:
    """A second refusal of a refused message is stored, and the message is retried anyway."""
    with database.write() as connection:
        outbox.enqueue(connection, [DeliveryRequest("ris", "R2", "k2", "final", 0, {})], 0)
    outbox.claim("ris", 1, 10)
    assert outbox.add_further_reply("ris", "", 2, b"x", ("AE", ""), 9, is_negative=True)
    assert list_unseen(database, 10) == []


def test_the_newest_attempts_are_kept(outbox: Outbox, database: Database) -> None:
    """A receiver that is silent for days fills no disk."""
    with database.write() as connection:
        for number in range(MAX_ATTEMPTS + 7):
            attempts.add(connection, [Attempt(1, AttemptKind.ATTEMPT, number, "silence")])
    stored = attempts.of_deliveries(database, [1])[1]
    assert [each.at for each in stored] == list(range(7, MAX_ATTEMPTS + 7))
    assert attempts.last_of_deliveries(database, [1, 2])[1].at == MAX_ATTEMPTS + 6


def test_a_retry_begins_the_waits_anew(outbox: Outbox, database: Database) -> None:
    """After *Retry now* the number of tries is 0, so the next wait is the first one."""
    with database.write() as connection:
        outbox.enqueue(connection, [DeliveryRequest("ris", "R2", "k2", "final", 0, {})], 0)
    (claimed,) = outbox.claim("ris", 1, 10)
    again = DeliveryOutcome(
        claimed.delivery_id, QueueEvent.POSTPONED, code="AE", retry_at=999_999, sent_at=2, tries=9
    )
    outbox.settle([again], 3)
    retry_delivery(database, claimed.delivery_id)
    (claimed,) = outbox.claim("ris", 4, 10)
    assert claimed.tries == 0
    assert [each.retry_at for each in attempts.of_deliveries(database, [2])[2]] == [999_999]
