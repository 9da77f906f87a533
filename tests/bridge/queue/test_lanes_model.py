"""
Lanes keep their guarantees in any order of operations.

Hypothesis drives a model in plain Python, and the real inbox or outbox on SQLite.
"""

import itertools
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import Connection, TextClause, text
from typing_extensions import override

from bridge.queue import log_tables, operations
from bridge.queue.claims import MessageOutcome
from bridge.queue.deliveries import DeliveryOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.outbox import Outbox
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from tests.bridge.queue.samples import arrival, ids_of, release
from tests.databases import fresh_file

PATIENTS = st.sampled_from("AB")
LANES = st.one_of(
    st.just(()),
    PATIENTS.map(lambda patient: (patient,)),
    st.sampled_from([("A", "B"), ("B", "A")]),
)
NODES = ("one", "two")
LEASE = 10


@dataclass
class Item:
    patients: tuple[str, ...]
    state: QueueState = QueueState.QUEUED
    due: int = 0
    owner: str = ""
    lease_until: int = 0


class Lanes(RuleBasedStateMachine):
    in_lanes: frozenset[QueueState]
    """The states in which a row is in its lanes."""
    positions: TextClause
    """Reads the row of each position."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.database = Database(fresh_file(Path(self.folder.name) / "lanes.db"))
        self.items: dict[int, Item] = {}
        self.now = 1000
        self._open()

    @override
    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.database.dispose()
            self.folder.cleanup()

    def _open(self) -> None:
        raise NotImplementedError

    def _claim(self, name: str, limit: int) -> list[int]:
        raise NotImplementedError

    def _settle(
        self, name: str, numbers: list[int], event: QueueEvent, retry_at: int | None
    ) -> set[int]:
        raise NotImplementedError

    def _requeue(self, name: str, *, include_own: bool) -> int:
        raise NotImplementedError

    def _cancel(self, number: int) -> None:
        raise NotImplementedError

    def _replay(self, number: int) -> None:
        raise NotImplementedError

    def _entered_up_to(self, connection: Connection) -> int:
        raise NotImplementedError

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
        return item.state in self.in_lanes

    def _held(self, name: str) -> list[int]:
        return [
            number
            for number, item in self.items.items()
            if item.state is QueueState.CLAIMED and item.owner == name
        ]

    @rule(name=st.sampled_from(NODES), limit=st.integers(1, 4))
    def claim(self, name: str, limit: int) -> None:
        expected = self._claimable()
        claimed = self._claim(name, limit)
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
        assert self._settle(name, numbers, event, retry_at) == set(numbers)
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

    @rule(name=st.sampled_from(NODES), include_own=st.booleans())
    def reclaim(self, name: str, *, include_own: bool) -> None:
        dead = [
            item
            for item in self.items.values()
            if item.state is QueueState.CLAIMED
            and (item.lease_until < self.now or (include_own and item.owner == name))
        ]
        assert self._requeue(name, include_own=include_own) == len(dead)
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
            self._cancel(number)
            item.state = QueueState.CANCELLED
        else:
            self._replay(number)
            item.state, item.due = QueueState.QUEUED, 0

    @precondition(lambda self: any(i.state is QueueState.PARKED for i in self.items.values()))
    @rule()
    def replay_the_oldest_parked(self) -> None:
        number, item = next((n, i) for n, i in self.items.items() if i.state is QueueState.PARKED)
        self._replay(number)
        item.state, item.due = QueueState.QUEUED, 0

    @invariant()
    def never_two_of_a_lane(self) -> None:
        if not hasattr(self, "items"):
            return
        in_hand = [i.patients for i in self.items.values() if i.state is QueueState.CLAIMED]
        lanes = list(itertools.chain.from_iterable(in_hand))
        assert len(lanes) == len(set(lanes))

    @invariant()
    def lanes_match_the_rows(self) -> None:
        if not hasattr(self, "items"):
            return
        with self.database.read() as connection:
            places = Counter(connection.execute(self.positions).scalars())
            entered_up_to = self._entered_up_to(connection)
        for number, item in self.items.items():
            expected = len(item.patients) if self._is_in_lane(item) else 0
            assert places[number] in ({expected} if number <= entered_up_to else {0, expected})
        assert places.keys() <= self.items.keys()


class InboxLanes(Lanes):
    """Messages, of which a merge is in two lanes. A parked message does not block."""

    in_lanes = frozenset({QueueState.QUEUED, QueueState.CLAIMED})
    positions = text("SELECT message_id FROM message_lane")

    @override
    def _open(self) -> None:
        self.nodes = {name: Inbox(self.database, name, lease=LEASE) for name in NODES}

    @rule(patients=st.lists(LANES, min_size=1, max_size=5))
    def arrive(self, patients: list[tuple[str, ...]]) -> None:
        receipts = log_tables.store(
            self.database, [arrival(patient=patient) for patient in patients]
        )
        for receipt, patient in zip(receipts, patients, strict=True):
            self.items[receipt.message_id] = Item(patient)

    @override
    def _claim(self, name: str, limit: int) -> list[int]:
        return ids_of(self.nodes[name].claim(self.now, limit))

    @override
    def _settle(
        self, name: str, numbers: list[int], event: QueueEvent, retry_at: int | None
    ) -> set[int]:
        outcomes = [MessageOutcome(number, event, retry_at=retry_at) for number in numbers]
        return self.nodes[name].settle(outcomes, self.now).owned

    @override
    def _requeue(self, name: str, *, include_own: bool) -> int:
        return self.nodes[name].requeue_expired_claims(self.now, include_own=include_own)

    @override
    def _cancel(self, number: int) -> None:
        operations.cancel_message(self.database, number)

    @override
    def _replay(self, number: int) -> None:
        operations.replay_message(self.database, number)

    @override
    def _entered_up_to(self, connection: Connection) -> int:
        return int(connection.execute(text("SELECT message_id FROM lane_watermark")).scalar_one())


class OutboxLanes(Lanes):
    in_lanes = InboxLanes.in_lanes | {QueueState.PARKED}
    positions = text("SELECT delivery_id FROM delivery_lane")

    @override
    def _open(self) -> None:
        self.nodes = {name: Outbox(self.database, name, lease=LEASE) for name in NODES}

    @rule(reports=st.lists(PATIENTS, min_size=1, max_size=5))
    def queue(self, reports: list[str]) -> None:
        with self.database.write() as connection:
            requests = [release(report=report) for report in reports]
            self.nodes["one"].enqueue(connection, requests, self.now)
            ids = connection.execute(text("SELECT id FROM delivery ORDER BY id")).scalars().all()
        for number, report in zip(ids[-len(reports) :], reports, strict=True):
            self.items[number] = Item((report,))

    @override
    def _claim(self, name: str, limit: int) -> list[int]:
        claimed = self.nodes[name].claim(release().destination, self.now, limit)
        return [message.delivery_id for message in claimed]

    @override
    def _settle(
        self, name: str, numbers: list[int], event: QueueEvent, retry_at: int | None
    ) -> set[int]:
        outcomes = [DeliveryOutcome(number, event, retry_at=retry_at) for number in numbers]
        return self.nodes[name].settle(outcomes, self.now)

    @override
    def _requeue(self, name: str, *, include_own: bool) -> int:
        return self.nodes[name].requeue_expired_claims(self.now, include_own=include_own)

    @override
    def _cancel(self, number: int) -> None:
        operations.skip_delivery(self.database, number)

    @override
    def _replay(self, number: int) -> None:
        operations.retry_delivery(self.database, number)

    @override
    def _entered_up_to(self, connection: Connection) -> int:
        """Return the last id: a delivery enters its lane when it is queued."""
        return max(self.items, default=0)


InboxLanes.TestCase.settings = OutboxLanes.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestInboxLanes = InboxLanes.TestCase
TestOutboxLanes = OutboxLanes.TestCase
