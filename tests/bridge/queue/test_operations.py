"""Operators replay, cancel and count stored messages."""

import pytest

from bridge.queue import operations, queries
from bridge.queue.claims import MessageOutcome
from bridge.queue.errors import IllegalTransition, NoSuchRow, StateChanged
from bridge.queue.inbox import Inbox
from bridge.queue.operations import Routing
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, enqueue, ids_of, refused, settle_all, state_of


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

    def test_replay_counts_overtaking_messages(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """A replay reports how many later messages of the patient were applied."""
        parked, second, _ = enqueue(intake, "1", "1", "2")
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

    def test_cancel(self, intake: Intake, inbox: Inbox, store: Database) -> None:
        """A cancelled message is never applied, and the next of its lane is free."""
        head, behind = enqueue(intake, "1", "1")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(head, QueueEvent.POSTPONED, retry_at=NOW + 10**6)], NOW)
        operations.cancel_message(store, head)
        assert state_of(store, head) is QueueState.CANCELLED
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
        """Open messages are counted by state with the oldest age, totals over all messages."""
        assert queries.open_messages(store) == {}
        intake.enqueue(arrival(patient="1", received_at=NOW), refused())
        intake.enqueue(arrival(patient="1", received_at=NOW + 7))
        inbox.claim(NOW, 1)
        depths = queries.open_messages(store)
        assert {state: (d.count, d.oldest) for state, d in depths.items()} == {
            QueueState.CLAIMED: (1, NOW),
            QueueState.QUEUED: (1, NOW + 7),
        }
        assert queries.totals(store)["message"] == {
            QueueState.CLAIMED: 1,
            QueueState.QUEUED: 1,
            QueueState.REFUSED: 1,
        }
