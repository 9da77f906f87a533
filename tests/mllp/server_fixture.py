"""Handler, observer and senders for a server under test."""

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.task import Clock
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp import Frame, FramingError
from mllp.contract import Peer, ReplyCallback, ServerLimits, ServerObserver
from mllp.testing import MemoryServer, RawConnection


class Counter(ServerObserver):
    """Records all events in one list."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    @override
    def connection_opened(self, peer: Peer) -> None:
        self.seen.append(("opened", peer.connection_id))

    @override
    def connection_closed(self, peer: Peer) -> None:
        self.seen.append(("closed", peer.connection_id))

    @override
    def connection_refused(self) -> None:
        self.seen.append(("refused",))

    @override
    def noise(self, length: int) -> None:
        self.seen.append(("noise", length))

    @override
    def frame_refused(self, reason: FramingError) -> None:
        self.seen.append(("frame refused", type(reason)))

    @override
    def handler_failed(self, kind: str, place: str) -> None:
        self.seen.append(("failed", kind))

    @override
    def replies_dropped(self, frames: int) -> None:
        self.seen.append(("dropped", frames))


class Desk:
    """A handler whose replies the test fires, in any order."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.peers: list[Peer] = []
        self.answers: list[Deferred[Sequence[bytes]]] = []

    def __call__(self, arrived: Frame, peer: Peer, reply: ReplyCallback) -> None:
        self.frames.append(arrived)
        self.peers.append(peer)
        self.answers.append(Deferred())
        self.answers[-1].addCallbacks(reply, reply)

    @property
    def payloads(self) -> list[bytes]:
        return [one.payload for one in self.frames]

    def answer(self, number: int, *replies: bytes) -> None:
        """Answer the frame with this number, from 0."""
        self.answers[number].callback(replies)


@implementer(IHalfCloseableProtocol)
class Stubborn(RawConnection):
    """A sender's end that stays open after the server's half-close."""

    def readConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Go on."""

    def writeConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Go on."""


def echo(arrived: Frame, peer: Peer, reply: ReplyCallback) -> None:
    """Answer at once, with the payload in lower case."""
    reply([arrived.payload.lower()])


def farewell(error: FramingError, head: bytes) -> bytes:
    """Return the reason and the head."""
    return type(error).__name__.encode() + b" " + head[:4]


def server_for(
    desk: Desk, clock: Clock, counter: Counter | None = None, **limits: float
) -> MemoryServer:
    """Make a server with small limits."""
    return MemoryServer(
        desk,
        ServerLimits(**limits),  # type: ignore[arg-type]  # the tests name whole numbers as such
        clock=clock,
        observer=counter,
        on_unframed=farewell,
    )
