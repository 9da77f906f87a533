"""
Whatever is done in whatever order, lanes keep their promises.

A model of the inbox in plain Python, and the real one on SQLite, driven by Hypothesis.
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
from bridge.queue.claims import Outcome
from bridge.queue.inbox import Inbox
from bridge.queue.ledger.deduplication import HOT_PATHS
from bridge.queue.ledger.writer import admit
from bridge.queue.states import Event, State
from bridge.store.database import Database
from tests.bridge.queue.people import arrival
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
    """What the model knows of a message."""

    patients: tuple[str, ...]
    state: State = State.QUEUED
    due: int = 0
    owner: str = ""
    lease_until: int = 0


class Lanes(RuleBasedStateMachine):
    """Two nodes, two patients, and everything that can happen to messages."""

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
            if item.state is State.QUEUED
            and item.due <= self.now
            and not any(
                set(other.patients) & set(item.patients)
                and (other.state is State.CLAIMED or (before < number and self._stands(other)))
                for before, other in self.items.items()
                if before != number
            )
        ]

    def _stands(self, item: Item) -> bool:
        standing = {State.QUEUED, State.CLAIMED} | ({State.PARKED} if self.parked_block else set())
        return item.state in standing

    def _held(self, name: str) -> list[int]:
        return [
            number
            for number, item in self.items.items()
            if item.state is State.CLAIMED and item.owner == name
        ]

    @rule(patients=st.lists(LANES, min_size=1, max_size=5))
    def arrive(self, patients: list[tuple[str, ...]]) -> None:
        with self.database.write() as connection:
            arrivals = [arrival(patient=each) for each in patients]
            cursor = self.database.driver(connection).cursor()
            receipts = admit(HOT_PATHS[self.database.dialect], cursor, arrivals)
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
            item.state, item.owner, item.lease_until = State.CLAIMED, name, self.now + LEASE

    @precondition(lambda self: any(i.state is State.CLAIMED for i in self.items.values()))
    @rule(
        data=st.data(),
        event=st.sampled_from([Event.ACCEPTED, Event.POSTPONED, Event.GIVEN_UP, Event.IGNORED]),
        delay=st.integers(0, 5),
    )
    def settle(self, data: st.DataObject, event: Event, delay: int) -> None:
        name = self.items[data.draw(st.sampled_from(self._held("one") + self._held("two")))].owner
        numbers = data.draw(st.lists(st.sampled_from(self._held(name)), min_size=1, unique=True))
        retry_at = self.now + delay if event is Event.POSTPONED else None
        outcomes = [Outcome(number, event, retry_at=retry_at) for number in numbers]
        assert self.nodes[name].settle(outcomes, self.now).held == set(numbers)
        states = {
            Event.ACCEPTED: State.DONE,
            Event.POSTPONED: State.QUEUED,
            Event.GIVEN_UP: State.PARKED,
            Event.IGNORED: State.IGNORED,
        }
        for number in numbers:
            self.items[number].state = states[event]
            self.items[number].due = retry_at or 0

    @rule(time=st.integers(1, 15))
    def wait(self, time: int) -> None:
        self.now += time

    @rule(name=st.sampled_from(["one", "two"]), starting=st.booleans())
    def reclaim(self, name: str, *, starting: bool) -> None:
        dead = [
            item
            for item in self.items.values()
            if item.state is State.CLAIMED
            and (item.lease_until < self.now or (starting and item.owner == name))
        ]
        assert self.nodes[name].reclaim(self.now, starting=starting) == len(dead)
        for item in dead:
            item.state, item.due = State.QUEUED, 0

    @precondition(lambda self: any(i.state is not State.CLAIMED for i in self.items.values()))
    @rule(data=st.data())
    def operate(self, data: st.DataObject) -> None:
        idle = [n for n, item in self.items.items() if item.state is not State.CLAIMED]
        number = data.draw(st.sampled_from(idle))
        item = self.items[number]
        if item.state is State.QUEUED or (item.state is State.PARKED and data.draw(st.booleans())):
            operate.cancel_message(self.database, number)
            item.state = State.CANCELLED
        else:
            operate.replay_message(self.database, number)
            item.state, item.due = State.QUEUED, 0

    @precondition(lambda self: any(i.state is State.PARKED for i in self.items.values()))
    @rule()
    def replay_the_oldest_parked(self) -> None:
        number, item = next((n, i) for n, i in self.items.items() if i.state is State.PARKED)
        operate.replay_message(self.database, number)
        item.state, item.due = State.QUEUED, 0

    @invariant()
    def never_two_of_a_lane(self) -> None:
        if not hasattr(self, "items"):
            return
        in_hand = [i.patients for i in self.items.values() if i.state is State.CLAIMED]
        lanes = list(itertools.chain.from_iterable(in_hand))
        assert len(lanes) == len(set(lanes))

    @invariant()
    def lanes_hold_what_stands_in_them(self) -> None:
        if not hasattr(self, "items"):
            return
        with self.database.read() as connection:
            rows = connection.execute(text("SELECT message_id FROM message_lane")).scalars()
            places = Counter(rows)
            enrolled = connection.execute(
                text("SELECT message_id FROM message_enrolled")
            ).scalar_one()
        for number, item in self.items.items():
            whole = len(item.patients) if self._stands(item) else 0
            # Newer ones get their places when somebody looks for work, or when they are replayed.
            assert places[number] in ({whole} if number <= enrolled else {0, whole})
        assert places.keys() <= self.items.keys()


Lanes.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLanes = Lanes.TestCase
