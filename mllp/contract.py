"""The interfaces between MLLP endpoints and their users: handler, observers, clock, limits.

It also has the parts that servers and clients share: read throttle, window, deadline.

Implementations are in `mllp.server`, `mllp.client`, `mllp.testing`, Twisted, and the
application.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.python.failure import Failure

from mllp.errors import FramingError
from mllp.framing import DEFAULT_MAX_PAYLOAD, Frame
from mllp.limits import AdmissionRefusal, FrameBudget, Network, ReadThrottle, SharedWindow
from mllp.tls import HandshakeFailure


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""

    def active(self) -> bool:
        """Whether the call is still to come."""


class Clock(Protocol):
    """The part of a reactor's time interface (`IReactorTime`) that this package uses."""

    def seconds(self) -> float:
        """Return a monotonic time."""

    def callLater(  # noqa: N802  # Twisted's name
        self,
        delay: float,
        callable: Callable[..., Any],  # noqa: A002  # Twisted's name
        *args: object,
        **kwargs: object,
    ) -> Timer:
        """Schedule a call."""


class Peer(Protocol):
    """The other end of one connection."""

    @property
    def host(self) -> str:
        """Its address."""

    @property
    def port(self) -> int:
        """Its port."""

    @property
    def connection_id(self) -> int:
        """Number of the connection, from 1, unique within a factory."""

    @property
    def accepts_later_frames(self) -> bool:
        """Whether `send` is possible; False if the peer gets only the replies to its frame."""

    def send(self, payload: bytes) -> bool:
        """Send a frame that is not a reply; False if the connection is gone."""


ReplyCallback = Callable[[Sequence[bytes] | Failure], object]
"""Receives the replies to one frame, or a failure; called once, now or later."""

Handler = Callable[[Frame, Peer, ReplyCallback], object]
"""
Takes a frame and calls back with the payloads of its replies: none, one or more, in order.

Replies wait for those of earlier frames. A failure closes the connection when its turn comes; an
exception counts as a failure. Frames that arrive together are handed over in one turn of the
reactor, so that a handler can store them in one transaction. It is a callback because a Deferred
costs more than storing a message.
"""

NakBuilder = Callable[[FramingError, bytes], bytes | None]
"""
Returns the answer to an abandoned frame, from the error and at most its first 4096 bytes.

The payload is sent before the connection closes; None closes it without an answer. For a frame
that the peer itself broke off (TruncatedFrame) the result is not sent.
"""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a listener. Sizes in bytes, times in seconds; 0 disables a timeout."""

    max_frame: int = DEFAULT_MAX_PAYLOAD
    max_connections: int = 500
    max_connections_per_source: int = 0
    """From one address, or one /64 of IPv6; 0: as many as `max_connections`."""
    allow: Sequence[Network] = ()
    """Networks that may connect; empty: all."""
    frame_timeout: float = 10.0
    """
    From the first byte of a frame to its last, and for a TLS handshake. Time in which we do not
    read does not count, except for time that the frame waits for memory.
    """
    idle_timeout: float = 0.0
    """Without a byte from the peer and without an unanswered frame."""
    write_timeout: float = 60.0
    """For a peer that does not read our replies."""
    window: int = 64
    """Unanswered frames of one connection; beyond it, reading pauses."""
    shared_window: int = 512
    """Unanswered frames of the listener; beyond it, each connection may have one."""


class ServerObserver:
    """
    Observes a server; does nothing. Subclasses override what they need.

    No method gets bytes of a payload.
    """

    def connection_opened(self, peer: Peer) -> None:
        """Handle an accepted connection."""

    def connection_closed(self, peer: Peer) -> None:
        """Handle the end of a connection."""

    def refused(self, reason: AdmissionRefusal, host: str) -> None:
        """Handle a connection that was closed at accept."""
        self.connection_refused()

    def connection_refused(self) -> None:
        """Handle a connection that was closed at accept, for any reason."""

    def evicted(self, host: str) -> None:
        """Handle a connection that was closed to make room for another one."""

    def handshake_failed(self, host: str, why: HandshakeFailure) -> None:
        """Handle a failed TLS handshake: plain text, an old version, or no trust."""

    def frame_received(self, size: int) -> None:
        """Handle a frame that goes to the handler."""

    def noise(self, length: int) -> None:
        """Handle dropped bytes outside of frames."""

    def frame_refused(self, reason: FramingError) -> None:
        """Handle an abandoned frame: it does not reach the handler."""

    def handler_failed(self, kind: str, place: str) -> None:
        """Handle a failure of the handler: class of the exception, and file:line, without text."""

    def replies_dropped(self, frames: int) -> None:
        """Handle a connection that ended before this many frames were answered."""


class ClientObserver:
    """Observes a client; does nothing. Subclasses override what they need."""

    def connected(self) -> None:
        """Handle a ready connection, TLS included."""

    def connect_failed(self, attempt: int) -> None:
        """Handle a failed attempt; `attempt` counts since the last good reply."""

    def disconnected(self) -> None:
        """Handle the end of a ready connection."""

    def noise(self, length: int) -> None:
        """Handle dropped bytes outside of frames."""

    def unexpected_frame(self) -> None:
        """Handle a frame with nothing in flight; the connection is closed."""


class ListenerContext(NamedTuple):
    """What all connections of a listener share."""

    handle: Handler
    limits: ServerLimits
    clock: Clock
    observer: ServerObserver
    on_unframed: NakBuilder
    throttle: ReadThrottle
    budget: FrameBudget
    window: SharedWindow


_Reply = TypeVar("_Reply")


def as_deferred(handle: Handler, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
    """Call a handler; return its replies as a Deferred. Raises what the handler raises."""
    answered: Deferred[Sequence[bytes]] = Deferred()
    handle(frame, peer, answered.callback)  # failures as well
    return answered


def gather_replies(answers: Sequence[_Reply | Deferred[_Reply]]) -> Deferred[list[_Reply]]:
    """Wait for all replies; return them in their order."""
    return gatherResults(
        [answer if isinstance(answer, Deferred) else succeed(answer) for answer in answers],
        consumeErrors=True,
    )


class Deadline:
    """
    Calls `expired` once, `seconds` after `start` or the last `touch`; 0 disables it.

    `touch` is cheap: the scheduled call stays and is rescheduled when it fires. Bytes that
    arrive in the same turn of the reactor still postpone it.
    """

    __slots__ = ("_clock", "_due", "_expired", "_seconds", "_timer")

    def __init__(self, clock: Clock, seconds: float, expired: Callable[[], object]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._expired = expired
        self._due = 0.0
        self._timer: Timer | None = None

    @property
    def running(self) -> bool:
        """Whether `expired` is still to come."""
        return self._timer is not None

    def start(self) -> None:
        if self._seconds <= 0:
            return
        self._due = self._clock.seconds() + self._seconds
        if self._timer is None:
            self._timer = self._clock.callLater(self._seconds, self._check)

    def touch(self) -> None:
        """Postpone, if running."""
        if self._timer is not None:
            self._due = self._clock.seconds() + self._seconds

    def postpone(self, seconds: float) -> None:
        """Postpone by this time, if running: the peer did not cause the delay."""
        self._due += seconds

    def stop(self) -> None:
        """Cancel it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        remaining = self._due - self._clock.seconds()
        if remaining > 0:
            self._timer = self._clock.callLater(remaining, self._check)
        else:  # a process that was suspended runs its timers before it reads its sockets
            self._timer = self._clock.callLater(0, self._check_again)

    def _check_again(self) -> None:
        self._timer = None
        if self._due > self._clock.seconds():
            self._check()
        else:
            self._expired()
