"""An intake with a real message log, and its sender."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any

from sqlalchemy import text
from twisted.internet.defer import Deferred

from bridge.intake.receive.handler import IntakeHandler
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.sequence_numbers import Sequencer
from bridge.intake.receive.statistics import AckCounter
from bridge.metrics import Metrics
from bridge.queue.arrivals import Arrival, Receipt
from bridge.queue.log_tables import pull_new
from bridge.queue.message_log import MessageLog
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from bridge.store.migration import upgrade
from bridge.store.records.sequence_numbers import SequenceLinks
from config.listeners import SequenceNumbers
from mappings.compiler import DEFINITIONS, load
from mappings.hl7.acknowledgment import ReceivedAck, read_ack
from mappings.inbound.definition import InboundMapping
from mllp.contract import Handler, Peer, as_deferred
from mllp.framing import Frame

IDS = count(1)
"""Control ids of acknowledgments, unique in a run."""

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

ORDER = (
    "MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121120000||ORM^O01|{id}|P|2.3.1|{number}||{accept}|"
    "{application}\r"
    "PID|1||{mrn}||TESTER^TILDA||19700101|F\r"
    "ORC|NW|P{acc}|{acc}||SC\r"
    "OBR|1|P{acc}|{acc}|CTHEAD^CT Head^L|||20261121113000|||||||||||{acc}||||||CT\r"
)


def order(
    control_id: str = "ID1",
    acc: str = "A1",
    mrn: str = "M1",
    *,
    accept: str = "",
    application: str = "",
    number: str = "",
) -> bytes:
    """Build an order that each listener accepts."""
    return ORDER.format(
        id=control_id, acc=acc, mrn=mrn, accept=accept, application=application, number=number
    ).encode()


def definitions() -> tuple[InboundMapping, ...]:
    found = [load(DEFINITIONS, name) for name in ("orders", "patients")]
    return tuple(mapping for mapping in found if isinstance(mapping, InboundMapping))


LISTENING = ListenerPolicy("ris", definitions(), site="SITE1")


@dataclass
class RecordingPeer:
    host: str = "127.0.0.1"
    port: int = 1
    connection_id: int = 1
    accepts_later_frames: bool = True
    later: list[bytes] = field(default_factory=list)

    def send(self, payload: bytes) -> bool:
        self.later.append(payload)
        return True


class FullMessageLog:
    def submit(self, arrival: Arrival, settle: Callable[[Receipt | BaseException], object]) -> None:
        settle(StoreUnavailable("SQLITE_FULL"))

    def accept_many(self, arrivals: Sequence[Arrival]) -> asyncio.Future[Sequence[Receipt]]:
        future: asyncio.Future[Sequence[Receipt]] = asyncio.get_running_loop().create_future()
        future.set_exception(StoreUnavailable("SQLITE_FULL"))
        return future

    def acknowledged(self, message_id: int) -> None:
        """Store nothing."""


class FixedCompletion:
    def __init__(self, state: QueueState = QueueState.DONE) -> None:
        self.state = state

    def wait(self, message_id: int, limit: float) -> asyncio.Future[QueueState]:
        future: asyncio.Future[QueueState] = asyncio.get_running_loop().create_future()
        future.set_result(self.state)
        return future


@dataclass
class IntakeFixture:
    handler: IntakeHandler
    message_log: MessageLog
    sequencer: Sequencer | None
    front: Callable[[Handler], Handler]
    database: Database
    metrics: Metrics
    caller: RecordingPeer

    async def send(self, payload: bytes, *, truncated: bool = False) -> list[bytes]:
        deferred = as_deferred(self.front(self.handler), Frame(payload, truncated), self.caller)
        return list(await deferred.asFuture(asyncio.get_running_loop()))

    async def ask(self, payload: bytes, *, truncated: bool = False) -> ReceivedAck:
        """Pass one frame to the handler, and return its only reply."""
        (reply,) = await self.send(payload, truncated=truncated)
        return read_ack(reply)

    def rows(
        self,
        columns: str = "state, ack_code, error_code, error_place",
        table: str = "message",
        key: str = "id",
    ) -> Sequence[Any]:
        pull_new(self.database)
        with self.database.read() as connection:
            rows = connection.execute(text(f"SELECT {columns} FROM {table} ORDER BY {key}"))  # noqa: S608
            return [tuple(row) for row in rows]


def _unwrapped(handle: Handler) -> Handler:
    return handle


def _serialized(sequencer: Sequencer, handle: Handler) -> Handler:
    """Pass frames through a sequencer, as the service does."""

    async def submit(frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
        return as_deferred(handle, frame, peer)

    return sequencer.serialized(submit)


@asynccontextmanager
async def open_intake(
    database: Database,
    listening: ListenerPolicy = LISTENING,
    completion: FixedCompletion | None = None,
    numbers: SequenceNumbers = SequenceNumbers.OFF,
    **changes: Any,
) -> AsyncIterator[IntakeFixture]:
    upgrade(database)
    message_log = MessageLog(database)
    message_log.start(asyncio.get_running_loop())
    metrics = Metrics()
    listening = replace(listening, **changes)
    sequencer = None
    if numbers is not SequenceNumbers.OFF:
        sequencer = Sequencer(message_log, SequenceLinks(database, listening.name), numbers)
    handler = IntakeHandler(
        listening,
        message_log,
        completion or FixedCompletion(),
        AckCounter(metrics, listening.name),
        clock=lambda: NOW,
        new_id=lambda: f"ACK{next(IDS)}",
        sequencer=sequencer,
    )
    front = _unwrapped if sequencer is None else partial(_serialized, sequencer)
    try:
        yield IntakeFixture(
            handler, message_log, sequencer, front, database, metrics, RecordingPeer()
        )
    finally:
        await message_log.stop()
