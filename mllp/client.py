"""MLLP client: keeps one connection, one payload in flight, the others wait in a queue.

Many do. Its good-bye then travels behind the reply, and a payload sent at once would meet it:
lost, with nobody knowing what became of it. So with such a peer we look for a moment longer.

Knows no connection.

Which step follows which is `mllp.exchange`'s table. It retries no payload by itself: who sends
decides that, from `NotConnected` (nothing was sent) or `ReplyLost` (nobody knows).
"""

from collections import deque
from collections.abc import Callable

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from mllp.client_connection import Link
from mllp.contract import ClientObserver, Clock, Deadline, Timer
from mllp.dialer import Endpoint, cause_of, dial
from mllp.errors import LossReason, MLLPError, NotConnected, ReplyLost, Unframeable
from mllp.exchange import Event, State, after
from mllp.framing import COMMIT_ACK, COMMIT_NAK, DEFAULT_MAX_PAYLOAD, Frame, checked_frame
from mllp.framing import Event as Arrival
from mllp.transport import Gathering

PATIENCE = 0.05


class Habits:
    """Learns from how connections end; `pause` is the seconds to look before sending."""

    __slots__ = ("pause",)

    def __init__(self) -> None:
        self.pause = 0.0

    def replied(self, exchanges: int) -> None:
        """Take note of the connection's n-th reply: after a second one it is a keeper."""
        if exchanges > 1:
            self.pause = 0.0

    def hung_up(self, exchanges: int, *, in_flight: bool) -> None:
        """Take note of an end that the peer chose after so many replies."""
        if exchanges == 1 or (exchanges and in_flight):
            self.pause = PATIENCE


class Job:
    """One payload, and who waits for its reply."""

    __slots__ = ("framed", "payload", "reply")

    def __init__(self, payload: bytes, withdraw: Callable[["Job"], None]) -> None:
        self.payload = payload
        self.framed = checked_frame(payload)
        self.reply: Deferred[bytes] = Deferred(lambda _: withdraw(self))

    def fail(self, error: MLLPError) -> None:
        """Tell that there is no reply, unless nobody waits any more."""
        if not self.reply.called:
            self.reply.errback(error)


class Line:
    """Jobs in the order they came."""

    __slots__ = ("_jobs",)

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()

    def __len__(self) -> int:
        return len(self._jobs)

    def join(self, job: Job) -> None:
        """Stand at the end."""
        self._jobs.append(job)

    def first(self) -> Job:
        """Take the job whose turn it is."""
        return self._jobs.popleft()

    def leave(self, job: Job) -> None:
        """Take a job out, wherever it stands; no matter if it is not there."""
        if job in self._jobs:
            self._jobs.remove(job)

    def dissolve(self, cause: str) -> None:
        """Tell all, in order, that nothing was sent."""
        jobs, self._jobs = self._jobs, deque()
        for job in jobs:
            job.fail(NotConnected(cause))


__all__ = ["ClientObserver", "Endpoint", "MLLPClient", "ReplyMatcher"]

CLOSE_GRACE = 1.0
"""How long `close` waits for the peer to say good-bye under TLS."""

ReplyMatcher = Callable[[bytes, bytes], bool]
"""Whether a reply (second) answers a payload (first)."""


class MLLPClient:
    """
    Sends payloads one at a time over a connection that it keeps, and returns their replies.

    Payloads leave in the order of `send`. After a `ReplyLost` the connection is closed, so that
    a late reply cannot meet the next payload; those behind it go on over a new connection: who
    needs order across failures waits for each reply. When no connection comes about, all that
    wait fail with `NotConnected`. `backoff` is given how often it went wrong since the last
    good reply, from 1, and returns the seconds before the next attempt to connect; what is
    sent meanwhile waits for it.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Clock,
        reply_timeout: float = 30.0,
        connect_timeout: float = 10.0,
        max_frame: int = DEFAULT_MAX_PAYLOAD,
        reply_matches: ReplyMatcher | None = None,
        backoff: Callable[[int], float],
        observer: ClientObserver | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._connect_timeout = connect_timeout
        self._max_frame = max_frame
        self._reply_matches = reply_matches
        self._backoff = backoff
        self._observer = observer or ClientObserver()
        self._state = State.DISCONNECTED
        self._failures = 0
        self._waiting = Line()
        self._in_flight: Job | None = None
        self._link: Link | None = None
        self._links: Gathering[Link] = Gathering(clock, CLOSE_GRACE)  # the dropped ones too
        self._habits = Habits()
        self._connecting: Deferred[Link] | None = None
        self._timer: Timer | None = None  # the probe, or the wait before the next attempt
        self._reply_deadline = Deadline(clock, reply_timeout, self._overdue)

    @property
    def state(self) -> State:
        """Where it stands."""
        return self._state

    @property
    def waiting(self) -> int:
        """How many payloads have not been sent yet."""
        return len(self._waiting)

    def send(self, payload: bytes) -> Deferred[bytes]:
        """
        Send one payload and return its reply's.

        Fails with `NotConnected`, `ReplyLost` or `Unframeable`. Cancelling withdraws a payload
        that waits; one in flight loses its connection.
        """
        if self._state is State.CLOSED:
            return fail(NotConnected())
        try:
            job = Job(payload, self._withdraw)
        except Unframeable as error:
            return fail(error)
        self._waiting.join(job)
        self._wake()
        return job.reply

    def close(self) -> Deferred[None]:
        """Stop for good: what waits was not sent, what is in flight is lost. Fires when closed."""
        if self._state is not State.CLOSED:
            self._shut()
        return self._links.ended()

    # Towards the next payload in flight

    def _wake(self) -> None:
        """Do what brings the first payload in line nearer to the wire."""
        if not self._waiting:
            return
        if self._state is State.DISCONNECTED:
            self._connect()
        elif self._state is State.READY and self._link is not None:
            # The peer may have hung up: give the reactor one look at the socket before we write.
            self._turn(Event.WANTED)
            pause = self._habits.pause if self._link.served else 0.0
            self._timer = self._clock.callLater(pause, self._probed)

    def _connect(self) -> None:
        self._turn(Event.WANTED)
        self._connecting = dial(
            self._endpoint,
            self,
            clock=self._clock,
            timeout=self._connect_timeout,
            max_frame=self._max_frame,
        )
        self._connecting.addCallbacks(self._connected, self._connect_failed)

    def _connected(self, link: Link) -> None:
        self._connecting = None
        if self._state is not State.CONNECTING:
            link.abort()
            return
        self._link = link
        self._links.add(link)
        self._observer.connected()
        self._turn(Event.CONNECTED)
        self._wake()

    def _connect_failed(self, failure: Failure) -> None:
        self._connecting = None
        if self._state is State.CONNECTING:
            self._fall_back(Event.CONNECT_FAILED, cause_of(failure))

    def _probed(self) -> None:
        self._timer = None
        if not self._waiting:
            self._turn(Event.WITHDRAWN)
            return
        self._turn(Event.STILL_THERE)
        self._in_flight = self._waiting.first()
        self._reply_deadline.start()
        if self._link is not None:
            self._link.write(self._in_flight.framed)

    # What the link tells

    def arrived(self, link: Link, event: Arrival) -> None:
        """Take a frame, or noise."""
        if not isinstance(event, Frame):
            self._observer.noise(event.length)
        elif self._in_flight is None:
            self._observer.unexpected_frame()
            link.abort()
            self._hung_up(link, "unexpected frame")
        elif event.payload == COMMIT_ACK:  # MLLP release 2: kept; the reply is still to come
            self._reply_deadline.touch()
        elif reason := self._objection(self._in_flight, event):
            self._unanswered(reason)
        else:
            self._replied(link, event.payload)

    def _objection(self, job: Job, reply: Frame) -> LossReason | None:
        """Say why this frame is not the reply to what is in flight, if it is not."""
        if reply.truncated or reply.payload == COMMIT_NAK:
            return LossReason.GARBAGE
        try:
            matches = self._reply_matches is None or self._reply_matches(job.payload, reply.payload)
        except Exception:  # noqa: BLE001  # what the matcher cannot read is no reply
            return LossReason.GARBAGE
        return None if matches else LossReason.MISMATCH

    def garbled(self, link: Link) -> None:
        """Take note that what comes is no frame."""
        if self._in_flight is not None:
            self._unanswered(LossReason.GARBAGE)
        else:
            link.abort()
            self._hung_up(link, "garbage")

    def gone(self, link: Link, reason: Failure) -> None:
        """Take note of the end of a link."""
        self._observer.disconnected()
        if link is self._link:
            self._habits.hung_up(link.served, in_flight=self._in_flight is not None)
            if self._in_flight is not None:
                self._unanswered(LossReason.CLOSED)
            else:
                self._hung_up(link, cause_of(reason))
        self._links.discard(link)

    # Outcomes

    def _replied(self, link: Link, reply: bytes) -> None:
        job, self._in_flight = self._in_flight, None
        self._reply_deadline.stop()
        self._failures = 0
        link.served += 1
        self._habits.replied(link.served)
        self._turn(Event.REPLIED)
        if job is not None:
            job.reply.callback(reply)
        self._wake()

    def _overdue(self) -> None:
        self._unanswered(LossReason.TIMEOUT)

    def _unanswered(self, reason: LossReason) -> None:
        job = self._abandon()
        self._fall_back(Event.UNANSWERED)
        if job is not None:
            job.fail(ReplyLost(reason))

    def _abandon(self) -> Job | None:
        """Give up the connection, and what was in flight on it."""
        job, self._in_flight = self._in_flight, None
        self._reply_deadline.stop()
        link, self._link = self._link, None
        if link is not None:
            link.abort()
        return job

    def _hung_up(self, link: Link, cause: str) -> None:
        """Nothing was in flight: go on over a new connection, unless this one was no use at all."""
        self._link = None
        self._stop_timer()
        if link.served:
            self._turn(Event.HUNG_UP)
            self._wake()
        else:
            self._fall_back(Event.REFUSED, cause)

    def _fall_back(self, event: Event, cause: str | None = None) -> None:
        """Wait before the next attempt; with a cause, nothing that waits can be sent."""
        self._failures += 1
        self._turn(event)
        self._timer = self._clock.callLater(max(0.0, self._backoff(self._failures)), self._due)
        if cause is not None:
            self._observer.connect_failed(self._failures)
            self._waiting.dissolve(cause)

    def _due(self) -> None:
        self._timer = None
        self._turn(Event.DUE)
        self._wake()

    # Ending

    def _withdraw(self, job: Job) -> None:
        if job is self._in_flight:
            self._abandon()
            self._fall_back(Event.UNANSWERED)
        else:
            self._waiting.leave(job)

    def _shut(self) -> None:
        self._turn(Event.CLOSE)
        self._stop_timer()
        if self._connecting is not None:
            self._connecting.cancel()
        link = self._link
        if (job := self._in_flight) is not None:
            self._abandon()
            job.fail(ReplyLost(LossReason.CLOSED))
        elif link is not None:
            self._link = None
            link.leave()
        self._waiting.dissolve("closed")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self, event: Event) -> None:
        self._state = after(self._state, event)
