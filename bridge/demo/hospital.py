"""
The stand-in hospital: two systems that send orders, and one that receives results.

Real MLLP on real sockets, over `bridge.mllp_peers`. It notes what came and when, no more.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.demo.errors import NoReply, TooLate
from bridge.demo.stage import HOST
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
    """A message that was sent, the reply as it came, and the seconds between."""

    reply: bytes
    ack: ReceivedAck
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """A result as the RIS has it; `at` in seconds of `clock`."""

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
        """The report's lines and its addenda's."""
        return "\n".join(
            segment.value("5")
            for segment in self.message.named("OBX")
            if segment.value("3.1") == "18748-4"
        )


class Hospital:
    """Sends, and remembers what it received, in order."""

    def __init__(self, reactor: Any, clock: Callable[[], float] = time.time) -> None:
        self._reactor = reactor
        self._clock = clock
        self._arrived = asyncio.Event()
        self._asked = 0
        self.results: list[Result] = []
        self.on_result: Callable[[Result], None] = lambda _: None

    def listen(self, port: int) -> None:
        """Receive results, and accept each."""
        AcknowledgingReceiver(AckCode.ACCEPT, self._take).listen(self._reactor, HOST, port)

    async def send(self, system: System, messages: Sequence[bytes]) -> AsyncIterator[Exchange]:
        """Send one after the other over one connection; yield each exchange."""
        began = time.perf_counter()
        replies = send(HOST, system.port, messages, reply_timeout=_REPLY_WITHIN)
        async for answer in replies:
            if answer.reply is None:
                raise NoReply(system.name, answer.error)
            yield Exchange(answer.reply, read_ack(answer.reply), time.perf_counter() - began)
            began = time.perf_counter()

    async def next(self, count: int, within: float) -> Sequence[Result]:
        """Return the next `count` results that nobody asked for yet; raise TooLate."""
        wanted = self._asked + count
        try:
            async with asyncio.timeout(within):
                while len(self.results) < wanted:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            found = [(each.accession, each.status) for each in self.unasked]
            raise TooLate(f"{count} results at the RIS", within, found) from None
        came, self._asked = self.results[self._asked : wanted], wanted
        return came

    @property
    def unasked(self) -> Sequence[Result]:
        """Results that came and that nobody asked for."""
        return self.results[self._asked :]

    def _take(self, received: ReceivedMessage) -> None:
        result = Result(self._clock(), Message.parse(received.payload))
        self.results.append(result)
        self._arrived.set()
        self.on_result(result)
