"""
The simulated hospital: two systems that send orders, and one that receives results.

It uses real MLLP connections (`bridge.mllp_peers`) and records each result with its time.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.demo.checks import NoReply, TooLate
from bridge.demo.installation import HOST
from bridge.mllp_peers import AcknowledgingReceiver, ReceivedMessage, send
from mappings.hl7.acknowledgment import ReceivedAck, read_ack
from mappings.hl7.message import Message
from mappings.hl7.tables import AckCode

_REPLY_WITHIN: Final = 30.0


@dataclass(frozen=True, slots=True)
class System:
    """A system that sends orders to a port."""

    name: str
    charset: str
    port: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """The reply to a message, and the seconds until it arrived."""

    reply: bytes
    ack: ReceivedAck
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """A result that the RIS received; `at` in seconds of `clock`."""

    at: float
    message: Message

    @property
    def accession(self) -> str:
        """OBR-18."""
        return self.message.value("OBR-18")

    @property
    def status(self) -> str:
        """OBR-25: P, F or C."""
        return self.message.value("OBR-25")

    @property
    def text(self) -> str:
        """The lines of the report and its addenda."""
        return "\n".join(
            segment.value("5")
            for segment in self.message.named("OBX")
            if segment.value("3.1") == "18748-4"
        )


class Hospital:
    """Sends messages, and records results in order."""

    def __init__(self, reactor: Any, clock: Callable[[], float] = time.time) -> None:
        self._reactor = reactor
        self._clock = clock
        self._arrived = asyncio.Event()
        self._asked = 0
        self.results: list[Result] = []
        self.on_result: Callable[[Result], None] = lambda _: None

    def listen(self, port: int) -> None:
        """Receive results and accept all of them."""
        AcknowledgingReceiver(AckCode.ACCEPT, self._take).listen(self._reactor, HOST, port)

    async def send(self, system: System, messages: Sequence[bytes]) -> AsyncIterator[Exchange]:
        """Send messages over one connection, one after the other; yield each exchange."""
        began = time.perf_counter()
        replies = send(HOST, system.port, messages, reply_timeout=_REPLY_WITHIN)
        async for answer in replies:
            if answer.reply is None:
                raise NoReply(system.name, answer.error)
            yield Exchange(answer.reply, read_ack(answer.reply), time.perf_counter() - began)
            began = time.perf_counter()

    async def next(self, count: int, within: float) -> Sequence[Result]:
        """Return the next `count` results. Raises TooLate."""
        wanted = self._asked + count
        try:
            async with asyncio.timeout(within):
                while len(self.results) < wanted:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            found = [(each.accession, each.status) for each in self.unread]
            raise TooLate(f"{count} results at the RIS", within, found) from None
        came, self._asked = self.results[self._asked : wanted], wanted
        return came

    @property
    def unread(self) -> Sequence[Result]:
        """Results that `next` has not returned yet."""
        return self.results[self._asked :]

    def _take(self, received: ReceivedMessage) -> None:
        result = Result(self._clock(), Message.parse(received.payload))
        self.results.append(result)
        self._arrived.set()
        self.on_result(result)
