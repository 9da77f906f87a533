"""MLLP client: keeps one connection, sends one payload at a time, queues the others.

A table decides when a connection may be used again. The client never sends a payload again: the
caller decides, by `NotConnected` (nothing was sent) or `ReplyLost` (the result is unknown).

Some peers close the connection after each reply. A payload that is sent before the close arrives
would be lost without a known result. For such a peer the client waits a moment before it sends.
"""

from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, cast
from typing import Protocol as Interface

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IHandshakeListener, IReactorTime
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp.contract import ClientObserver, Clock, Deadline, Timer
from mllp.errors import (
    FramingError,
    LossReason,
    MLLPError,
    NotConnected,
    ReplyLost,
    Unframeable,
)
from mllp.framing import (
    COMMIT_ACK,
    COMMIT_BLOCKS,
    DEFAULT_MAX_PAYLOAD,
    END,
    START,
    Event,
    Frame,
    FrameReader,
    checked_frame,
)
from mllp.tls import describe_handshake
from mllp.transport import ConnectionSet, ImmediateWriter, Transport, is_tls, tune


class ClientState(StrEnum):
    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    READY = "ready"
    PROBING = "probing"
    """A payload waits; the reactor reads the socket once, because the peer may have closed it."""
    AWAITING = "awaiting"
    """A payload was sent; its reply has not arrived."""
    BACKING_OFF = "backing off"
    CLOSED = "closed"


class ClientEvent(StrEnum):
    WANTED = "wanted"
    """A payload waits to be sent."""
    CONNECTED = "connected"
    CONNECT_FAILED = "connect failed"
    STILL_THERE = "still there"
    WITHDRAWN = "withdrawn"
    """The caller has cancelled the payload."""
    REPLIED = "replied"
    UNANSWERED = "unanswered"
    """No reply, or an unusable one: the result is unknown."""
    HUNG_UP = "hung up"
    """The connection ended with nothing in flight."""
    REFUSED = "refused"
    """As HUNG_UP, on a connection that has never answered."""
    DUE = "due"
    """The wait before the next attempt is over."""
    CLOSE = "close"


TRANSITIONS: Mapping[tuple[ClientState, ClientEvent], ClientState] = {
    (ClientState.DISCONNECTED, ClientEvent.WANTED): ClientState.CONNECTING,
    (ClientState.CONNECTING, ClientEvent.CONNECTED): ClientState.READY,
    (ClientState.CONNECTING, ClientEvent.CONNECT_FAILED): ClientState.BACKING_OFF,
    (ClientState.READY, ClientEvent.WANTED): ClientState.PROBING,
    (ClientState.READY, ClientEvent.HUNG_UP): ClientState.DISCONNECTED,
    (ClientState.READY, ClientEvent.REFUSED): ClientState.BACKING_OFF,
    (ClientState.PROBING, ClientEvent.STILL_THERE): ClientState.AWAITING,
    (ClientState.PROBING, ClientEvent.WITHDRAWN): ClientState.READY,
    (ClientState.PROBING, ClientEvent.HUNG_UP): ClientState.DISCONNECTED,
    (ClientState.PROBING, ClientEvent.REFUSED): ClientState.BACKING_OFF,
    (ClientState.AWAITING, ClientEvent.REPLIED): ClientState.READY,
    # A late reply must not be taken for the next one: the connection is not used again.
    (ClientState.AWAITING, ClientEvent.UNANSWERED): ClientState.BACKING_OFF,
    (ClientState.BACKING_OFF, ClientEvent.DUE): ClientState.DISCONNECTED,
    **{
        (state, ClientEvent.CLOSE): ClientState.CLOSED
        for state in ClientState
        if state is not ClientState.CLOSED
    },
}


class IllegalTransitionError(AssertionError):
    """The table has no such transition: a bug in the client."""

    def __init__(self, state: ClientState, event: ClientEvent) -> None:
        super().__init__(f"{event} cannot happen to a client that is {state}")


def next_state(state: ClientState, event: ClientEvent) -> ClientState:
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransitionError(state, event) from None


MAX_KEPT_BYTES = 4096
"""Bytes without a frame that are kept for people."""

_PADDING = b"\r\n\0\t "
"""Bytes that some peers write between frames."""


class UnframedBytes:
    """The bytes outside of complete frames since the last payload was sent: number and head."""

    __slots__ = ("head", "length")

    def __init__(self) -> None:
        self.head, self.length = b"", 0

    def add(self, length: int, head: bytes) -> None:
        """Add bytes; padding between frames does not count."""
        if length > len(head) or head.strip(_PADDING):
            self.length += length
            self.head += head[: MAX_KEPT_BYTES - len(self.head)]


@implementer(IHandshakeListener)
class ClientConnection(Protocol):
    """One connection; `ready` fires once, with the connection or with the failure."""

    transport: Transport  # type: ignore[assignment]  # Twisted's is optional and knows less

    def __init__(
        self,
        max_frame: int,
        *,
        on_event: Callable[["ClientConnection", Event], object],
        on_framing_error: Callable[["ClientConnection", FramingError], object],
        on_closed: Callable[["ClientConnection", Failure], object],
    ) -> None:
        """
        `on_event` handles a frame or noise, `on_closed` the end of a connection that was ready.

        `on_framing_error` handles bytes that are not a frame; nothing more is read.
        """
        self.ready: Deferred[ClientConnection] = Deferred(lambda _: self.abort())
        self.replies_received = 0
        """How many payloads the peer has answered."""
        self._on_event, self._on_framing_error = on_event, on_framing_error
        self._on_closed = on_closed
        self._reader = FrameReader(max_frame, max_noise=MAX_KEPT_BYTES)
        self._unframed = UnframedBytes()
        self._usable = False
        self._dropped = False
        self._paused = False

    @override
    def connectionMade(self) -> None:
        tune(self.transport)
        self._outlet = ImmediateWriter(self.transport)
        if not is_tls(self.transport):
            self.handshakeCompleted()

    def handshakeCompleted(self) -> None:  # noqa: N802  # Twisted's name
        """Handle the end of the TLS handshake: the connection may be used."""
        if not self._usable and not self._dropped:
            self._usable = True
            self.ready.callback(self)

    @override
    def dataReceived(self, data: bytes) -> None:
        if not self._dropped:
            self._reader.receive(data)
        self._read()

    def _read(self) -> None:
        try:
            while (event := self._next()) is not None:
                if isinstance(event, Frame):
                    self._unframed = UnframedBytes()
                else:
                    self._unframed.add(event.length, event.head)
                self._on_event(self, event)
        except FramingError as error:
            self._on_framing_error(self, error)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._dropped = True
        if self._usable:
            self._on_closed(self, reason)
        elif not self.ready.called:
            self.ready.errback(reason)

    def _next(self) -> Event | None:
        return None if self._dropped or self._paused else self._reader.next_event()

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._unframed = UnframedBytes()
        self._outlet.write(data)

    def pause(self) -> None:
        """Read nothing until `resume`."""
        if not self._paused and not self._dropped:
            self._paused = True
            self.transport.pauseProducing()

    def resume(self) -> None:
        """Read again."""
        if self._paused and not self._dropped:
            self._paused = False
            self.transport.resumeProducing()
            self._read()

    def describe_unframed(self) -> tuple[str, bytes]:
        """
        Return what is wrong with the frame of the bytes since the last payload was sent, and the
        first ones; '' and nothing if none came.
        """
        before, reader = self._unframed, self._reader
        in_frame = reader.in_frame
        length = before.length + (reader.received + len(START) if in_frame else 0)
        if not length:
            return "", b""
        head = before.head + (START + reader.head(MAX_KEPT_BYTES) if in_frame else b"")
        if not in_frame:
            ends = END in before.head
            missing = "a start block" if ends else "a start block or an end block"
        elif reader.ends_with_half_an_end:
            missing = "an end block: FS came without CR"
        else:
            missing = "an end block"
        noun = "byte" if length == 1 else "bytes"
        return f"the receiver sent {length} {noun} without {missing}", head[:MAX_KEPT_BYTES]

    def abort(self) -> None:
        """Close now: received bytes are ignored, unsent bytes are dropped."""
        self._dropped = True
        if self.connected:
            self.transport.abortConnection()

    def close(self) -> None:
        """Close after all bytes are sent."""
        self._dropped = True
        self.transport.loseConnection()


class Endpoint(Interface):
    """The address to connect to: any `IStreamClientEndpoint`."""

    def connect(self, factory: Any, /) -> Deferred[Any]:
        """Connect, and fire with the protocol that the factory made."""


def connect(
    endpoint: Endpoint, make: Callable[[], ClientConnection], *, clock: Clock, timeout: float
) -> Deferred[ClientConnection]:
    """
    Connect, TLS handshake included, within `timeout` seconds; `make` makes the connection.

    Makes one attempt. Cancelling closes the connection.
    """
    attempt = endpoint.connect(Factory.forProtocol(make))
    usable: Deferred[ClientConnection] = attempt.addCallback(_until_ready)
    return usable.addTimeout(timeout, cast(IReactorTime, clock))


def _until_ready(connection: ClientConnection) -> Deferred[ClientConnection]:
    return connection.ready


def cause_of(failure: Failure) -> NotConnected:
    """Return why there is no connection: the handshake in words, or the exception's class."""
    if words := tls_cause_of(failure):
        return NotConnected(words, is_tls=True)
    return NotConnected(type(failure.value).__name__)


def tls_cause_of(failure: Failure) -> str:
    """Return why the TLS handshake failed, '' if it did not."""
    found = describe_handshake(failure.value)
    return found.reason if found else ""


HANGUP_WAIT_SECONDS = 0.05
"""Time to wait for the close of a peer that closes after each reply."""


class PeerBehavior:
    """
    Learns whether the peer closes after each reply; `pause` is the wait before sending, in
    seconds.
    """

    __slots__ = ("pause",)

    def __init__(self) -> None:
        self.pause = 0.0

    def replied(self, exchanges: int) -> None:
        """
        Record the n-th reply of a connection. After a second one the peer keeps
        connections open.
        """
        if exchanges > 1:
            self.pause = 0.0

    def hung_up(self, exchanges: int, *, in_flight: bool) -> None:
        """Record that the peer closed a connection after this many replies."""
        if exchanges == 1 or (exchanges and in_flight):
            self.pause = HANGUP_WAIT_SECONDS


class PendingRequest:
    """One payload and its future reply."""

    __slots__ = ("framed", "payload", "reply", "stored")

    def __init__(self, payload: bytes, withdraw: Callable[["PendingRequest"], None]) -> None:
        self.payload = payload
        self.framed = checked_frame(payload)
        self.reply: Deferred[bytes] = Deferred(lambda _: withdraw(self))
        self.stored = False
        """Whether its commit block has arrived (MLLP release 2)."""

    def fail(self, error: MLLPError) -> None:
        """Fail the reply, unless it was cancelled."""
        if not self.reply.called:
            self.reply.errback(error)


class RequestQueue:
    """Requests in the order of `send`."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: deque[PendingRequest] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    def append(self, request: PendingRequest) -> None:
        self._requests.append(request)

    def pop_first(self) -> PendingRequest:
        """Remove and return the first request."""
        return self._requests.popleft()

    def remove(self, request: PendingRequest) -> None:
        if request in self._requests:
            self._requests.remove(request)

    def fail_all(self, cause: NotConnected) -> None:
        """Fail all requests in order: nothing was sent."""
        requests, self._requests = self._requests, deque()
        for request in requests:
            request.fail(NotConnected(cause.cause, is_tls=cause.is_tls))


CLOSE_GRACE_SECONDS = 1.0
"""Seconds for which `close` waits for the peer's TLS close."""

ReplyMatcher = Callable[[bytes, bytes], bool]
"""True if a reply (second argument) answers a payload (first argument)."""

FurtherReplyHandler = Callable[[bytes], Deferred[bool]]
"""
Takes a reply that does not answer the payload in flight; True if it is about an earlier
payload. A failure counts as yes.
"""

MAX_UNDECIDED = 64
"""Replies that the handler has not decided on; with more of them, nothing is read."""


def no_further_replies(_reply: bytes) -> Deferred[bool]:
    """Decide that no reply is about an earlier payload."""
    return succeed(False)


class MLLPClient:
    """
    Sends payloads one at a time over a kept connection and returns their replies.

    Payloads leave in the order of `send`. After a `ReplyLost` the connection is closed, so that
    a late reply cannot be taken for the next payload's. Queued payloads are sent over a new
    connection; to keep the order across failures, wait for each reply. If no connection can be
    made, all queued payloads fail with `NotConnected`. `backoff` gets the number of failures
    since the last good reply, from 1, and returns the seconds before the next attempt.

    Some receivers reply to a payload a second time. Such a reply goes to `further_reply`, and the
    client waits on for the reply to the payload in flight. A reply about an unknown payload loses
    the payload in flight (`LossReason.MISMATCH`), or closes an idle connection.
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
        further_reply: FurtherReplyHandler = no_further_replies,
        backoff: Callable[[int], float],
        observer: ClientObserver | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._connect_timeout = connect_timeout
        self._max_frame = max_frame
        self._reply_matches = reply_matches
        self._further_reply = further_reply
        self._undecided = 0
        self._backoff = backoff
        self._observer = observer or ClientObserver()
        self._state = ClientState.DISCONNECTED
        self._failures = 0
        self._waiting = RequestQueue()
        self._in_flight: PendingRequest | None = None
        self._connection: ClientConnection | None = None
        self._connections: ConnectionSet[ClientConnection] = ConnectionSet(
            clock, CLOSE_GRACE_SECONDS
        )  # including dropped connections
        self._peer_behavior = PeerBehavior()
        self._connecting: Deferred[ClientConnection] | None = None
        self._timer: Timer | None = None  # for the probe, or the wait before the next attempt
        self._reply_deadline = Deadline(clock, reply_timeout, self._on_timeout)

    @property
    def state(self) -> ClientState:
        return self._state

    @property
    def waiting(self) -> int:
        """How many payloads have not been sent yet."""
        return len(self._waiting)

    def send(self, payload: bytes) -> Deferred[bytes]:
        """
        Send one payload and return its reply.

        Fails with `NotConnected`, `ReplyLost` or `Unframeable`. Cancelling removes a queued
        payload; if it was sent already, the connection is closed.
        """
        if self._state is ClientState.CLOSED:
            return fail(NotConnected())
        try:
            request = PendingRequest(payload, self._withdraw)
        except Unframeable as error:
            return fail(error)
        self._waiting.append(request)
        self._send_next()
        return request.reply

    def close(self) -> Deferred[None]:
        """
        Stop for good. Queued payloads were not sent; the reply in flight is lost. Fires when
        closed.
        """
        if self._state is not ClientState.CLOSED:
            self._close_now()
        return self._connections.ended()

    # Sending

    def _send_next(self) -> None:
        """Connect, or send the first queued payload."""
        if not self._waiting:
            return
        if self._state is ClientState.DISCONNECTED:
            self._connect()
        elif self._state is ClientState.READY and self._connection is not None:
            # The reactor reads the socket once before the write: the peer may have closed it.
            self._transition(ClientEvent.WANTED)
            pause = self._peer_behavior.pause if self._connection.replies_received else 0.0
            self._timer = self._clock.callLater(pause, self._send_first)

    def _connect(self) -> None:
        self._transition(ClientEvent.WANTED)
        self._connecting = connect(
            self._endpoint,
            self._make_connection,
            clock=self._clock,
            timeout=self._connect_timeout,
        )
        self._connecting.addCallbacks(self._connected, self._connect_failed)

    def _make_connection(self) -> ClientConnection:
        return ClientConnection(
            self._max_frame,
            on_event=self._on_event,
            on_framing_error=self._on_framing_error,
            on_closed=self._on_closed,
        )

    def _connected(self, connection: ClientConnection) -> None:
        self._connecting = None
        if self._state is not ClientState.CONNECTING:
            connection.abort()
            return
        self._connection = connection
        self._connections.add(connection)
        self._observer.connected()
        self._transition(ClientEvent.CONNECTED)
        self._send_next()

    def _connect_failed(self, failure: Failure) -> None:
        self._connecting = None
        if self._state is ClientState.CONNECTING:
            self._back_off(ClientEvent.CONNECT_FAILED, cause_of(failure))

    def _send_first(self) -> None:
        self._timer = None
        if not self._waiting:
            self._transition(ClientEvent.WITHDRAWN)
            return
        self._transition(ClientEvent.STILL_THERE)
        self._in_flight = self._waiting.pop_first()
        self._reply_deadline.start()
        if self._connection is not None:
            self._connection.write(self._in_flight.framed)

    # Events of the connection

    def _on_event(self, connection: ClientConnection, event: Event) -> None:
        request = self._in_flight
        if not isinstance(event, Frame):
            self._observer.noise(event.length)
        elif request is None:
            if event.truncated or event.payload in COMMIT_BLOCKS:
                self._end_idle(connection)
            else:
                self._decide(connection, event.payload)
        elif event.payload == COMMIT_ACK and not request.stored:  # the reply follows
            request.stored = True
            self._reply_deadline.touch()
        elif (problem := self._reply_problem(request, event)) is LossReason.MISMATCH:
            self._decide(connection, event.payload)
        elif problem:
            self._lose_reply(problem, received=event.payload[:MAX_KEPT_BYTES])
        else:
            self._replied(connection, event.payload)

    def _reply_problem(self, request: PendingRequest, reply: Frame) -> LossReason | None:
        """Return why a frame is not the reply to the payload in flight; None if it is."""
        if reply.truncated or reply.payload in COMMIT_BLOCKS:
            return LossReason.GARBAGE
        try:
            matches = self._reply_matches is None or self._reply_matches(
                request.payload, reply.payload
            )
        except Exception:  # noqa: BLE001  # a reply that the matcher cannot read
            return LossReason.GARBAGE
        return None if matches else LossReason.MISMATCH

    def _decide(self, connection: ClientConnection, reply: bytes) -> None:
        """Find out whether a reply is about an earlier payload."""
        request = self._in_flight
        self._undecided += 1
        if self._undecided >= MAX_UNDECIDED:
            connection.pause()

        def decided(is_known: bool | Failure) -> None:
            self._undecided -= 1
            if not is_known and connection is self._connection and self._in_flight is request:
                if request is None:
                    self._end_idle(connection)
                else:
                    self._lose_reply(LossReason.MISMATCH, received=reply[:MAX_KEPT_BYTES])
            if self._undecided < MAX_UNDECIDED:
                connection.resume()

        self._further_reply(reply).addBoth(decided)

    def _end_idle(self, connection: ClientConnection) -> None:
        """Close a connection on which something came that belongs to no payload."""
        self._observer.unexpected_frame()
        connection.abort()
        self._on_hangup(connection, NotConnected("unexpected frame"))

    def _on_framing_error(self, connection: ClientConnection, error: FramingError) -> None:
        if self._in_flight is not None:
            _, head = connection.describe_unframed()
            self._lose_reply(LossReason.GARBAGE, f"the reply is no frame: {error}", head)
        else:
            connection.abort()
            self._on_hangup(connection, NotConnected("garbage"))

    def _on_closed(self, connection: ClientConnection, reason: Failure) -> None:
        self._observer.disconnected()
        if connection is self._connection:
            self._peer_behavior.hung_up(
                connection.replies_received, in_flight=self._in_flight is not None
            )
            if self._in_flight is not None:
                self._lose_unframed(LossReason.CLOSED, tls_cause_of(reason))
            else:
                self._on_hangup(connection, cause_of(reason))
        self._connections.discard(connection)

    # Outcomes

    def _replied(self, connection: ClientConnection, reply: bytes) -> None:
        request, self._in_flight = self._in_flight, None
        self._reply_deadline.stop()
        self._failures = 0
        connection.replies_received += 1
        self._peer_behavior.replied(connection.replies_received)
        self._transition(ClientEvent.REPLIED)
        if request is not None:
            request.reply.callback(reply)
        self._send_next()

    def _on_timeout(self) -> None:
        self._lose_unframed(LossReason.TIMEOUT)

    def _lose_unframed(self, reason: LossReason, cause: str = "") -> None:
        """Lose the reply; if bytes came without a frame, that is the reason."""
        problem, head = "", b""
        if self._connection is not None:
            problem, head = self._connection.describe_unframed()
        if not problem:
            self._lose_reply(reason, cause)
            return
        ending = " and closed the connection" if reason is LossReason.CLOSED else ""
        self._lose_reply(LossReason.UNFRAMED, problem + ending, head)

    def _lose_reply(self, reason: LossReason, detail: str = "", received: bytes = b"") -> None:
        request = self._abandon()
        self._back_off(ClientEvent.UNANSWERED)
        if request is not None:
            request.fail(ReplyLost(reason, detail, received))

    def _abandon(self) -> PendingRequest | None:
        """Close the connection; return the request in flight."""
        request, self._in_flight = self._in_flight, None
        self._reply_deadline.stop()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        return request

    def _on_hangup(self, connection: ClientConnection, cause: NotConnected) -> None:
        """Reconnect after a close with nothing in flight; back off if it never answered."""
        self._connection = None
        self._stop_timer()
        if connection.replies_received:
            self._transition(ClientEvent.HUNG_UP)
            self._send_next()
        else:
            self._back_off(ClientEvent.REFUSED, cause)

    def _back_off(self, event: ClientEvent, cause: NotConnected | None = None) -> None:
        """Wait before the next attempt. With a `cause`, the queued payloads fail."""
        self._failures += 1
        self._transition(event)
        self._timer = self._clock.callLater(
            max(0.0, self._backoff(self._failures)), self._on_backoff_over
        )
        if cause is not None:
            self._observer.connect_failed(self._failures)
            self._waiting.fail_all(cause)

    def _on_backoff_over(self) -> None:
        self._timer = None
        self._transition(ClientEvent.DUE)
        self._send_next()

    # Ending

    def _withdraw(self, request: PendingRequest) -> None:
        if request is self._in_flight:
            self._abandon()
            self._back_off(ClientEvent.UNANSWERED)
        else:
            self._waiting.remove(request)

    def _close_now(self) -> None:
        self._transition(ClientEvent.CLOSE)
        self._stop_timer()
        if self._connecting is not None:
            self._connecting.cancel()
        connection = self._connection
        if (request := self._in_flight) is not None:
            self._abandon()
            request.fail(ReplyLost(LossReason.CLOSED))
        elif connection is not None:
            self._connection = None
            connection.close()
        self._waiting.fail_all(NotConnected())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _transition(self, event: ClientEvent) -> None:
        self._state = next_state(self._state, event)
