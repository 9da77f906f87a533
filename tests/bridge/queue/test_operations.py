"""Operator actions on stored messages: replay, cancel, count."""

import pytest

from bridge.queue import operations, queries
from bridge.queue.claims import MessageOutcome
from bridge.queue.errors import IllegalTransition, NoSuchRow, StateChanged
from bridge.queue.inbox import Inbox
from bridge.queue.operations import Routing
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, done, ids_of, keep, refused, state_of


class TestOperating:
    """What a person may do."""

    def test_replay_keeps_the_place(self, intake: Intake, inbox: Inbox, store: Database) -> None:
        """A replayed message goes before what is unfinished and newer, never beside it."""
        parked, behind, last = keep(intake, "1", "1", "1")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(parked, QueueEvent.GIVEN_UP)], NOW)
        assert ids_of(inbox.claim(NOW, 10)) == [behind]
        assert operations.replay_message(store, parked) == 0
        assert inbox.claim(NOW, 10) == []
        done(inbox, behind)
        (again,) = inbox.claim(NOW, 10)
        assert (again.message_id, again.attempts) == (parked, 1)
        done(inbox, parked)
        assert ids_of(inbox.claim(NOW, 10)) == [last]

    def test_a_replayed_message_is_not_forgotten(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """It waits for what is in hand behind it, and moves up when that one is postponed."""
        parked, behind = keep(intake, "1", "1")
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
        """Whoever replays learns how many later messages of the patient were applied."""
        parked, second, _ = keep(intake, "1", "1", "2")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(parked, QueueEvent.GIVEN_UP)], NOW)
        inbox.claim(NOW, 10)
        done(inbox, second)
        assert operations.replay_message(store, parked) == 1

    def test_a_second_replay_is_refused(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """What was chosen because it was parked is left alone once somebody has replayed it."""
        (parked,) = keep(intake, "1")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(parked, QueueEvent.GIVEN_UP)], NOW)
        operations.replay_message(store, parked, expected_state=QueueState.PARKED)
        inbox.claim(NOW, 10)
        done(inbox, parked)
        with pytest.raises(StateChanged):
            operations.replay_message(store, parked, expected_state=QueueState.PARKED)
        assert inbox.claim(NOW, 10) == []

    def test_replay_of_a_refused_message(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """With the mapping and lanes that fit now, a refused message is applied after all."""
        (receipt,) = intake.keep(refused())
        (lane,) = arrival(patient="1").lanes
        routing = Routing("orders", "new", (lane,))
        keep(intake, "1")
        operations.replay_message(store, receipt.message_id, routing)
        (claimed,) = inbox.claim(NOW, 10)
        assert claimed.message_id == receipt.message_id
        assert (claimed.mapping_version, claimed.lanes) == ("new", (lane,))

    def test_cancel(self, intake: Intake, inbox: Inbox, store: Database) -> None:
        """A cancelled message is never applied, and what stood behind it moves up."""
        head, behind = keep(intake, "1", "1")
        inbox.claim(NOW, 10)
        inbox.settle([MessageOutcome(head, QueueEvent.POSTPONED, retry_at=NOW + 10**6)], NOW)
        operations.cancel_message(store, head)
        assert state_of(store, head) is QueueState.CANCELLED
        assert ids_of(inbox.claim(NOW, 10)) == [behind]

    def test_illegal_transitions_are_refused(
        self, intake: Intake, inbox: Inbox, store: Database
    ) -> None:
        """Nobody replays what is queued, cancels what is in hand, or names what is not there."""
        (message_id,) = keep(intake, "1")
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
        """Open work is counted by state with the age of the oldest; totals count everything."""
        assert queries.open_messages(store) == {}
        intake.keep(arrival(patient="1", received_at=NOW), refused())
        intake.keep(arrival(patient="1", received_at=NOW + 7))
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
