"""The interfaces between MLLP endpoints and the code around them: handler, observers, clock,
limits, deadlines.

A sender on a quick network fills a large frame as fast as it is read, and whoever reads nothing
else meanwhile has no time for the others; where there are none, nobody is kept waiting. Decides how
long a reader rests; reads nothing itself.

Interfaces only, and the values that cross them. Implementations live in `mllp.server`,
`mllp.client`, `mllp.testing`, Twisted, and the application.

A Deferred costs more than to store a message does, and an ordinary frame needs none of what it
can do. So a handler may have a method `direct`; the two ways of asking one lead to the same.

Putting it off is cheap: the clock's call stays where it is and looks again when it comes. What
arrives in the same turn of the reactor still puts it off, or stops it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.python.failure import Failure

from mllp.admission import Network, Refusal
from mllp.errors import FramingError
from mllp.framing import DEFAULT_MAX_PAYLOAD, Frame
from mllp.memory_budget import FrameBudget

RATE = 16 * 2**20
"""Bytes a second, of all large frames together: a frame of 16 MiB takes a second."""

ALONE = 2.0
"""So many times as fast they are read where nobody sends ordinary ones."""

LOOK = 1.0
"""Seconds after which is seen anew whether somebody does."""

WORTHWHILE = 0.0005
"""Seconds below which a rest is put off: it would cost more than it gives."""


class Pace:
    """Counts what was read of large frames, and `others`' frames; time is the caller's (s)."""

    __slots__ = ("_alone", "_free", "_looked", "_rate", "_seen", "others")

    def __init__(self, rate: float = RATE) -> None:
        self.others = 0
        """Ordinary frames that have come; whoever takes one counts it."""
        self._rate = rate
        self._free = 0.0  # when all that was read would have been, at this rate
        self._alone, self._seen, self._looked = False, 0, 0.0

    def rest(self, size: int, now: float) -> float:
        """Note that so many bytes were read; give the seconds until more should be, 0 for now."""
        passed = now - self._looked
        if passed >= LOOK:
            self._alone = passed < 2 * LOOK and self.others == self._seen
            self._seen, self._looked = self.others, now
        rate = self._rate * ALONE if self._alone else self._rate
        self._free = max(self._free, now) + size / rate
        left = self._free - now
        return left if left >= WORTHWHILE else 0.0


class Timer(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None:
        """Forget the call."""

    def active(self) -> bool:
        """Whether the call is still to come."""


class Clock(Protocol):
    """What this package needs of a reactor's time (`IReactorTime`), and no more."""

    def seconds(self) -> float:
        """Return a time that only grows."""

    def callLater(  # noqa: N802  # Twisted's name
        self,
        delay: float,
        callable: Callable[..., Any],  # noqa: A002  # Twisted's name
        *args: object,
        **kwargs: object,
    ) -> Timer:
        """Call later."""


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
        """Counts the connections of one factory from 1: two of them never share a number."""

    def send(self, payload: bytes) -> bool:
        """Send a frame that answers no frame; False when the connection is gone."""


Tell = Callable[[Sequence[bytes] | Failure], object]
"""Takes the replies to one frame, or that there will be none; called once, now or later."""

Handler = Callable[[Frame, Peer], Deferred[Sequence[bytes]]]
"""
A frame in, the payloads of its replies out: none, one or more, in order.

The replies wait for those of the frames before. A failure closes the connection when its turn
to answer has come: silence is no reply. Frames that arrived together are handed over before
the reactor's next turn, so that a handler can store them in one transaction.

A handler may have a method `direct` too, which is given a `Tell` instead: see `mllp.contract`.
"""

Direct = Callable[[Frame, Peer, Tell], object]
"""A handler that tells its replies. What it raises is that there will be none."""

NakBuilder = Callable[[FramingError, bytes], bytes | None]
"""
The farewell for a frame that is given up: why, and its first 4096 bytes or fewer.

It returns a payload to send before the connection is closed, or None just to close. Of a frame
that the peer itself broke off (TruncatedFrame) it is told, and what it returns is not sent.
"""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a listener puts up with. Sizes in bytes, times in seconds; 0 turns a time-out off."""

    max_frame: int = DEFAULT_MAX_PAYLOAD
    max_connections: int = 500
    max_connections_per_source: int = 0
    """From one address, or one /64 of IPv6; 0: as many as `max_connections`."""
    allow: Sequence[Network] = ()
    """Where connections may come from; empty: from everywhere."""
    frame_timeout: float = 10.0
    """From the first byte of a frame to its last, for a TLS handshake as well. Time in which we do
    not read does not count, but for time that the frame waits for memory."""
    idle_timeout: float = 0.0
    """Without a byte from the peer and without a frame in hand."""
    write_timeout: float = 60.0
    """For a peer that does not take our replies."""
    window: int = 64
    """Frames of one connection in hand at a time; beyond it, reading pauses."""


class ServerObserver:
    """
    Counts nothing. Subclass it, and override what you want to count.

    Nothing here carries bytes of a payload.
    """

    def connection_opened(self, peer: Peer) -> None:
        """Tell that a connection was accepted."""

    def connection_closed(self, peer: Peer) -> None:
        """Tell that a connection has ended, whoever ended it."""

    def refused(self, reason: Refusal, host: str) -> None:
        """Report why a connection from an address was closed at accept."""
        self.connection_refused()

    def connection_refused(self) -> None:
        """Tell that a connection beyond the limit, or while draining, was closed at accept."""

    def evicted(self, host: str) -> None:
        """Report that a connection from an address was closed to make room for another one."""

    def handshake_failed(self, peer: Peer) -> None:
        """Tell that a connection ended before TLS stood: plain text, old version, no trust."""

    def frame_received(self, size: int) -> None:
        """Tell that a frame goes to the handler."""

    def noise(self, length: int) -> None:
        """Tell that bytes outside of frames were dropped."""

    def frame_refused(self, reason: FramingError) -> None:
        """Tell that a frame was given up: it never reached the handler."""

    def handler_failed(self, kind: str, place: str) -> None:
        """Tell that the handler failed: the exception's class, and file:line, never its text."""

    def replies_dropped(self, frames: int) -> None:
        """Tell that the connection ended before so many frames in hand were answered."""


class ClientObserver:
    """Counts nothing of what a client does. Subclass it, and override what you want to count."""

    def connected(self) -> None:
        """Tell that a connection stands, TLS included."""

    def connect_failed(self, attempt: int) -> None:
        """Tell that no connection came about; `attempt` counts since the last good reply."""

    def disconnected(self) -> None:
        """Tell that a connection that stood has ended, whoever ended it."""

    def noise(self, length: int) -> None:
        """Tell that bytes outside of frames were dropped."""

    def unexpected_frame(self) -> None:
        """Tell that a frame came with nothing in flight; the connection is closed for it."""


class Service(NamedTuple):
    """What all connections of a listener share."""

    direct: Direct
    limits: ServerLimits
    clock: Clock
    observer: ServerObserver
    on_unframed: NakBuilder
    pace: Pace
    budget: FrameBudget


_Reply = TypeVar("_Reply")


def directly(handle: Handler) -> Direct:
    """Give the way to ask a handler without a Deferred, if it has one; else around its own."""
    own = getattr(handle, "direct", None)
    if own is not None:
        return cast(Direct, own)

    def around(frame: Frame, peer: Peer, tell: Tell) -> None:
        handle(frame, peer).addCallbacks(tell, tell)

    return around


def promised(direct: Direct, frame: Frame, peer: Peer) -> Deferred[Sequence[bytes]]:
    """Ask a handler that tells, and give its replies as a Deferred. Raises what it raises."""
    answered: Deferred[Sequence[bytes]] = Deferred()
    direct(frame, peer, answered.callback)  # failures as well
    return answered


def together(answers: Sequence[_Reply | Deferred[_Reply]]) -> Deferred[list[_Reply]]:
    """Wait for those answers that are still to come; all of them, in their order."""
    return gatherResults(
        [each if isinstance(each, Deferred) else succeed(each) for each in answers],
        consumeErrors=True,
    )


class Deadline:
    """Calls `expired` once `seconds` after `start` or the last `touch`; 0 seconds is never."""

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
        """Begin, or begin anew."""
        if self._seconds <= 0:
            return
        self._due = self._clock.seconds() + self._seconds
        if self._timer is None:
            self._timer = self._clock.callLater(self._seconds, self._look)

    def touch(self) -> None:
        """Put off, if running."""
        if self._timer is not None:
            self._due = self._clock.seconds() + self._seconds

    def put_off(self, seconds: float) -> None:
        """Let it come so much later, if running: that time was not the peer's."""
        self._due += seconds

    def stop(self) -> None:
        """Forget it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        remaining = self._due - self._clock.seconds()
        if remaining > 0:
            self._timer = self._clock.callLater(remaining, self._look)
        else:  # a process that was stopped wakes up to its timers before it reads what has arrived
            self._timer = self._clock.callLater(0, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        if self._due > self._clock.seconds():
            self._look()
        else:
            self._expired()
