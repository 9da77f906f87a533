"""Deliveries: once per release, in order for each report, with the same bytes at each attempt."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import text

from bridge.errors import FailureKind
from bridge.queue import attempts, operations, queries
from bridge.queue.attempts import MAX_ATTEMPTS, Attempt, AttemptKind
from bridge.queue.claims import MessageOutcome
from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome, DeliveryRequest
from bridge.queue.errors import IllegalTransition, NoSuchRow
from bridge.queue.inbox import Inbox
from bridge.queue.operations import retry_delivery
from bridge.queue.outbox import MAX_FURTHER_REPLIES, Outbox
from bridge.queue.states import QueueEvent, QueueState
from bridge.queue.wakeup import CHANNEL
from bridge.store.database import Database
from bridge.store.databases import migrate_bridge
from bridge.store.records.exceptions import ExceptionSubject, list_unseen
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, enqueue, release
from tests.eventually import PATIENCE, eventually

HERE = "ris-results"
_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
def outbox(store: Database) -> Outbox:
    return Outbox(store, "node-1", lease=1000)


def _queue(store: Database, outbox: Outbox, *releases: DeliveryRequest) -> int:
    with store.write() as connection:
        return outbox.enqueue(connection, releases, NOW)


def _keys(claimed: list[ClaimedDelivery]) -> list[str]:
    return [delivery.release_key for delivery in claimed]


def _settle(outbox: Outbox, claimed: ClaimedDelivery, event: QueueEvent, retry_at: int = 0) -> None:
    outcome = DeliveryOutcome(claimed.delivery_id, event, retry_at=retry_at)
    assert outbox.settle([outcome], NOW) == {claimed.delivery_id}


def test_a_claimed_delivery_is_complete(store: Database, outbox: Outbox) -> None:
    """A claimed delivery has all fields that composing needs."""
    given = release("K1")
    assert _queue(store, outbox, given) == 1
    (claimed,) = outbox.claim(HERE, NOW + 5, 10)
    assert claimed == ClaimedDelivery(
        delivery_id=claimed.delivery_id,
        destination=HERE,
        report_id="R1",
        release_key="K1",
        event="final",
        orders=[{"Accession": "A1"}],
        control_id="",
        payload=None,
        attempts=1,
        release_at=NOW,
        created_at=NOW,
    )


def test_an_outcome_of_a_lost_delivery_does_not_settle_a_later_one(
    store: Database, outbox: Outbox
) -> None:
    """After a failover that lost commits, a later delivery can have the id of a lost one."""
    _queue(store, outbox, release())
    (claimed,) = outbox.claim(HERE, NOW, 10)
    lost = DeliveryOutcome(
        claimed.delivery_id, QueueEvent.ACCEPTED, created_at=claimed.created_at - 1
    )
    assert outbox.settle([lost], NOW) == set()
    known = replace(lost, created_at=claimed.created_at)
    assert outbox.settle([known], NOW) == {claimed.delivery_id}


def test_a_release_is_queued_once(store: Database, outbox: Outbox) -> None:
    """A known release is not queued again, also after its delivery."""
    assert _queue(store, outbox, release("K1"), release("K1")) == 1
    (claimed,) = outbox.claim(HERE, NOW, 10)
    _settle(outbox, claimed, QueueEvent.ACCEPTED)
    assert _queue(store, outbox, release("K1")) == 0
    assert _queue(store, outbox, release("K1", destination="archive")) == 1
    assert outbox.claim(HERE, NOW, 10) == []


def test_nothing_is_queued_when_the_caller_rolls_back(store: Database, outbox: Outbox) -> None:
    """The read change and its deliveries commit in one transaction."""
    with pytest.raises(ZeroDivisionError), store.write() as connection:  # noqa: PT012  # one unit
        outbox.enqueue(connection, [release()], NOW)
        _ = 1 / 0
    assert outbox.claim(HERE, NOW, 10) == []


def test_order_within_a_report(store: Database, outbox: Outbox) -> None:
    """An addendum waits for its report. Another report does not."""
    _queue(store, outbox, release("final"), release("addendum"), release("other", report="R2"))
    first, other = outbox.claim(HERE, NOW, 10)
    assert _keys([first, other]) == ["final", "other"]
    _settle(outbox, first, QueueEvent.POSTPONED, retry_at=NOW + 50)
    assert outbox.claim(HERE, NOW + 49, 10) == []
    (again,) = outbox.claim(HERE, NOW + 50, 10)
    _settle(outbox, again, QueueEvent.ACCEPTED)
    assert _keys(outbox.claim(HERE, NOW, 10)) == ["addendum"]


def test_destinations_do_not_wait_for_each_other(store: Database, outbox: Outbox) -> None:
    """One report at two destinations: each destination has its own order."""
    for key in ("a", "b"):
        _queue(store, outbox, release(key), release(key, destination="archive"))
    (stuck,) = outbox.claim(HERE, NOW, 10)
    _settle(outbox, stuck, QueueEvent.GIVEN_UP)
    (claimed,) = outbox.claim("archive", NOW, 10)
    _settle(outbox, claimed, QueueEvent.ACCEPTED)
    assert _keys(outbox.claim("archive", NOW, 10)) == ["b"]


def test_a_parked_delivery_blocks_its_own_report(store: Database, outbox: Outbox) -> None:
    """A parked delivery blocks its report at its destination, and nothing else."""
    _queue(store, outbox, release("a"), release("b"), release("c", report="R2"))
    parked, other = outbox.claim(HERE, NOW, 10)
    _settle(outbox, parked, QueueEvent.GIVEN_UP)
    _settle(outbox, other, QueueEvent.ACCEPTED)
    assert outbox.claim(HERE, NOW, 10) == []
    operations.skip_delivery(store, parked.delivery_id)
    assert _keys(outbox.claim(HERE, NOW, 10)) == ["b"]
    assert queries.delivery(store, parked.delivery_id).row.state is QueueState.CANCELLED


def test_only_an_acceptance_is_an_acknowledgment(store: Database, outbox: Outbox) -> None:
    """A delivery that was refused or repeated has no time of acknowledgment."""
    _queue(store, outbox, release())
    times = []
    for event in (QueueEvent.POSTPONED, QueueEvent.ACCEPTED):
        (claimed,) = outbox.claim(HERE, NOW, 10)
        _settle(outbox, claimed, event)
        times.append(queries.delivery(store, claimed.delivery_id).row.acknowledged_at)
    assert times == [None, NOW]


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_two_nodes_queue_for_one_report(store: Database, outbox: Outbox) -> None:
    """The second node waits for the commit of the first, so that ids follow the commits."""

    def is_waiting() -> bool:
        with store.read() as connection:
            return bool(connection.execute(_WAITING).scalar_one())

    with ThreadPoolExecutor(1) as pool:
        with store.write() as connection:
            outbox.enqueue(connection, [release("first")], NOW)
            second = pool.submit(_queue, store, outbox, release("second"))
            eventually(lambda: second.done() or is_waiting())
            assert not second.done()
        assert second.result(PATIENCE) == 1
    (claimed,) = outbox.claim(HERE, NOW, 10)
    assert claimed.release_key == "first"


def test_an_operator_retries(store: Database, outbox: Outbox) -> None:
    """A retry sends a parked delivery first, and a waiting one at once."""
    _queue(store, outbox, release("a"), release("b"))
    (claimed,) = outbox.claim(HERE, NOW, 10)
    _settle(outbox, claimed, QueueEvent.GIVEN_UP)
    operations.retry_delivery(store, claimed.delivery_id)
    (claimed,) = outbox.claim(HERE, NOW, 10)
    assert claimed.release_key == "a"
    with pytest.raises(IllegalTransition):
        operations.retry_delivery(store, claimed.delivery_id)
    _settle(outbox, claimed, QueueEvent.POSTPONED, retry_at=NOW + 10**6)
    assert outbox.claim(HERE, NOW, 10) == []
    operations.retry_delivery(store, claimed.delivery_id)
    assert _keys(outbox.claim(HERE, NOW, 10)) == ["a"]
    with pytest.raises(NoSuchRow):
        operations.skip_delivery(store, 999)


def test_a_repeated_delivery_has_its_place(store: Database, outbox: Outbox) -> None:
    """A delivery that is sent again after its end precedes the later ones of its report."""
    _queue(store, outbox, release("a"))
    (claimed,) = outbox.claim(HERE, NOW, 10)
    _settle(outbox, claimed, QueueEvent.ACCEPTED)
    _queue(store, outbox, release("b"))
    operations.retry_delivery(store, claimed.delivery_id)
    assert _keys(outbox.claim(HERE, NOW, 10)) == ["a"]
    assert outbox.claim(HERE, NOW, 10) == []


def test_attempts_survive_a_restart(store: Database, outbox: Outbox) -> None:
    """Deliveries keep their time and attempts. A released claim is not an attempt."""
    _queue(store, outbox, release())
    (claimed,) = outbox.claim(HERE, NOW, 10)
    postponed = DeliveryOutcome(
        claimed.delivery_id, QueueEvent.POSTPONED, retry_at=NOW + 500, tries=claimed.tries + 1
    )
    outbox.settle([postponed], NOW)
    after = Outbox(store, "node-1", lease=1000)
    assert after.claim(HERE, NOW + 499, 10) == []
    (again,) = after.claim(HERE, NOW + 500, 10)
    after.release([again.delivery_id], NOW + 500)
    (again,) = after.claim(HERE, NOW + 500, 10)
    assert (again.tries, again.attempts) == (1, 3)
    _settle(after, again, QueueEvent.GIVEN_UP)
    operations.retry_delivery(store, again.delivery_id)
    assert after.claim(HERE, NOW + 500, 10)[0].tries == 0


def test_the_same_bytes_each_time(store: Database, outbox: Outbox) -> None:
    """Each attempt sends the bytes and control id that were composed first."""
    _queue(store, outbox, release())
    (claimed,) = outbox.claim(HERE, NOW, 10)
    number = claimed.delivery_id
    assert outbox.store_payloads({number: (b"MSH|1", "C1")}) == {number: b"MSH|1"}
    assert outbox.store_payloads({number: (b"MSH|2", "C2")}) == {number: b"MSH|1"}
    _settle(outbox, claimed, QueueEvent.POSTPONED)
    (again,) = outbox.claim(HERE, NOW, 10)
    assert (again.payload, again.control_id, again.attempts) == (b"MSH|1", "C1", 2)
    assert outbox.store_payloads({999: (b"MSH|", "C9"), number: (b"MSH|3", "C3")}) == {
        number: b"MSH|1"
    }


def test_an_unsent_message_is_composed_again(store: Database, outbox: Outbox) -> None:
    """A claim that is returned deletes the message that was composed for it, if it still holds."""
    _queue(store, outbox, release("a", report="R1"), release("b", report="R2"))
    first, second = (delivery.delivery_id for delivery in outbox.claim(HERE, NOW, 10))
    outbox.store_payloads({first: (b"MSH|1", "C1"), second: (b"MSH|2", "C2")})
    outbox.release([first, second], NOW, unsent={first})
    again = outbox.claim(HERE, NOW, 10)
    assert [(message.payload, message.control_id) for message in again] == [
        (None, "C1"),
        (b"MSH|2", "C2"),
    ]
    outbox.store_payloads({first: (b"MSH|3", "C1")})
    Outbox(store, "node-2", lease=1000).release([first], NOW, unsent={first})
    outbox.release([first], NOW)
    assert [delivery.payload for delivery in outbox.claim(HERE, NOW, 10)] == [b"MSH|3"]


def test_unsent_payloads_of_older_releases_are_composed_again(
    store: Database, outbox: Outbox
) -> None:
    """An unsent payload is composed once more. A claimed one keeps its bytes."""
    _queue(store, outbox, release("a", report="R1"), release("b", report="R2"))
    early = text(
        "INSERT INTO delivery_body (delivery_id, payload, edition)"
        " SELECT id, :payload, 'old' FROM delivery"
    )
    with store.write() as connection:
        connection.execute(early, {"payload": b"MSH|early"})
        connection.execute(text("UPDATE delivery SET attempts = 1 WHERE release_key = 'b'"))
    new, sent = outbox.claim(HERE, NOW, 10)
    assert (new.payload, sent.payload) == (None, b"MSH|early")
    for late in (b"MSH|late", b"MSH|later"):
        outcome = outbox.store_payloads({new.delivery_id: (late, "C1")})
        assert outcome == {new.delivery_id: b"MSH|late"}
    outbox.release([new.delivery_id, sent.delivery_id], NOW)
    operations.retry_delivery(store, sent.delivery_id)
    again = outbox.claim(HERE, NOW, 10)
    assert [message.payload for message in again] == [b"MSH|late", b"MSH|early"]
    with store.write() as connection:
        connection.execute(text("UPDATE delivery_body SET payload = :bad"), {"bad": b"MSH|bad"})
    outbox.release([new.delivery_id, sent.delivery_id], NOW)
    assert [delivery.is_damaged for delivery in outbox.claim(HERE, NOW, 10)] == [True, False]


def test_a_damaged_payload_is_not_claimed(store: Database, outbox: Outbox) -> None:
    """A payload that differs from its digest is not sent. One of an older release has no digest."""
    _queue(store, outbox, release("a", report="R1"), release("b", report="R2"))
    first, second = (delivery.delivery_id for delivery in outbox.claim(HERE, NOW, 10))
    outbox.store_payloads({first: (b"MSH|1", "C1"), second: (b"MSH|2", "C2")})
    with store.write() as connection:
        connection.execute(
            text("UPDATE delivery_body SET payload = :changed"), {"changed": b"MSH|3"}
        )
        connection.execute(
            text("UPDATE delivery_body SET digest = NULL WHERE delivery_id = :id"), {"id": second}
        )
    assert outbox.store_payloads({first: (b"MSH|4", "C1")}) == {}
    outbox.release([first, second], NOW)
    claimed = outbox.claim(HERE, NOW, 10)
    assert [(message.payload, message.is_damaged) for message in claimed] == [
        (None, True),
        (b"MSH|3", False),
    ]


def test_the_result_of_a_delivery_is_stored(store: Database, outbox: Outbox) -> None:
    """The row has times, reply and earlier errors."""
    _queue(store, outbox, release("K1"))
    (claimed,) = outbox.claim(HERE, NOW, 10)
    outbox.store_payloads({claimed.delivery_id: (b"MSH|", "C1")})
    lost = DeliveryOutcome(
        claimed.delivery_id, QueueEvent.POSTPONED, FailureKind.AMBIGUOUS, "timeout", sent_at=NOW + 1
    )
    outbox.settle([lost], NOW + 2)
    row = queries.delivery(store, claimed.delivery_id).row
    assert (row.state, row.failure, row.code) == (QueueState.QUEUED, "ambiguous", "timeout")
    outbox.claim(HERE, NOW + 2, 10)
    taken = DeliveryOutcome(
        claimed.delivery_id, QueueEvent.ACCEPTED, code="AA", reply=b"ACK", sent_at=NOW + 3
    )
    outbox.settle([taken], NOW + 4)
    detail = queries.delivery(store, claimed.delivery_id)
    assert (detail.payload, detail.reply, detail.orders) == (
        b"MSH|",
        b"ACK",
        [{"Accession": "A1"}],
    )
    row = detail.row
    assert (row.state, row.sent_at, row.acknowledged_at) == (QueueState.DONE, NOW + 3, NOW + 4)
    assert (row.code, row.failure, row.control_id) == ("AA", "", "C1")


def test_an_attempt_without_a_reply_keeps_the_earlier_one(store: Database, outbox: Outbox) -> None:
    """Reply and times are those of the last attempt that has them."""
    _queue(store, outbox, release())
    (claimed,) = outbox.claim(HERE, NOW, 10)
    accepted = DeliveryOutcome(claimed.delivery_id, QueueEvent.ACCEPTED, reply=b"AA", sent_at=NOW)
    outbox.settle([accepted], NOW + 1)
    operations.retry_delivery(store, claimed.delivery_id)
    outbox.claim(HERE, NOW + 2, 10)
    _settle(outbox, claimed, QueueEvent.POSTPONED)
    detail = queries.delivery(store, claimed.delivery_id)
    assert (detail.reply, detail.row.sent_at, detail.row.acknowledged_at) == (b"AA", NOW, NOW + 1)


def test_claims_of_a_failed_courier_are_requeued(store: Database, outbox: Outbox) -> None:
    """The restarted node requeues its claims, or they are requeued after the lease."""
    _queue(store, outbox, release("a"), release("b"))
    (claimed,) = outbox.claim(HERE, NOW, 10)
    other = Outbox(store, "node-2", lease=1000)
    assert other.claim(HERE, NOW, 10) == []
    assert other.requeue_expired_claims(NOW + 1000) == 0
    assert Outbox(store, "node-1").requeue_expired_claims(NOW, include_own=True) == 1
    assert _keys(other.claim(HERE, NOW, 10)) == ["a"]
    assert outbox.extend([claimed.delivery_id], NOW + 900) == set()
    late = DeliveryOutcome(claimed.delivery_id, QueueEvent.ACCEPTED, reply=b"late", sent_at=NOW)
    assert outbox.settle([late], NOW) == set()
    detail = queries.delivery(store, claimed.delivery_id)
    assert (detail.reply, detail.row.sent_at, detail.row.acknowledged_at) == (None, None, None)
    assert outbox.requeue_expired_claims(NOW + 1001) == 1
    (mine,) = outbox.claim(HERE, NOW + 1001, 10)
    outbox.extend([mine.delivery_id], NOW + 1500)
    assert other.requeue_expired_claims(NOW + 2400) == 0
    outbox.release([mine.delivery_id], NOW)
    assert _keys(outbox.claim(HERE, NOW, 10)) == ["a"]


def test_due_times_of_a_wrong_clock_are_corrected(store: Database, outbox: Outbox) -> None:
    """A due time beyond the longest pause is corrected, at its destination only."""
    _queue(store, outbox, release("a"), release("b", destination="archive"))
    for destination in (HERE, "archive"):
        (claimed,) = outbox.claim(destination, NOW, 10)
        _settle(outbox, claimed, QueueEvent.POSTPONED, retry_at=NOW + 3_600_000)
    assert outbox.correct_due_times(HERE, NOW, longest=3300) == 0
    assert outbox.correct_due_times(HERE, NOW, longest=60) == 1
    assert _keys(outbox.claim(HERE, NOW, 10)) == ["a"]
    assert outbox.claim("archive", NOW, 10) == []


def test_the_last_reply_is_kept(store: Database, outbox: Outbox) -> None:
    """An attempt without reply leaves the reply of an earlier attempt."""
    _queue(store, outbox, release("a"))
    for reply in (b"MSA|AE", None):
        (claimed,) = outbox.claim(HERE, NOW, 1)
        outcome = DeliveryOutcome(claimed.delivery_id, QueueEvent.POSTPONED, reply=reply)
        outbox.settle([outcome], NOW)
        assert queries.delivery(store, claimed.delivery_id).reply == b"MSA|AE"


def test_counts(store: Database, outbox: Outbox) -> None:
    """Open deliveries are counted by destination and state."""
    _queue(store, outbox, release("a"), release("b", report="R2"))
    _queue(store, outbox, release("c", destination="archive"))
    (parked,) = outbox.claim("archive", NOW, 10)
    _settle(outbox, parked, QueueEvent.GIVEN_UP)
    depths = queries.open_deliveries(store)
    assert {name: {s: d.count for s, d in item.items()} for name, item in depths.items()} == {
        HERE: {QueueState.QUEUED: 2},
        "archive": {QueueState.PARKED: 1},
    }


def test_lanes_are_hashes(store: Database, outbox: Outbox) -> None:
    """The lane hides the report, and differs between destinations."""
    _queue(store, outbox, release("a"), release("b", destination="archive"))
    with store.read() as connection:
        lanes = list(connection.execute(text("SELECT lane FROM delivery")).scalars())
    assert len(set(lanes)) == 2


@pytest.fixture
def accepted(database: Database) -> Outbox:
    """An outbox with one delivery that was sent once and accepted."""
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
    accepted: Outbox, database: Database, code: str, *, known: bool, is_negative: bool
) -> None:
    """It is found by its MSA-2, also in another process; a negative one needs attention."""
    number = 1 if known else None
    for _ in range(MAX_FURTHER_REPLIES + 5):
        assert accepted.add_further_reply(
            "ris", "ID1", number, b"reply", (code, "207"), 9, is_negative=is_negative
        )
    stored = attempts.of_deliveries(database, [1])[1]
    assert len(stored) == MAX_FURTHER_REPLIES
    assert stored[0] == Attempt(1, AttemptKind.REPLY, 9, code, "207", None, b"reply")
    found = [
        (exception.kind, exception.row_id, exception.code)
        for exception in list_unseen(database, 10)
    ]
    assert found == ([(ExceptionSubject.DELIVERY, 1, f"{code} 207")] if is_negative else [])


def test_a_reply_about_an_unknown_message(accepted: Outbox, database: Database) -> None:
    """Another control id, or another destination, is unknown."""
    for destination, name in (("ris", "ID2"), ("pacs", "ID1")):
        assert not accepted.add_further_reply(
            destination, name, None, b"", ("AE", ""), 9, is_negative=True
        )
    assert attempts.of_deliveries(database, [1]) == {}


def test_a_refusal_before_acceptance_is_no_exception(accepted: Outbox, database: Database) -> None:
    """A second refusal of a refused message is stored, and the message is retried anyway."""
    with database.write() as connection:
        accepted.enqueue(connection, [DeliveryRequest("ris", "R2", "k2", "final", 0, {})], 0)
    accepted.claim("ris", 1, 10)
    assert accepted.add_further_reply("ris", "", 2, b"x", ("AE", ""), 9, is_negative=True)
    assert list_unseen(database, 10) == []


def test_the_newest_attempts_are_kept(accepted: Outbox, database: Database) -> None:
    """A receiver that is silent for days fills no disk."""
    with database.write() as connection:
        for number in range(MAX_ATTEMPTS + 7):
            attempts.add(connection, [Attempt(1, AttemptKind.ATTEMPT, number, "silence")])
    stored = attempts.of_deliveries(database, [1])[1]
    assert [item.at for item in stored] == list(range(7, MAX_ATTEMPTS + 7))
    assert attempts.last_of_deliveries(database, [1, 2])[1].at == MAX_ATTEMPTS + 6


def test_a_retry_begins_the_waits_anew(accepted: Outbox, database: Database) -> None:
    """After *Retry now* the number of tries is 0, so the next wait is the first one."""
    with database.write() as connection:
        accepted.enqueue(connection, [DeliveryRequest("ris", "R2", "k2", "final", 0, {})], 0)
    (claimed,) = accepted.claim("ris", 1, 10)
    again = DeliveryOutcome(
        claimed.delivery_id, QueueEvent.POSTPONED, code="AE", retry_at=999_999, sent_at=2, tries=9
    )
    accepted.settle([again], 3)
    retry_delivery(database, claimed.delivery_id)
    (claimed,) = accepted.claim("ris", 4, 10)
    assert claimed.tries == 0
    assert [delivery.retry_at for delivery in attempts.of_deliveries(database, [2])[2]] == [999_999]


Marks = Callable[[], list[str]]


@pytest.fixture
def marks(store: Database) -> Iterator[Marks]:
    driver = store.dedicated_connection()
    driver.autocommit = True
    driver.execute(f"LISTEN {CHANNEL}")
    received: list[str] = []
    driver.add_notify_handler(lambda item: received.append(item.payload))

    def wait() -> list[str]:
        eventually(lambda: driver.execute("SELECT 1") and received)
        found = list(received)
        received.clear()
        return found

    yield wait
    driver.close()


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_messages(store: Database, intake: Intake, inbox: Inbox, marks: Marks) -> None:
    """Released and cancelled messages notify others, replayed ones everybody."""
    (number,) = enqueue(intake, "1")
    inbox.claim(NOW, 10)
    inbox.release([number], NOW)
    assert marks() == [store.notification_id]

    operations.cancel_message(store, number)
    assert marks() == [store.notification_id]

    operations.replay_message(store, number)
    assert marks() == [""]

    inbox.claim(NOW, 10)
    inbox.settle([MessageOutcome(number, QueueEvent.GIVEN_UP, code="name")], NOW)
    with store.write() as connection:
        operations.replay_parked(store, connection, "name", arrival(patient="1").lanes)
    assert marks() == [""]


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_deliveries(store: Database, marks: Marks) -> None:
    """New, released, retried and skipped deliveries notify others."""
    outbox = Outbox(store, "node-1")
    with store.write() as connection:
        outbox.enqueue(connection, [release()], NOW)
    assert marks() == [store.notification_id]

    (claimed,) = outbox.claim("ris-results", NOW, 10)
    outbox.release([claimed.delivery_id], NOW)
    assert marks() == [store.notification_id]

    outbox.claim("ris-results", NOW, 10)
    outbox.settle([DeliveryOutcome(claimed.delivery_id, QueueEvent.GIVEN_UP)], NOW)
    operations.retry_delivery(store, claimed.delivery_id)
    assert marks() == [store.notification_id]

    operations.skip_delivery(store, claimed.delivery_id)
    assert marks() == [store.notification_id]
