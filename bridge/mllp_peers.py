"""
MLLP peers for tests by hand: a sender of messages and a receiver that acknowledges them.

`bridge send`, `bridge receive` and the demonstration use them. Neither has a queue.

In enhanced mode (HL7 v2.5.1, 2.9.3) MSH-15 and MSH-16 determine how many acknowledgments a message
gets. The sender assigns each acknowledgment to the message that its MSA-2 names, so that a late one
is not taken for the acknowledgment of the next message.
"""

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bridge.errors import BridgeError
from mappings.hl7.acknowledgment import ReceivedAck, build_ack, read_ack, unframed_nak
from mappings.hl7.header import Header, peek
from mappings.hl7.refusals import (
    AckCode,
    AckCondition,
    InternalError,
    MalformedMessage,
    MalformedReason,
    MessageRefusal,
)
from mllp.contract import Peer, ReplyCallback
from mllp.errors import FramingError, LossReason, MLLPError, NotConnected, ReplyLost
from mllp.framing import COMMIT_BLOCKS, Frame, FrameReader, checked_frame
from mllp.server import MLLPServerFactory
from mllp.tls import describe_handshake

_READ_BYTES = 65_536
_PAUSE_SECONDS = 0.005
"""Seconds to wait before the next message: some peers close the connection after each message."""

_NEVER = frozenset({"", AckCondition.NEVER.value})
_ON_CONDITION = frozenset({AckCondition.ERROR.value, AckCondition.SUCCESS.value})


@dataclass(frozen=True, slots=True)
class PeerReplies:
    """The acknowledgments of one message, and the error if one is missing."""

    replies: tuple[bytes, ...]
    error: str = ""

    @property
    def reply(self) -> bytes | None:
        """The first reply, or the only one."""
        return self.replies[0] if self.replies else None

    @property
    def accepted(self) -> bool:
        """Whether every reply is AA or CA and none is missing."""
        codes = {read_ack(reply).code for reply in self.replies}
        return not self.error and codes <= {"AA", "CA"}


@dataclass(frozen=True, slots=True)
class PeerTls:
    """TLS of a sender: the context, and the name that the server's certificate must have."""

    context: ssl.SSLContext
    server_name: str


class UnusableTlsFile(BridgeError):
    """A file of the TLS options cannot be used."""

    def __init__(self, option: str, path: Path) -> None:
        super().__init__(f"--{option}: {path} cannot be used")


def sender_tls(
    server_name: str,
    *,
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    insecure: bool = False,
) -> PeerTls:
    """
    Return the TLS options of a sender. Raises UnusableTlsFile.

    Without `ca` the system's authorities apply. `insecure` accepts any certificate.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError):
        raise UnusableTlsFile("ca", ca or Path()) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError):
            raise UnusableTlsFile("certificate", certificate) from None
    return PeerTls(context, server_name)


async def send(
    host: str,
    port: int,
    messages: Sequence[bytes],
    *,
    reply_timeout: float,
    tls: PeerTls | None = None,
) -> AsyncIterator[PeerReplies]:
    """Send messages in order, each once, over one connection; yield the replies of each."""
    connection = _Connection(host, port, reply_timeout, tls)
    try:
        for message in messages:
            yield await connection.exchange(message)
    finally:
        connection.close()


class _Connection:
    """A connection that is opened for the first message and closed after an error."""

    def __init__(self, host: str, port: int, timeout: float, tls: PeerTls | None = None) -> None:
        self._host, self._port, self._timeout = host, port, timeout
        self._tls: dict[str, Any] = {}
        if tls is not None:
            self._tls = {"ssl": tls.context, "server_hostname": tls.server_name}
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._frames = FrameReader()

    async def exchange(self, message: bytes) -> PeerReplies:
        """Send one message and collect its replies."""
        replies: list[bytes] = []
        try:
            await self._write(checked_frame(message))
            await self._collect(message, replies)
        except MLLPError as error:
            self.close()
            return PeerReplies(tuple(replies), str(error))
        return PeerReplies(tuple(replies))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
        self._frames = FrameReader()

    async def _write(self, data: bytes) -> None:
        if self._reader is not None:
            await asyncio.sleep(_PAUSE_SECONDS)
            if self._reader.at_eof():
                self.close()
        try:
            async with asyncio.timeout(self._timeout):
                if self._writer is None:
                    streams = await asyncio.open_connection(self._host, self._port, **self._tls)
                    self._reader, self._writer = streams
        except OSError as error:  # includes TimeoutError and ssl.SSLError
            raise _not_connected(error) from None
        self._writer.write(data)

    async def _collect(self, message: bytes, replies: list[bytes]) -> None:
        header = _header(message)
        deadline = asyncio.get_running_loop().time() + self._timeout
        while (wanted := _needs_reply(header, list(map(read_ack, replies)))) is not False:
            try:
                async with asyncio.timeout_at(deadline):
                    reply = await self._next()
            except TimeoutError:
                if wanted is None:  # the reply was optional
                    return
                raise ReplyLost(LossReason.TIMEOUT) from None
            if reply not in COMMIT_BLOCKS and _may_answer(reply, header):
                replies.append(reply)

    async def _next(self) -> bytes:
        while True:
            try:
                while (event := self._frames.next_event()) is not None:
                    if isinstance(event, Frame):
                        return event.payload
            except FramingError:
                raise ReplyLost(LossReason.GARBAGE) from None
            data = b""
            if self._reader is not None:
                try:
                    data = await self._reader.read(_READ_BYTES)
                except ssl.SSLError as error:  # TLS 1.3: the refusal comes after the handshake
                    raise _not_connected(error) from None
                except ConnectionError:
                    data = b""
            if not data:
                raise ReplyLost(LossReason.CLOSED)
            self._frames.receive(data)


def _not_connected(error: OSError) -> NotConnected:
    if isinstance(error, ssl.SSLCertVerificationError):
        return NotConnected(f"certificate: {error.verify_message}", is_tls=True)
    found = describe_handshake(error)
    return NotConnected(found.reason, is_tls=True) if found else NotConnected(type(error).__name__)


def _header(message: bytes) -> Header | None:
    """Parse MSH; None for a batch and for a text that is not HL7."""
    try:
        return peek(message)
    except MalformedMessage:
        return None


def _may_answer(reply: bytes, header: Header | None) -> bool:
    """True if a reply may belong to this message."""
    named = read_ack(reply).control_id
    return header is None or not named or named == header.control_id.strip()


def _needs_reply(header: Header | None, received: Sequence[ReceivedAck]) -> bool | None:
    """True if another reply is required: True, False, or None if it is optional."""
    if header is None or not header.enhanced:
        return not received
    if any(ack.code != "CA" for ack in received):  # refused, or an application acknowledgment
        return False
    conditions = (
        [header.application_ack] if received else [header.accept_ack, header.application_ack]
    )
    requested = {condition.decode("latin-1").strip().upper() for condition in conditions} - _NEVER
    if not requested:
        return False
    return None if requested <= _ON_CONDITION else True


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A received message and its acknowledgment; `header` is None if it is not HL7."""

    payload: bytes
    header: Header | None
    reply: bytes


class AcknowledgingReceiver:
    """Acknowledges each HL7 message with `code`, and anything else with AR."""

    def __init__(self, code: AckCode, on_message: Callable[[ReceivedMessage], None]) -> None:
        self._code = code
        self._on_message = on_message
        self._numbers = itertools.count(1)

    def listen(self, reactor: Any, host: str, port: int) -> int:
        """Listen; return the port, also if `port` is 0."""
        factory = MLLPServerFactory(self._handle, clock=reactor, on_unframed=self._unframed)
        return int(reactor.listenTCP(port, factory, interface=host).getHost().port)

    def _handle(self, frame: Frame, peer: Peer, reply: ReplyCallback) -> None:
        received = self._acknowledge(frame)
        self._on_message(received)
        reply([received.reply])

    def _acknowledge(self, frame: Frame) -> ReceivedMessage:
        try:
            header = peek(frame.payload)
            if frame.truncated:
                raise MalformedMessage(MalformedReason.INCOMPLETE)
        except MessageRefusal as refusal:
            return ReceivedMessage(frame.payload, None, self._nak(frame.payload, refusal))
        refusals = () if self._code.positive else (InternalError(),)
        reply = build_ack(
            header, self._code, control_id=self._new_id(), now=datetime.now(UTC), refusals=refusals
        )
        return ReceivedMessage(frame.payload, header, reply)

    def _unframed(self, error: FramingError, head: bytes) -> bytes:
        return self._nak(head, MalformedMessage(MalformedReason.INCOMPLETE))

    def _nak(self, head: bytes, refusal: MessageRefusal) -> bytes:
        return unframed_nak(head, refusal, control_id=self._new_id(), now=datetime.now(UTC))

    def _new_id(self) -> str:
        return f"R{next(self._numbers)}"
