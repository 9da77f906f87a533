"""
Lanes keep their guarantees in any order of operations.

Hypothesis drives a model of the inbox in plain Python and the real one on SQLite.
"""

import itertools
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import text
from typing_extensions import override

from bridge.queue import operations as operate
from bridge.queue.claims import MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.ledger.deduplication import LEDGER_DIALECTS
from bridge.queue.ledger.writer import admit
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from tests.bridge.queue.samples import arrival
from tests.databases import fresh_file

PATIENTS = st.sampled_from("AB")
LANES = st.one_of(
    st.just(()),
    PATIENTS.map(lambda patient: (patient,)),
    st.sampled_from([("A", "B"), ("B", "A")]),
)
LEASE = 10


@dataclass
class Item:
    """The state of a message in the model."""

    patients: tuple[str, ...]
    state: QueueState = QueueState.QUEUED
    due: int = 0
    owner: str = ""
    lease_until: int = 0


class Lanes(RuleBasedStateMachine):
    """Two nodes, two patients, and each operation on messages."""

    @initialize(parked_block=st.booleans())
    def begin(self, *, parked_block: bool) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.database = Database(fresh_file(Path(self.folder.name) / "lanes.db"))
        self.parked_block = parked_block
        self.nodes = {
            name: Inbox(self.database, name, lease=LEASE, parked_block=parked_block)
            for name in ("one", "two")
        }
        self.items: dict[int, Item] = {}
        self.now = 1000

    @override
    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.database.dispose()
            self.folder.cleanup()

    def _claimable(self) -> list[int]:
        return [
            number
            for number, item in sorted(self.items.items())
            if item.state is QueueState.QUEUED
            and item.due <= self.now
            and not any(
                set(other.patients) & set(item.patients)
                and (
                    other.state is QueueState.CLAIMED
                    or (before < number and self._is_in_lane(other))
                )
                for before, other in self.items.items()
                if before != number
            )
        ]

    def _is_in_lane(self, item: Item) -> bool:
        standing = {QueueState.QUEUED, QueueState.CLAIMED} | (
            {QueueState.PARKED} if self.parked_block else set()
        )
        return item.state in standing

    def _held(self, name: str) -> list[int]:
        return [
            number
            for number, item in self.items.items()
            if item.state is QueueState.CLAIMED and item.owner == name
        ]

    @rule(patients=st.lists(LANES, min_size=1, max_size=5))
    def arrive(self, patients: list[tuple[str, ...]]) -> None:
        with self.database.write() as connection:
            arrivals = [arrival(patient=each) for each in patients]
            cursor = self.database.driver_connection(connection).cursor()
            receipts = admit(LEDGER_DIALECTS[self.database.dialect], cursor, arrivals)
        for receipt, each in zip(receipts, patients, strict=True):
            self.items[receipt.message_id] = Item(each)

    @rule(name=st.sampled_from(["one", "two"]), limit=st.integers(1, 4))
    def claim(self, name: str, limit: int) -> None:
        expected = self._claimable()
        claimed = [each.message_id for each in self.nodes[name].claim(self.now, limit)]
        assert set(claimed) <= set(expected)
        assert len(claimed) == min(limit, len(expected))
        for number in claimed:
            item = self.items[number]
            item.state, item.owner, item.lease_until = QueueState.CLAIMED, name, self.now + LEASE

    @precondition(lambda self: any(i.state is QueueState.CLAIMED for i in self.items.values()))
    @rule(
        data=st.data(),
        event=st.sampled_from(
            [QueueEvent.ACCEPTED, QueueEvent.POSTPONED, QueueEvent.GIVEN_UP, QueueEvent.IGNORED]
        ),
        delay=st.integers(0, 5),
    )
    def settle(self, data: st.DataObject, event: QueueEvent, delay: int) -> None:
        name = self.items[data.draw(st.sampled_from(self._held("one") + self._held("two")))].owner
        numbers = data.draw(st.lists(st.sampled_from(self._held(name)), min_size=1, unique=True))
        retry_at = self.now + delay if event is QueueEvent.POSTPONED else None
        outcomes = [MessageOutcome(number, event, retry_at=retry_at) for number in numbers]
        assert self.nodes[name].settle(outcomes, self.now).owned == set(numbers)
        states = {
            QueueEvent.ACCEPTED: QueueState.DONE,
            QueueEvent.POSTPONED: QueueState.QUEUED,
            QueueEvent.GIVEN_UP: QueueState.PARKED,
            QueueEvent.IGNORED: QueueState.IGNORED,
        }
        for number in numbers:
            self.items[number].state = states[event]
            self.items[number].due = retry_at or 0

    @rule(time=st.integers(1, 15))
    def wait(self, time: int) -> None:
        self.now += time

    @rule(name=st.sampled_from(["one", "two"]), include_own=st.booleans())
    def reclaim(self, name: str, *, include_own: bool) -> None:
        dead = [
            item
            for item in self.items.values()
            if item.state is QueueState.CLAIMED
            and (item.lease_until < self.now or (include_own and item.owner == name))
        ]
        assert self.nodes[name].requeue_expired_claims(self.now, include_own=include_own) == len(
            dead
        )
        for item in dead:
            item.state, item.due = QueueState.QUEUED, 0

    @precondition(lambda self: any(i.state is not QueueState.CLAIMED for i in self.items.values()))
    @rule(data=st.data())
    def operate(self, data: st.DataObject) -> None:
        idle = [n for n, item in self.items.items() if item.state is not QueueState.CLAIMED]
        number = data.draw(st.sampled_from(idle))
        item = self.items[number]
        if item.state is QueueState.QUEUED or (
            item.state is QueueState.PARKED and data.draw(st.booleans())
        ):
            operate.cancel_message(self.database, number)
            item.state = QueueState.CANCELLED
        else:
            operate.replay_message(self.database, number)
            item.state, item.due = QueueState.QUEUED, 0

    @precondition(lambda self: any(i.state is QueueState.PARKED for i in self.items.values()))
    @rule()
    def replay_the_oldest_parked(self) -> None:
        number, item = next((n, i) for n, i in self.items.items() if i.state is QueueState.PARKED)
        operate.replay_message(self.database, number)
        item.state, item.due = QueueState.QUEUED, 0

    @invariant()
    def never_two_of_a_lane(self) -> None:
        if not hasattr(self, "items"):
            return
        in_hand = [i.patients for i in self.items.values() if i.state is QueueState.CLAIMED]
        lanes = list(itertools.chain.from_iterable(in_hand))
        assert len(lanes) == len(set(lanes))

    @invariant()
    def lanes_match_the_messages(self) -> None:
        if not hasattr(self, "items"):
            return
        with self.database.read() as connection:
            rows = connection.execute(text("SELECT message_id FROM message_lane")).scalars()
            places = Counter(rows)
            enrolled = connection.execute(
                text("SELECT message_id FROM message_enrolled")
            ).scalar_one()
        for number, item in self.items.items():
            expected = len(item.patients) if self._is_in_lane(item) else 0
            # Newer messages get their places at a claim or a replay.
            assert places[number] in ({expected} if number <= enrolled else {0, expected})
        assert places.keys() <= self.items.keys()


Lanes.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLanes = Lanes.TestCase
