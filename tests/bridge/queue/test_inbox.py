"""Workers claim messages in the order of their lanes, each message by one worker."""

import threading
from dataclasses import replace

import pytest
from sqlalchemy import text

from bridge.errors import FailureKind
from bridge.queue import arrivals, queries
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.inbox import Inbox, count_settlement, settlements
from bridge.queue.notes import EngineCall, MessageNotes
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from bridge.store.postgresql.dedicated_connections import Presence
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, enqueue, ids_of, refused, settle_all, state_of
from tests.eventually import PATIENCE

LONG_BACKLOG = 2500
"""More messages than one transaction orders."""


def test_each_settlement_is_counted(intake: Intake, inbox: Inbox, store: Database) -> None:
    """By site, in any order of the messages, also with the next claim; a claim counts nothing."""

    def counts() -> list[int]:
        with store.read() as connection:
            return [settlements(connection, sites) for sites in (None, ["A"], ["B"])]

    def outcome(number: int, *sites: str) -> MessageOutcome:
        return MessageOutcome(number, QueueEvent.ACCEPTED, sites=frozenset(sites))

    first, second, third = enqueue(intake, "1", "2", "3")
    inbox.claim(NOW, 10)
    assert counts() == [0, 0, 0]
    inbox.settle([outcome(second, "A")], NOW)
    assert counts() == [1, 1, 0]
    inbox.settle_and_claim([outcome(first, "A", "B")], NOW, 10)
    assert counts() == [3, 2, 1]
    inbox.settle([outcome(third)], NOW)
    assert counts() == [4, 2, 1]
    with store.write() as connection:
        count_settlement(connection, "another node", ["B"])
    assert counts() == [5, 2, 2]


class TestClaiming:
    def test_the_first_of_each_lane_is_claimed(self, intake: Intake, inbox: Inbox) -> None:
        """The first message of each patient is claimed, the next after it is settled."""
        first, second, other = enqueue(intake, "1", "1", "2")
        assert ids_of(inbox.claim(NOW, 10)) == [first, other]
        assert inbox.claim(NOW, 10) == []
        settle_all(inbox, first)
        assert ids_of(inbox.claim(NOW, 10)) == [second]

    def test_a_claimed_message_is_complete(self, intake: Intake, inbox: Inbox) -> None:
        """A claimed message has all fields that the worker needs."""
        given = arrival(patient=("1", "2"), flags=2)
        (receipt,) = intake.enqueue(given)
        expected = ClaimedMessage(
            message_id=receipt.message_id,
            payload=given.payload,
            listener=given.listener,
            mapping=given.mapping,
            mapping_version=given.mapping_version,
            lanes=given.lanes,
            attempts=1,
            received_at=NOW,
            flags=2,
            message_type=given.message_type,
        )
        assert inbox.claim(NOW, 10) == [expected]

    def test_a_damaged_message_has_no_payload(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A payload that differs from its digest is not returned."""
        enqueue(intake, "1", "2")
        change = text("UPDATE message_body SET payload = :changed WHERE message_id = 1")
        with store.write() as connection:
            connection.execute(change, {"changed": b"MSH|^~\\&|changed"})
        first, second = inbox.claim(NOW, 10)
        assert (first.is_damaged, first.payload) == (True, b"")
        assert not second.is_damaged

    def test_a_message_that_lost_its_body_is_damaged(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A damaged database can lose a row; the message is claimed, so that it can be parked."""
        enqueue(intake, "1")
        with store.write() as connection:
            connection.execute(text("DELETE FROM message_body WHERE message_id = 1"))
        (claimed,) = inbox.claim(NOW, 10)
        assert (claimed.message_id, claimed.is_damaged) == (1, True)

    def test_a_claim_tells_whether_more_is_free(self, intake: Intake, inbox: Inbox) -> None:
        """Messages beyond the limit are free, and those behind a claimed one are not."""
        first, other, _ = enqueue(intake, "1", "2", "1")
        batches = [inbox.claim_batch(NOW, 1) for _ in range(2)]
        assert [ids_of(batch.messages) for batch in batches] == [[first], [other]]
        assert [batch.more for batch in batches] == [True, False]

    def test_a_node_without_a_heartbeat_claims_nothing(
        self, intake: Intake, store: Database
    ) -> None:
        (number,) = enqueue(intake, "1")
        session: list[int | None] = [None]
        inbox = Inbox(store, "node-1", session=lambda: session[0])
        presence = Presence(store, ("node-1",))
        presence.start()
        batch = inbox.claim_batch(NOW, 10)
        assert (batch.messages, batch.undecided) == ([], True)
        session[0] = 1
        assert ids_of(inbox.claim(NOW, 10)) == [number]
        presence.stop()

    def test_never_more_than_the_limit(self, intake: Intake, inbox: Inbox) -> None:
        """A claim has at most the limit. The next claim gets the rest."""
        ids = enqueue(intake, *map(str, range(25)))
        claims = [ids_of(inbox.claim(NOW, 10)) for _ in range(4)]
        assert list(map(len, claims)) == [10, 10, 5, 0]
        assert [message for claim in claims for message in claim] == ids

    def test_the_limit_of_a_claim_that_scans_twice(self, intake: Intake, inbox: Inbox) -> None:
        """Messages behind the first of a long lane count neither for the limit nor against it."""
        head, *_ = enqueue(intake, *["1"] * 300)
        others = enqueue(intake, *map(str, range(2, 12)))
        assert ids_of(inbox.claim(NOW, 5)) == [head, *others[:4]]
        assert ids_of(inbox.claim(NOW, 100)) == others[4:]

    def test_a_merge_waits_for_both_and_holds_both(self, intake: Intake, inbox: Inbox) -> None:
        """A message of two lanes waits for both, and blocks later messages of both."""
        one, two, merge, after_one, after_two = enqueue(intake, "1", "2", ("1", "2"), "1", "2")
        assert ids_of(inbox.claim(NOW, 10)) == [one, two]
        settle_all(inbox, one)
        assert inbox.claim(NOW, 10) == []
        settle_all(inbox, two)
        assert ids_of(inbox.claim(NOW, 10)) == [merge]
        assert inbox.claim(NOW, 10) == []
        settle_all(inbox, merge)
        assert ids_of(inbox.claim(NOW, 10)) == [after_one, after_two]

    def test_a_patient_merged_later(self, intake: Intake, inbox: Inbox, store: Database) -> None:
        """A message that gets a second lane keeps its place in both."""
        other = Inbox(store, "other-node")
        first, second, third, behind = enqueue(intake, "1", "2", "2", "1")
        assert ids_of(inbox.claim(NOW, 1)) == [first]
        assert ids_of(other.claim(NOW, 1)) == [second]
        lane = arrivals.lane("SITE1", "2")
        inbox.settle([MessageOutcome(first, QueueEvent.POSTPONED, retry_at=NOW, lane=lane)], NOW)
        assert inbox.claim(NOW, 10) == other.claim(NOW, 10) == []
        settle_all(other, second)
        (again,) = other.claim(NOW, 10)
        assert (again.message_id, again.lanes[1]) == (first, lane)
        assert inbox.claim(NOW, 10) == []
        settle_all(other, first)
        assert ids_of(inbox.claim(NOW, 10)) == [third, behind]

    def test_refused_messages_are_not_claimed(self, intake: Intake, inbox: Inbox) -> None:
        intake.enqueue(refused())
        assert inbox.claim(NOW, 10) == []

    def test_many_messages_after_a_waiting_head(self, intake: Intake, inbox: Inbox) -> None:
        """A lane full of waiting messages does not hide the first message of another lane."""
        head, *_ = enqueue(intake, *["1"] * 600)
        (other,) = enqueue(intake, "2")
        assert ids_of(inbox.claim(NOW, 10)) == [head, other]
        settle_all(inbox, other)
        (late,) = enqueue(intake, "2")
        assert ids_of(inbox.claim(NOW, 10)) == [late]


class TestSettling:
    def test_a_waiting_head_blocks_its_lane_only(self, intake: Intake, inbox: Inbox) -> None:
        """A postponed message blocks its own lane until its time, and no other lane."""
        head, behind, _ = enqueue(intake, "1", "1", "2")
        inbox.claim(NOW, 10)
        inbox.settle(
            [
                MessageOutcome(
                    head, QueueEvent.POSTPONED, FailureKind.TRANSIENT, "503", retry_at=NOW + 50
                )
            ],
            NOW,
        )
        assert inbox.claim(NOW + 49, 10) == []
        (again,) = inbox.claim(NOW + 50, 10)
        assert (again.message_id, again.attempts) == (head, 2)
        settle_all(inbox, head)
        assert ids_of(inbox.claim(NOW, 10)) == [behind]

    def test_a_due_retry_precedes_new_messages(self, intake: Intake, inbox: Inbox) -> None:
        (head,) = enqueue(intake, "1")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(head, QueueEvent.POSTPONED, retry_at=NOW + 50)], NOW)
        enqueue(intake, *map(str, range(2, 22)))
        assert head in ids_of(inbox.claim(NOW + 60, 5))

    def test_a_parked_message_does_not_block(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        parked, behind = enqueue(intake, "1", "1")
        inbox.claim(NOW, 10)
        inbox.settle(
            [
                MessageOutcome(
                    parked, QueueEvent.GIVEN_UP, FailureKind.PERMANENT, "400", "bad place"
                )
            ],
            NOW,
        )
        row = queries.message(store, parked).row
        assert (row.state, row.failure, row.code) == (QueueState.PARKED, "permanent", "400")
        assert (row.detail, row.settled_at) == ("bad place", NOW)
        assert ids_of(inbox.claim(NOW, 10)) == [behind]

    def test_ambiguous_attempts_survive_a_restart(self, intake: Intake, store: Database) -> None:
        """The next worker continues the count of attempts with an unknown outcome."""
        enqueue(intake, "1")
        first, second = Inbox(store, "node-1"), Inbox(store, "node-2")
        (message,) = first.claim(NOW, 1)
        first.settle(
            [
                MessageOutcome(
                    message.message_id, QueueEvent.POSTPONED, retry_at=NOW, ambiguous_attempts=3
                )
            ],
            NOW,
        )
        (message,) = second.claim(NOW, 1)
        assert message.ambiguous_attempts == 3
        second.settle([MessageOutcome(message.message_id, QueueEvent.POSTPONED, retry_at=NOW)], NOW)
        assert first.claim(NOW, 1)[0].ambiguous_attempts == 3

    def test_notes_are_stored(self, intake: Intake, inbox: Inbox, store: Database) -> None:
        (message_id,) = enqueue(intake, "1")
        inbox.claim(NOW, 10)
        call = EngineCall("launch", "ORC[1]", 503, "overloaded", 12)
        notes = MessageNotes(("linked", "stays_held"), (call,))
        inbox.settle([MessageOutcome(message_id, QueueEvent.IGNORED, notes=notes)], NOW)
        detail = queries.message(store, message_id)
        assert (detail.row.state, detail.notes) == (QueueState.IGNORED, notes)

    def test_only_the_owner_settles_a_claim(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """After its lease another worker may own the message: the first cannot settle it."""
        (message_id,) = enqueue(intake, "1")
        inbox.claim(NOW, 10)
        other = Inbox(store, "node-2", lease=1000)
        assert other.requeue_expired_claims(NOW + 1000) == 0
        assert other.requeue_expired_claims(NOW + 1001) == 1
        assert [message.attempts for message in other.claim(NOW + 1001, 10)] == [2]
        assert inbox.settle([MessageOutcome(message_id, QueueEvent.GIVEN_UP)], NOW).owned == set()
        assert state_of(store, message_id) is QueueState.CLAIMED
        assert other.settle([MessageOutcome(message_id, QueueEvent.ACCEPTED)], NOW).owned == {
            message_id
        }
        assert state_of(store, message_id) is QueueState.DONE

    def test_an_outcome_of_a_lost_message_does_not_settle_a_later_one(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """After a failover that lost commits, a later message can have the id of a lost one."""
        (message_id,) = enqueue(intake, "1")
        (claimed,) = inbox.claim(NOW, 10)
        lost = MessageOutcome(message_id, QueueEvent.ACCEPTED, received_at=claimed.received_at - 1)
        assert inbox.settle([lost], NOW).owned == set()
        assert state_of(store, message_id) is QueueState.CLAIMED
        known = replace(lost, received_at=claimed.received_at)
        assert inbox.settle([known], NOW).owned == {message_id}

    def test_an_extended_lease_holds(self, intake: Intake, inbox: Inbox, store: Database) -> None:
        """A slow worker that extends its lease keeps its claims."""
        (message_id,) = enqueue(intake, "1")
        inbox.claim(NOW, 10)
        assert inbox.extend([message_id], NOW + 900) == {message_id}
        other = Inbox(store, "node-2")
        assert other.requeue_expired_claims(NOW + 1800) == 0
        assert other.requeue_expired_claims(NOW + 1901) == 1
        assert inbox.extend([message_id], NOW + 1901) == set()

    def test_a_restarted_node_requeues_its_claims(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A restarted node requeues its claims at once, in their old order."""
        head, behind, other = enqueue(intake, "1", "1", "2")
        inbox.claim(NOW, 10)
        assert Inbox(store, "node-2").requeue_expired_claims(NOW, include_own=True) == 0
        assert Inbox(store, "node-1").requeue_expired_claims(NOW, include_own=True) == 2
        assert ids_of(inbox.claim(NOW, 10)) == [head, other]
        settle_all(inbox, head)
        assert ids_of(inbox.claim(NOW, 10)) == [behind]

    def test_released_claims_are_queued_again(self, intake: Intake, inbox: Inbox) -> None:
        """Claims released by a shutdown can be claimed at once."""
        ids = enqueue(intake, "1", "2")
        inbox.claim(NOW, 10)
        inbox.release(ids, NOW)
        assert ids_of(inbox.claim(NOW, 10)) == ids


def test_workers_side_by_side(intake: Intake, store: Database) -> None:
    """Four concurrent workers apply each message once, and those of a patient in order."""
    ids = enqueue(intake, *(str(n % 7) for n in range(150)), ("1", "2"), ("2", "3"), "1", "3")
    log: list[tuple[str, ClaimedMessage]] = []
    in_hand: set[int] = set()
    guard = threading.Lock()
    failures: list[BaseException] = []

    def work(name: str) -> None:
        inbox = Inbox(store, name)
        try:
            while len(log) < len(ids) and not failures:
                claimed = inbox.claim(NOW, 5)
                lanes = {lane for message in claimed for lane in message.lanes}
                with guard:
                    assert not lanes & in_hand
                    in_hand.update(lanes)
                    log.extend((name, message) for message in claimed)
                with guard:
                    in_hand.difference_update(lanes)
                inbox.settle(
                    [
                        MessageOutcome(message.message_id, QueueEvent.ACCEPTED)
                        for message in claimed
                    ],
                    NOW,
                )
        except BaseException as error:  # noqa: BLE001  # reported by the test's thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"node-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []
    assert sorted(item.message_id for _, item in log) == ids
    for lane in {lane for _, item in log for lane in item.lanes}:
        order = [item.message_id for _, item in log if lane in item.lanes]
        assert order == sorted(order)
    with store.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM message_lane")).scalar_one() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_long_backlog_of_a_blocked_patient(store: Database, intake: Intake) -> None:
    """It does not hide the message of another patient."""
    inbox = Inbox(store, "node")
    intake.enqueue(arrival(patient="1"))
    (first,) = inbox.claim(NOW, 25)
    intake.enqueue(*(arrival(patient="1") for _ in range(LONG_BACKLOG)), arrival(patient="2"))
    (free,) = inbox.claim(NOW, 25)
    assert free.message_id == first.message_id + LONG_BACKLOG + 1
