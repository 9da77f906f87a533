"""
The story of intake: senders, several nodes that store and apply, and a report service.

Senders repeat a message to any node until it is acknowledged. The nodes run `LogTables`,
`Inbox` and `Worker`. The report service keeps the last step of each order. An operator replays
parked messages.
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from bridge.engine_client.client import DEADLINE, no_answer, unreachable
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.executors import Threads
from bridge.intake.process.job_context import failure_outcome, interrupted_outcome
from bridge.queue.arrivals import Arrival, Receipt
from bridge.queue.claims import ClaimedMessage, MessageOutcome, no_heartbeat_session
from bridge.queue.deduplication import StoredMessage
from bridge.queue.errors import LeaseEnded, QueueError
from bridge.queue.inbox import Inbox
from bridge.queue.log_tables import (
    COLUMNS,
    SQLITE_BODY,
    SQLITE_KNOWN,
    SQLITE_LAST_ID,
    SQLITE_MESSAGE,
    SQLITE_RETRANSMITTED,
    SQLITE_STORED_ACKS,
    LogTables,
    MessageEdit,
    Row,
)
from bridge.queue.operations import replay_message
from bridge.queue.statements import INBOX, SET_ENTERED_UP_TO
from bridge.queue.states import QueueEvent, RetryPolicy
from bridge.queue.worker import Worker
from bridge.store.errors import Conflict, Lost, StoreError, StoreUnavailable
from bridge.store.postgresql.dedicated_connections import GRACE_SECONDS
from tests.bridge.queue.samples import arrival
from tests.history import Kind
from tests.simulation.invariants import Claims
from tests.simulation.lock_server import LockServer
from tests.simulation.membership import Membership
from tests.simulation.node import Faults, Node
from tests.simulation.plans import Item, Plan
from tests.simulation.storage import Storage
from tests.simulation.world import World

LEASE_MS, CLUSTER_LEASE_MS = 15_000, 60_000
"""In a cluster a session ends before the lease of a frozen node."""
PATIENTS = ("A", "B", "C")
ACK_SECONDS = 10.0
_CALL_SECONDS = (0.0, 0.0, 0.0, 0.0, 12.0)
MERGE, POISON = 0, 1
"""Variants of an item: a merge of two patients; a message that the service refuses at first."""


@dataclass(slots=True)
class Message:
    control_id: str
    order: str
    step: int
    patients: tuple[str, ...]
    is_poison: bool = False

    @property
    def content(self) -> str:
        return f"{self.control_id} {self.order} {self.step}"


def read_content(payload: bytes) -> tuple[str, str, int]:
    control_id, order, step = payload.decode().rpartition("|")[2].split()
    return control_id, order, int(step)


@dataclass(slots=True)
class ReportService:
    """
    A service that keeps the last step of each order. It outlives all faults.

    A call for a claim that a restore of the database has lost is not executed: the product does
    not cover it. In a cluster a call that is under way during a failover, or begins before its
    node can notice the failover, is executed at any time before its client gives up.
    """

    world: World
    faults: Faults
    loss: float
    is_cluster: bool
    refuses: set[str] = field(default_factory=set)
    """Orders that the service refuses until an operator has corrected their cause."""
    steps: dict[str, int] = field(default_factory=dict)

    async def call(self, order: str, step: int, claimed_at: float) -> None:
        """Store a step of an order, for a claim of this time in seconds. Raises EngineFailure."""
        loop, random = self.world.peers, self.world.random
        path = "/api/report/create"
        seconds, began = random.choice(_CALL_SECONDS) + loop.delay(), self.world.now
        await asyncio.sleep(seconds)
        if self.world.now > began + seconds + 0.001:
            raise no_answer(path)  # not modelled: a call that a frozen caller had sent
        if self.world.now < self.faults.peer_down_until:
            raise unreachable(path)
        if self.faults.failed_over_at > (began - GRACE_SECONDS if self.is_cluster else claimed_at):
            if self.is_cluster:
                late = random.uniform(0.0, began + DEADLINE - self.world.now)
                loop.call_later(late, self._store, order, step)
            raise no_answer(path)
        if order in self.refuses:
            raise EngineFailure(path, FailureKind.PERMANENT, "refused", 422)
        self._store(order, step)
        await asyncio.sleep(loop.delay())
        if random.random() < self.loss:
            raise no_answer(path)

    def _store(self, order: str, step: int) -> None:
        if order not in self.refuses:
            self.steps[order] = step
            self.world.note(f"service: {order} step {step}")


class QueueLog(LogTables):
    """The log in the tables of the queue, as on PostgreSQL, with the statements of SQLite."""

    @override
    def known(self, cursor: Any, identities: list[int]) -> list[StoredMessage]:
        cursor.execute(SQLITE_KNOWN.sqlite, {"ids": json.dumps(identities)})
        return [StoredMessage(*row) for row in cursor.fetchall()]

    @override
    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        cursor.execute(SQLITE_LAST_ID)
        first = cursor.fetchone()[0] + 1
        ids = range(first, first + len(rows))
        width = len(COLUMNS)
        for number, row in zip(ids, rows, strict=True):
            cursor.execute(SQLITE_MESSAGE, (number, *row[:width]))
            cursor.execute(SQLITE_BODY, (number, *row[width:]))
        cursor.execute(INBOX.enter_range.sqlite, {"entered": first - 1, "upto": ids[-1]})
        cursor.execute(SET_ENTERED_UP_TO.sqlite, {"upto": ids[-1]})
        return ids

    @override
    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        cursor.executemany(SQLITE_RETRANSMITTED, [(number,) for number in ids])
        cursor.execute(SQLITE_STORED_ACKS.sqlite, {"ids": json.dumps(ids)})
        return {number: (bytes(ack), code) for number, ack, code in cursor.fetchall()}

    @override
    def add_edit(self, cursor: Any, message_id: int, edit: MessageEdit) -> None:
        raise AssertionError("no operator edits a message in the simulation")

    @override
    def serialize(self, cursor: Any, key: int) -> None:
        raise AssertionError("no modality sends in the simulation")

    @override
    def announce(self, cursor: Any) -> None:
        raise AssertionError("no modality sends in the simulation")

    @override
    def lanes_of(self, cursor: Any, message_id: int) -> tuple[int, ...]:
        raise AssertionError("no modality sends in the simulation")


class IntakeParts:
    def __init__(
        self, node: Node, service: ReportService, claims: Claims, server: LockServer | None
    ) -> None:
        self._node, self._service, self._claims = node, service, claims
        self._log = QueueLog(node.database)
        self._waiting: list[tuple[Arrival, Callable[[Receipt | BaseException], object]]] = []
        self._is_writing = False
        self._member = None if server is None else Membership(node, server)
        self._lease_ms = LEASE_MS if server is None else CLUSTER_LEASE_MS
        self._inbox = Inbox(
            node.database,
            node.name,
            lease=self._lease_ms,
            timer=node.timer,
            session=no_heartbeat_session if self._member is None else self._member.session,
        )
        self.worker = Worker(
            self._inbox,
            self._apply,
            clock=node.clock,
            batch=4,
            parallel=2,
            policy=RetryPolicy(first=1.0, maximum=4.0),
            random=node.random,
            poll=6.0,
        )
        node.every(LEASE_MS / 3000, self.worker.keep_leases)
        assert node.loop is not None
        node.loop.create_task(self._start())

    async def _start(self) -> None:
        if self._member is not None:
            await self._member.start()
        await self._node.persist(self.worker.start)

    def receive(self, message: Message, reply: Callable[[str], None]) -> None:
        made = arrival(
            message.control_id,
            patient=message.patients,
            content=message.content,
            received_at=self._node.clock(),
        )

        def on_stored(answer: Receipt | BaseException) -> None:
            if isinstance(answer, BaseException):
                reply("AE")
                return
            self._inbox.acknowledged([answer.message_id])
            reply(answer.ack_code)

        self._waiting.append((made, on_stored))
        if not self._is_writing:
            asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        self._is_writing = True
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            answers = await Threads.MESSAGE_LOG.run(
                self._store, [arrival for arrival, _ in waiting]
            )
            for (_, on_stored), answer in zip(waiting, answers, strict=True):
                on_stored(answer)
            self.worker.notify()
        self._is_writing = False

    def _store(self, arrivals: Sequence[Arrival]) -> Sequence[Receipt | BaseException]:
        for _ in range(3):
            with suppress(Conflict, Lost):
                try:
                    return self._log.store(arrivals)
                except (Conflict, Lost):
                    raise
                except StoreError as error:
                    return [error] * len(arrivals)
        return [StoreUnavailable("conflict")] * len(arrivals)

    async def _apply(
        self, claimed: Sequence[ClaimedMessage]
    ) -> AsyncGenerator[Sequence[MessageOutcome]]:
        yield await asyncio.gather(*map(self._apply_one, claimed))

    async def _apply_one(self, claimed: ClaimedMessage) -> MessageOutcome:
        _, order, step = read_content(claimed.payload)
        try:
            claimed.lease.require()
            self._claims.check_call(self._node.name, claimed.message_id)
            claimed_at = claimed.lease.ends_at - self._lease_ms / 1000
            await self._service.call(order, step, claimed_at)
        except LeaseEnded:
            return interrupted_outcome(claimed)
        except EngineFailure as failure:
            return failure_outcome(claimed, failure, self._node.clock())
        return MessageOutcome(claimed.message_id, QueueEvent.ACCEPTED)


class IntakeStory:
    is_cluster = False

    def __init__(self, plan: Plan, world: World, storage: Storage) -> None:
        self._plan, self._world, self._storage = plan, world, storage
        self._server = LockServer(world, storage) if self.is_cluster else None
        self._claims = Claims(world, storage, "message", self._server)
        self._nodes = [
            Node(world, storage, number, self._begin, self._server) for number in range(plan.nodes)
        ]
        self._faults = Faults(world, storage, self._nodes, self._lose, self._server)
        self._service = ReportService(world, self._faults, plan.loss, self.is_cluster)
        self._open = 0
        self._lost: set[tuple[str, int]] = set()
        for node in self._nodes:
            node.on_call = self._claims.check
        self._faults.plan(plan)
        for actor in range(3):
            work = self._messages(actor, [e for e in plan.items if e.actor == actor])
            self._open += 1
            world.peers.create_task(self._send(actor, work))
        world.peers.create_task(self._operate())

    def _begin(self, node: Node) -> None:
        node.parts = IntakeParts(node, self._service, self._claims, self._server)

    def _messages(self, actor: int, items: Sequence[Item]) -> list[Message]:
        steps: dict[str, int] = {}
        made = []
        for number, item in enumerate(items):
            patient = PATIENTS[item.subject]
            name = f"S{actor}M{number}"
            order = f"S{actor}-{patient}"
            patients: tuple[str, ...] = (patient,)
            if item.variant == MERGE:
                order, patients = f"merge-{name}", (patient, PATIENTS[(item.subject + 1) % 3])
            elif item.variant == POISON:
                order = f"poison-{name}"
                self._service.refuses.add(order)
            steps[order] = steps.get(order, 0) + 1
            made.append(Message(name, order, steps[order], patients))
        return made

    async def _send(self, actor: int, messages: Sequence[Message]) -> None:
        world = self._world
        turn = actor
        for message in messages:
            world.record(Kind.SENT, message.order, message.step)
            while await self._exchange(message, self._nodes[turn % len(self._nodes)]) != "AA":
                turn += 1
                await asyncio.sleep(world.random.uniform(0.1, 2.0))
            world.record(Kind.ACKNOWLEDGED, message.order, message.step)
            if world.random.random() < self._plan.loss:  # the sender did not read it
                await self._exchange(message, self._nodes[turn % len(self._nodes)])
        self._open -= 1

    async def _exchange(self, message: Message, node: Node) -> str:
        world, peers = self._world, self._world.peers
        answer: asyncio.Future[str] = peers.create_future()

        def reply(code: str) -> None:
            if world.random.random() >= self._plan.loss:
                peers.call_later(peers.delay(), receive_reply, code)

        def receive_reply(code: str) -> None:
            if not answer.done():
                answer.set_result(code)

        def arrive() -> None:
            if node.parts is not None:
                node.parts.receive(message, reply)

        if node.loop is not None and world.random.random() >= self._plan.loss:
            node.loop.call_later(peers.delay(), arrive)
        with suppress(TimeoutError):
            async with asyncio.timeout(ACK_SECONDS):
                return await answer
        return ""

    async def _operate(self) -> None:
        """Replay parked messages, once their cause has been corrected."""
        while True:
            await asyncio.sleep(7.0)
            rows = self._storage.rows("SELECT id FROM message WHERE state = 'parked'")
            if rows:
                self._service.refuses.clear()
            for (message_id,) in rows:
                with suppress(StoreError, QueueError):
                    replay_message(self._storage.databases[-1], message_id)

    def _lose(self, earlier: sqlite3.Connection) -> None:
        """Record the messages that an asynchronous failover loses, which is the documented loss."""
        stored = "SELECT payload FROM message_body"
        left = {payload for (payload,) in earlier.execute(stored)}
        for (payload,) in self._storage.rows(stored):
            if payload not in left:
                _, order, step = read_content(payload)
                self._lost.add((order, step))
        self._claims.forget(earlier)

    def run(self) -> None:
        """Run until all work has ended, and read the worklist."""
        world = self._world
        if not world.run(self._is_over, steps=60_000, seconds=1800.0):
            rows = self._storage.rows("SELECT id, state FROM message WHERE state <> 'done'")
            world.violate(f"not ended: {rows}, {self._open} senders")
        world.events = [
            event
            for event in world.events
            if event.kind is not Kind.ACKNOWLEDGED or (event.order, event.step) not in self._lost
        ]
        for order, step in sorted(self._service.steps.items()):
            world.record(Kind.LISTED, order, step)

    def _is_over(self) -> bool:
        world = self._world
        if self._open or world.now < self._faults.healed_at:
            return False
        return not self._storage.rows("SELECT 1 FROM message WHERE state <> 'done' LIMIT 1")


class ClusterIntakeStory(IntakeStory):
    is_cluster = True
