"""Operators replay, cancel and count stored messages."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from bridge.queue import operations, queries
from bridge.queue.claims import MessageOutcome
from bridge.queue.errors import IllegalTransition, NoSuchRow, StateChanged
from bridge.queue.inbox import Inbox
from bridge.queue.operations import Routing
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, enqueue, ids_of, refused, settle_all, state_of
from tests.eventually import PATIENCE, eventually

_CANCEL = text("UPDATE message SET state = 'cancelled' WHERE id = :id")
_OTHER_PLANS = [text(f"SET LOCAL enable_{item} = off") for item in ("indexscan", "bitmapscan")]
_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


class TestOperating:
    """Actions of an operator."""

    def test_replay_keeps_the_place(self, intake: Intake, inbox: Inbox, store: Database) -> None:
        """A replayed message precedes newer unfinished ones, and never runs beside them."""
        parked, behind, last = enqueue(intake, "1", "1", "1")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(parked, QueueEvent.GIVEN_UP)], NOW)
        assert ids_of(inbox.claim(NOW, 10)) == [behind]
        assert operations.replay_message(store, parked) == 0
        assert inbox.claim(NOW, 10) == []
        (other,) = enqueue(intake, "2")
        assert ids_of(inbox.claim(NOW, 10)) == [other]
        settle_all(inbox, behind)
        (again,) = inbox.claim(NOW, 10)
        assert (again.message_id, again.attempts) == (parked, 1)
        settle_all(inbox, parked)
        assert ids_of(inbox.claim(NOW, 10)) == [last]

    def test_a_replayed_message_is_not_forgotten(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A replayed message waits for a later one in progress, and precedes it if postponed."""
        parked, behind = enqueue(intake, "1", "1")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(parked, QueueEvent.GIVEN_UP)], NOW)
        inbox.claim(NOW, 10)
        operations.replay_message(store, parked)
        assert inbox.claim(NOW, 10) == []
        inbox.settle([MessageOutcome(behind, QueueEvent.POSTPONED, retry_at=NOW + 50)], NOW)
        assert ids_of(inbox.claim(NOW + 50, 10)) == [parked]

    def test_replay_before_a_requeued_message(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A replayed message does not wait for a later one whose claim has expired."""
        parked, behind = enqueue(intake, "1", "1")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(parked, QueueEvent.GIVEN_UP)], NOW)
        assert ids_of(inbox.claim(NOW, 10)) == [behind]
        other = Inbox(store, "node-2")
        assert other.requeue_expired_claims(NOW + 10**6) == 1
        operations.replay_message(store, parked)
        assert ids_of(other.claim(NOW, 10)) == [parked]

    def test_replay_counts_overtaking_messages(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A replay reports how many later messages of the patient were applied."""
        earlier, parked, second, _ = enqueue(intake, "1", "1", "1", "2")
        inbox.claim(NOW, 10)
        settle_all(inbox, earlier)
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(parked, QueueEvent.GIVEN_UP)], NOW)
        inbox.claim(NOW, 10)
        settle_all(inbox, second)
        assert operations.replay_message(store, parked) == 1

    def test_a_second_replay_is_refused(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A replay of a parked message is refused if it was already replayed."""
        (parked,) = enqueue(intake, "1")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(parked, QueueEvent.GIVEN_UP)], NOW)
        operations.replay_message(store, parked, expected_state=QueueState.PARKED)
        inbox.claim(NOW, 10)
        settle_all(inbox, parked)
        with pytest.raises(StateChanged):
            operations.replay_message(store, parked, expected_state=QueueState.PARKED)
        assert inbox.claim(NOW, 10) == []

    @pytest.mark.postgres
    @pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
    def test_a_replay_waits_for_another_action(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A replay sees the state in which an action that has not ended yet leaves the message."""
        (parked,) = enqueue(intake, "1")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(parked, QueueEvent.GIVEN_UP)], NOW)

        def replay() -> None:
            operations.replay_message(store, parked, expected_state=QueueState.PARKED)

        def is_waiting() -> bool:
            with store.read() as connection:
                return bool(connection.execute(_WAITING).scalar_one())

        with ThreadPoolExecutor(1) as pool:
            with store.write() as connection:
                connection.execute(_CANCEL, {"id": parked})
                replaying = pool.submit(replay)
                eventually(lambda: replaying.done() or is_waiting())
            with pytest.raises(StateChanged):
                replaying.result(PATIENCE)
        assert state_of(store, parked) is QueueState.CANCELLED

    def test_replay_of_a_refused_message(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A refused message is applied with the present mapping and lanes."""
        (receipt,) = intake.enqueue(refused())
        (lane,) = arrival(patient="1").lanes
        routing = Routing("orders", "new", (lane,))
        enqueue(intake, "1")
        operations.replay_message(store, receipt.message_id, routing)
        (claimed,) = inbox.claim(NOW, 10)
        assert claimed.message_id == receipt.message_id
        assert (claimed.mapping_version, claimed.lanes) == ("new", (lane,))

    def test_replay_in_another_lane(self, intake: Intake, inbox: Inbox, store: Database) -> None:
        """A message that is replayed for another patient is in the lanes of that patient only."""
        parked, former, behind = enqueue(intake, "1", "1", "2")
        assert ids_of(inbox.claim(NOW, 1)) == [parked]
        inbox.settle([MessageOutcome(parked, QueueEvent.GIVEN_UP)], NOW)
        (lane,) = arrival(patient="2").lanes
        operations.replay_message(store, parked, Routing("orders", "new", (lane,)))
        claimed = inbox.claim(NOW, 10)
        assert [(message.message_id, message.lanes) for message in claimed] == [
            (parked, (lane,)),
            (former, arrival(patient="1").lanes),
        ]
        settle_all(inbox, parked)
        assert ids_of(inbox.claim(NOW, 10)) == [behind]

    def test_replay_of_a_message_that_was_blocked(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A message that was cancelled while it waited for another is free after its replay."""
        first, cancelled = enqueue(intake, "1", "1")
        assert ids_of(inbox.claim(NOW, 10)) == [first]
        operations.cancel_message(store, cancelled)
        settle_all(inbox, first)
        operations.replay_message(store, cancelled)
        assert ids_of(inbox.claim(NOW, 10)) == [cancelled]

    def test_replay_of_parked_messages(self, intake: Intake, inbox: Inbox, store: Database) -> None:
        """Messages that are replayed together keep their positions, and others stay parked."""
        first, second, other, newer = enqueue(intake, "1", ("9", "2"), "3", "1")
        inbox.claim(NOW, 10)
        for item in (other, second, first):
            inbox.settle([MessageOutcome(item, QueueEvent.GIVEN_UP, code="name")], NOW)
        lanes = [lane for patient in "12" for lane in arrival(patient=patient).lanes]
        with store.write() as connection:
            for plan in _OTHER_PLANS if store.dialect == "postgresql" else ():
                connection.execute(plan)
            assert operations.replay_parked(store, connection, "another", lanes) == []
            assert operations.replay_parked(store, connection, "name", lanes) == [first, second]
        assert ids_of(inbox.claim(NOW, 10)) == [first, second]
        settle_all(inbox, first, second)
        assert ids_of(inbox.claim(NOW, 10)) == [newer]
        assert state_of(store, other) is QueueState.PARKED

    def test_cancel(self, intake: Intake, inbox: Inbox, store: Database) -> None:
        """A cancelled message is never applied, and the next of its lane is free."""
        head, behind = enqueue(intake, "1", "1")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(head, QueueEvent.POSTPONED, retry_at=NOW + 10**6)], NOW)
        operations.cancel_message(store, head)
        assert state_of(store, head) is QueueState.CANCELLED
        assert ids_of(inbox.claim(NOW, 10)) == [behind]

    def test_cancel_before_the_first_claim(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A message that was never claimed leaves its lane as well."""
        head, behind = enqueue(intake, "1", "1")
        operations.cancel_message(store, head)
        assert ids_of(inbox.claim(NOW, 10)) == [behind]

    def test_illegal_transitions_are_refused(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """Replay of a queued message, cancel of a claimed one, and unknown ids are refused."""
        (message_id,) = enqueue(intake, "1")
        with pytest.raises(IllegalTransition):
            operations.replay_message(store, message_id)
        inbox.claim(NOW, 10)
        with pytest.raises(IllegalTransition):
            operations.cancel_message(store, message_id)
        with pytest.raises(NoSuchRow):
            operations.replay_message(store, 999)
        with pytest.raises(NoSuchRow):
            queries.message(store, 999)

    def test_counts(self, intake: Intake, inbox: Inbox, store: Database) -> None:
        """Open messages are counted by state with the oldest age."""
        assert queries.open_messages(store) == {}
        intake.enqueue(arrival(patient="1", received_at=NOW), refused())
        intake.enqueue(arrival(patient="1", received_at=NOW + 7))
        inbox.claim(NOW, 1)
        depths = queries.open_messages(store)
        assert {state: (d.count, d.oldest) for state, d in depths.items()} == {
            QueueState.CLAIMED: (1, NOW),
            QueueState.QUEUED: (1, NOW + 7),
        }
