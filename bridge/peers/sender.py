"""
Send messages one after the other over MLLP and hand back the acknowledgments of each.

In enhanced mode (HL7 v2.5.1 §2.9.3) as many as MSH-15 and MSH-16 ask for; each belongs to the
message that its MSA-2 names, so that a late one is never taken for the next message's.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mappings.hl7.acknowledgment import Acknowledgment, read_ack
from mappings.hl7.header import Header, peek
from mappings.hl7.refusals import Malformed
from mappings.hl7.tables import AckCondition
from mllp.errors import FramingError, LossReason, MLLPError, NotConnected, ReplyLost
from mllp.framing import COMMIT_BLOCKS, Frame, FrameReader, checked_frame

_READ = 65_536
_LOOK = 0.005
"""Seconds between two messages in which a peer that takes one a connection may hang up."""

_NEVER = frozenset({"", AckCondition.NEVER.value})
_ON_CONDITION = frozenset({AckCondition.ERROR.value, AckCondition.SUCCESS.value})


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one message: the replies as they came, and why one is missing."""

    replies: tuple[bytes, ...]
    trouble: str = ""

    @property
    def reply(self) -> bytes | None:
        """The first reply, or the only one."""
        return self.replies[0] if self.replies else None

    @property
    def accepted(self) -> bool:
        """Whether each reply is AA or CA, and none is missing."""
        codes = {read_ack(each).code for each in self.replies}
        return not self.trouble and codes <= {"AA", "CA"}


async def send(
    host: str, port: int, messages: Sequence[bytes], *, reply_timeout: float
) -> AsyncIterator[Answer]:
    """Yield an answer for each message, in order; no message is sent twice."""
    line = _Line(host, port, reply_timeout)
    try:
        for message in messages:
            yield await line.ask(message)
    finally:
        line.hang_up()


class _Line:
    """A connection, made when it is wanted and given up when it cannot be trusted."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._host, self._port, self._timeout = host, port, timeout
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._frames = FrameReader()

    async def ask(self, message: bytes) -> Answer:
        """Send one message and collect its replies."""
        replies: list[bytes] = []
        try:
            await self._write(checked_frame(message))
            await self._collect(message, replies)
        except MLLPError as error:
            self.hang_up()
            return Answer(tuple(replies), str(error))
        return Answer(tuple(replies))

    def hang_up(self) -> None:
        """End the connection, if there is one."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
        self._frames = FrameReader()

    async def _write(self, data: bytes) -> None:
        if self._reader is not None:
            await asyncio.sleep(_LOOK)
            if self._reader.at_eof():
                self.hang_up()
        try:
            async with asyncio.timeout(self._timeout):
                if self._writer is None:
                    streams = await asyncio.open_connection(self._host, self._port)
                    self._reader, self._writer = streams
        except OSError as error:  # a time-out is one
            raise NotConnected(type(error).__name__) from None
        self._writer.write(data)

    async def _collect(self, message: bytes, replies: list[bytes]) -> None:
        header = _header(message)
        until = asyncio.get_running_loop().time() + self._timeout
        while (wanted := _wanted(header, list(map(read_ack, replies)))) is not False:
            try:
                async with asyncio.timeout_at(until):
                    reply = await self._next()
            except TimeoutError:
                if wanted is None:  # nothing had to come
                    return
                raise ReplyLost(LossReason.TIMEOUT) from None
            if reply not in COMMIT_BLOCKS and _answers(reply, header):
                replies.append(reply)

    async def _next(self) -> bytes:
        """Read one frame."""
        while True:
            try:
                while (event := self._frames.next_event()) is not None:
                    if isinstance(event, Frame):
                        return event.payload
            except FramingError:
                raise ReplyLost(LossReason.GARBAGE) from None
            data = b""
            if self._reader is not None:
                with suppress(ConnectionError):
                    data = await self._reader.read(_READ)
            if not data:
                raise ReplyLost(LossReason.CLOSED)
            self._frames.receive(data)


def _header(message: bytes) -> Header | None:
    """Read MSH; None for a batch, and for what is no message."""
    try:
        return peek(message)
    except Malformed:
        return None


def _answers(reply: bytes, header: Header | None) -> bool:
    """Whether a reply is, or may be, about this message."""
    named = read_ack(reply).control_id
    return header is None or not named or named == header.control_id.strip()


def _wanted(header: Header | None, told: Sequence[Acknowledgment]) -> bool | None:
    """Say whether a further reply has to come: True, False, or None where it may."""
    if header is None or not header.enhanced:
        return not told
    if any(each.code != "CA" for each in told):  # refused, or the application's
        return False
    conditions = [header.application_ack] if told else [header.accept_ack, header.application_ack]
    asked = {each.decode("latin-1").strip().upper() for each in conditions} - _NEVER
    if not asked:
        return False
    return None if asked <= _ON_CONDITION else True
