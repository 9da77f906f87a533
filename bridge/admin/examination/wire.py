"""
A connection on which probes may break the protocol; what the peer sends is bounded.

`mllp.client` is not used: it never sends what a probe must send. A reply of more than
`MAX_REPLY` bytes, or more than `MAX_NOISE` bytes outside of frames, ends the probe.
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mllp.errors import FramingError
from mllp.framing import COMMIT_BLOCKS, Frame, FrameReader

MAX_REPLY: Final = 256 * 1024
MAX_NOISE: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024
_MAX_FRAMES: Final = 100


class PeerFault(Exception):
    """The peer did something that ends a probe; the text says what."""


class NoReply(PeerFault):
    """The peer did not reply in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no reply within {seconds:g} s")


class Unframed(NoReply):
    """The peer sent bytes, but no complete frame in time."""

    def __init__(self, *, has_begun: bool) -> None:
        missing = "an end block (FS CR)" if has_begun else "a start block (VT)"
        PeerFault.__init__(self, f"the reply has not {missing}")


class Closed(PeerFault):
    """The peer closed the connection."""

    def __init__(self) -> None:
        super().__init__("it closed the connection without a reply")


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a peer; `tls` is the context if it needs TLS, `timeout` is in seconds."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    connect_timeout: float = 10.0
    ack_timeout: float = 10.0

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Wire:
    """A connection to a peer."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float
    ) -> None:
        self._reader, self._writer, self._timeout = reader, writer, timeout
        self._frames = FrameReader(MAX_REPLY)
        self.noise = 0
        """Bytes outside of frames, so far."""
        self.commit_blocks = 0

    @staticmethod
    async def connect(target: Target) -> "Wire":
        """Connect. Raises PeerFault."""
        more: dict[str, Any] = {}
        if target.tls is not None:
            more = {"ssl": target.tls, "server_hostname": target.server_name or target.host}
        try:
            async with asyncio.timeout(target.connect_timeout):
                reader, writer = await asyncio.open_connection(
                    target.host, target.port, limit=_READ_BYTES, **more
                )
        except OSError as error:  # includes TimeoutError and ssl.SSLError
            raise PeerFault(f"no connection: {type(error).__name__}") from None
        return Wire(reader, writer, target.ack_timeout)

    def close(self) -> None:
        self._writer.transport.abort()

    async def write(self, *pieces: bytes, pause: float = 0.0) -> None:
        """Send pieces with a pause between them. Raises PeerFault."""
        try:
            async with asyncio.timeout(self._timeout + pause * len(pieces)):
                for number, piece in enumerate(pieces):
                    if number and pause:
                        await asyncio.sleep(pause)
                    self._writer.write(piece)
                    await self._writer.drain()
        except TimeoutError:
            raise PeerFault("it does not read what is sent") from None
        except OSError:
            raise PeerFault("it closed the connection during the message") from None

    async def replies(self, count: int, seconds: float | None = None) -> Sequence[bytes]:
        """
        Return the payloads of the next frames: `count` of them, or fewer after `seconds`.

        Raises NoReply or Closed if none came, and PeerFault.
        """
        limit = self._timeout if seconds is None else seconds
        found: list[bytes] = []
        try:
            async with asyncio.timeout(limit):
                while len(found) < count:
                    found.append(await self._next())
        except TimeoutError:
            if not found and (self.noise or self._frames.in_frame):
                raise Unframed(has_begun=self._frames.in_frame) from None
            if not found:
                raise NoReply(limit) from None
        except Closed:
            if not found:
                raise
        return found

    async def is_closed(self, seconds: float) -> bool:
        """True if the peer closes the connection within this time."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self._next()
        except TimeoutError:
            return False
        except PeerFault:
            return True

    async def _next(self) -> bytes:
        for _ in range(_MAX_FRAMES):
            payload = self._event()
            if payload is None:
                await self._receive()
            elif payload in COMMIT_BLOCKS:
                self.commit_blocks += 1
            else:
                return payload
            if self.noise > MAX_NOISE:
                raise PeerFault(f"it sends more than {MAX_NOISE:,} bytes outside of frames")
        raise PeerFault("it sends a reply in very many pieces")

    def _event(self) -> bytes | None:
        try:
            while (event := self._frames.next_event()) is not None:
                if isinstance(event, Frame):
                    return event.payload
                self.noise += event.length
        except FramingError:
            raise PeerFault(f"its reply has more than {MAX_REPLY:,} bytes") from None
        return None

    async def _receive(self) -> None:
        try:
            data = await self._reader.read(_READ_BYTES)
        except OSError:
            data = b""
        if not data:
            raise Closed
        self._frames.receive(data)
