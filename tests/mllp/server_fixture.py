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


class RecordingObserver(ServerObserver):
    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    @override
    def connection_opened(self, peer: Peer) -> None:
        self.events.append(("opened", peer.connection_id))

    @override
    def connection_closed(self, peer: Peer) -> None:
        self.events.append(("closed", peer.connection_id))

    @override
    def connection_refused(self) -> None:
        self.events.append(("refused",))

    @override
    def noise(self, length: int) -> None:
        self.events.append(("noise", length))

    @override
    def frame_refused(self, reason: FramingError) -> None:
        self.events.append(("frame refused", type(reason)))

    @override
    def handler_failed(self, kind: str, place: str) -> None:
        self.events.append(("failed", kind))

    @override
    def replies_dropped(self, frames: int) -> None:
        self.events.append(("dropped", frames))


class ManualHandler:
    """A handler whose replies the test fires, in any order."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.peers: list[Peer] = []
        self.replies: list[Deferred[Sequence[bytes]]] = []
        self.answered: list[int] = []

    def __call__(self, arrived: Frame, peer: Peer, reply: ReplyCallback) -> None:
        self.frames.append(arrived)
        self.peers.append(peer)
        self.replies.append(Deferred())
        self.replies[-1].addCallbacks(reply, reply)

    @property
    def payloads(self) -> list[bytes]:
        return [one.payload for one in self.frames]

    def reply(self, number: int, *replies: bytes) -> None:
        """Answer the frame with this number, from 0."""
        self.answered.append(number)
        self.replies[number].callback(replies)


@implementer(IHalfCloseableProtocol)
class HalfOpenSender(RawConnection):
    """A sender's end that stays open after the server's half-close."""

    def readConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Keep the connection open."""

    def writeConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Keep the connection open."""


def echo(arrived: Frame, peer: Peer, reply: ReplyCallback) -> None:
    """Reply at once with the payload in lower case."""
    reply([arrived.payload.lower()])


def refusal_reply(error: FramingError, head: bytes) -> bytes:
    """Return the name of the error and the first bytes of the frame."""
    return type(error).__name__.encode() + b" " + head[:4]


def server_for(
    handler: ManualHandler, clock: Clock, observer: RecordingObserver | None = None, **limits: float
) -> MemoryServer:
    return MemoryServer(
        handler,
        ServerLimits(**limits),  # type: ignore[arg-type]  # the tests name whole numbers as such
        clock=clock,
        observer=observer,
        on_unframed=refusal_reply,
    )
