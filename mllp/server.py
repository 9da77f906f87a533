"""MLLP server: a Twisted factory. It frames, limits and orders; a handler answers.

The session of a connection passes frames to the handler and writes the replies in the order of
the frames. The module does not bind ports and knows no HL7.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IHalfCloseableProtocol, IHandshakeListener
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer  # type: ignore[import-untyped]  # has no types

from mllp.contract import (
    Clock,
    Deadline,
    Handler,
    ListenerContext,
    NakBuilder,
    Peer,
    ServerLimits,
    ServerObserver,
    Timer,
)
from mllp.errors import (
    FrameMemoryExhausted,
    FrameTimedOut,
    FramingError,
    TooMuchNoise,
    TruncatedFrame,
)
from mllp.framing import COMMIT_BLOCKS, Frame, FrameReader, frame
from mllp.limits import (
    RESERVE,
    Admission,
    AdmissionRefusal,
    ConnectionActivity,
    FrameBudget,
    ReadThrottle,
    SharedConnectionLimit,
    SharedWindow,
    source_of,
)
from mllp.tls import incoming_failure
from mllp.transport import (
    ConnectionSet,
    ImmediateWriter,
    PauseReason,
    ReadGate,
    Transport,
    end_writing,
    is_tls,
    tls_refusal,
    tune,
)


class ReplySlot:
    """The place of one frame's replies."""

    __slots__ = ("failed", "replies", "size")

    def __init__(self, size: int) -> None:
        self.replies: Sequence[bytes] | None = None
        self.failed = False
        self.size = size
        """Size of the frame in bytes."""


class ReplyQueue:
    """The unanswered frames of one connection, oldest first."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: deque[ReplySlot] = deque()

    def __len__(self) -> int:
        return len(self._slots)

    def reserve(self, size: int = 0) -> ReplySlot:
        """Add a slot for a frame of `size` bytes."""
        slot = ReplySlot(size)
        self._slots.append(slot)
        return slot

    def take_ready(self) -> list[bytes]:
        """
        Remove and return the payloads that may leave: those before the first unanswered
        frame.
        """
        payloads: list[bytes] = []
        slots = self._slots
        while slots and not slots[0].failed and (replies := slots[0].replies) is not None:
            payloads += replies
            slots.popleft()
        return payloads

    @property
    def is_blocked(self) -> bool:
        """Whether the first frame failed: later replies must not pass it."""
        return bool(self._slots) and self._slots[0].failed


MAX_HEAD_BYTES = 4096
"""Bytes of an abandoned frame that `NakBuilder` gets."""

MAX_NOISE = 2**20
"""Bytes outside of frames, from one frame to the next, after which a connection is closed."""

_MEMORY_ONLY = {PauseReason.MEMORY}


class ServerSession:
    """Reads frames while the gate is open, and calls `end` after the last reply is written."""

    def __init__(
        self,
        context: ListenerContext,
        peer: Peer,
        gate: ReadGate,
        *,
        source: str,
        write: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> None:
        self._context = context
        self._handle = context.handle
        self._observer, self._window = context.observer, context.window
        self._peer = peer
        self._gate = gate
        self._pause_reasons = gate.reasons
        self._write = write
        self._end = end
        self._reader = FrameReader(context.limits.max_frame)
        self._replies = ReplyQueue()
        self._processing = False
        self._eof = False
        self._stopped = False
        timeout = context.limits.frame_timeout
        self._deadline = Deadline(context.clock, timeout, self._on_frame_timeout)
        self.frame_started_at = 0.0
        """When the unfinished frame began, in seconds of the clock; else 0."""
        self._noise_bytes = 0  # since the last frame
        self._unanswered_bytes = 0
        self._memory = context.budget.account(
            source, resume=self._resume_after_memory, refuse=self._refuse_for_memory
        )

    @property
    def unanswered(self) -> int:
        """How many frames have arrived and are not answered."""
        return len(self._replies)

    @property
    def is_idle(self) -> bool:
        """Whether all frames are answered and none has begun."""
        return not self._replies and not self._reader.in_frame

    @property
    def in_frame(self) -> bool:
        """Whether a frame has begun and not ended."""
        return self._reader.in_frame

    def receive(self, data: bytes) -> float:
        """Handle bytes from the peer; return the seconds to pause before the next read."""
        if not self._processing and not self._pause_reasons and (whole := self._reader.whole(data)):
            self._context.throttle.ordinary_frames += 1
            self._handle_frame(whole)
            if self._unanswered_bytes > RESERVE:
                self._report_memory()
            return 0.0
        self._reader.receive(data)
        self.proceed()
        self._report_memory()
        return self._throttle(len(data)) if self._reader.in_large_frame else 0.0

    def _throttle(self, size: int) -> float:
        """Return the pause that lets others be served; the frame's time limit does not count it."""
        pause = self._context.throttle.pause_after(size, self._context.clock.seconds())
        self._deadline.postpone(pause)
        return pause

    def receive_eof(self) -> None:
        """Handle the end of the stream; frames that have arrived are still answered."""
        self._eof = True
        self.proceed()

    def pause(self, reason: PauseReason) -> None:
        """
        Stop reading. The pause does not count for the frame's time limit.

        A pause for memory does count: a frame that never ends must not wait for ever.
        """
        self._gate.pause(reason)
        if reason is not PauseReason.MEMORY:
            self._deadline.stop()

    def resume(self, reason: PauseReason) -> None:
        """Remove a reason to pause. Without the last one, reading continues."""
        if self._gate.resume(reason):
            self.proceed()
        else:
            self._start_frame_deadline()

    def _resume_after_memory(self) -> None:
        self.resume(PauseReason.MEMORY)
        self._report_memory()

    def _refuse_for_memory(self) -> None:
        """Refuse the unfinished frame: its memory is needed for others."""
        self._refuse_frame(FrameMemoryExhausted(self._reader.received))
        if not self._processing:
            self._write_ready_replies()

    def _report_memory(self) -> None:
        """Report the memory of this connection, and stop reading if it is too much."""
        size = self._unanswered_bytes + self._reader.received
        if size <= RESERVE and not self._memory.charged:
            return
        if (
            not self._memory.report(self._unanswered_bytes, self._reader.received)
            and not self._stopped
        ):
            self.pause(PauseReason.MEMORY)
        elif PauseReason.MEMORY in self._pause_reasons:
            self.resume(PauseReason.MEMORY)

    def _drop_frame(self) -> None:
        """Release the bytes of the unfinished frame."""
        self._reader.discard()
        self._report_memory()

    def stop(self) -> None:
        """Handle the end of the connection: nothing can be read or written any more."""
        self._deadline.stop()
        if self._stopped:
            return
        self._stopped = True
        if self._reader.in_frame and PauseReason.ENDING not in self._pause_reasons:
            error = TruncatedFrame(self._reader.received)
            self._observer.frame_refused(error)
            with suppress(Exception):  # the connection is gone
                self._context.on_unframed(error, self._reader.head(MAX_HEAD_BYTES))
        self._drop_frame()
        if self._replies:
            self._observer.replies_dropped(len(self._replies))

    # Frames

    def proceed(self) -> None:
        """Pass received frames to the handler. Not re-entrant: a handler may answer at once."""
        if self._processing:
            return
        self._processing = True
        try:
            while self._process_events():
                pass
        finally:
            self._processing = False
        self._start_frame_deadline()

    def _start_frame_deadline(self) -> None:
        """Start the time limit of an unfinished frame that we read."""
        if not self._reader.in_frame or self._deadline.running or self._stopped:
            return
        self.frame_started_at = self.frame_started_at or self._context.clock.seconds()
        if not self._pause_reasons or self._pause_reasons == _MEMORY_ONLY:
            self._deadline.start()

    def _process_events(self) -> bool:
        """Pass frames to the handler up to the window; True if there may be more."""
        try:
            while not self._pause_reasons and (event := self._reader.next_event()) is not None:
                if isinstance(event, Frame):
                    self._handle_frame(event)
                else:
                    self._count_noise(event.length)
            if self._eof and not self._pause_reasons:
                self.pause(PauseReason.ENDING)
                self._reader.receive_eof()
        except FramingError as error:
            self._refuse_frame(error)
        return self._write_ready_replies()

    def _count_noise(self, noise: int) -> None:
        """Count bytes outside of frames. Raises TooMuchNoise."""
        self._observer.noise(noise)
        self._noise_bytes += noise
        if self._noise_bytes > MAX_NOISE:
            raise TooMuchNoise(MAX_NOISE)

    def _handle_frame(self, arrived: Frame) -> None:
        self._deadline.stop()
        self._noise_bytes, self.frame_started_at = 0, 0.0
        if len(arrived.payload) == 1 and arrived.payload in COMMIT_BLOCKS:
            self._observer.noise(1)  # the block acknowledges our reply and gets no reply
            return
        size = len(arrived.payload)
        self._observer.frame_received(size)
        slot = self._replies.reserve(size)
        self._unanswered_bytes += size
        self._window.unanswered += 1
        if len(self._replies) >= self._window.size:
            self.pause(PauseReason.WINDOW)
        try:
            self._handle(arrived, self._peer, partial(self._on_replies, slot))
        except Exception:  # noqa: BLE001  # the connection closes without an answer
            self._unanswered_bytes -= slot.size
            self._window.unanswered -= 1
            self._on_failure(slot, Failure())  # type: ignore[no-untyped-call]

    def _refuse_frame(self, error: FramingError) -> None:
        """
        Send the refusal after the replies to earlier frames: the stream cannot be read any
        further.
        """
        self.pause(PauseReason.ENDING)
        self._observer.frame_refused(error)
        slot = self._replies.reserve()
        head = self._reader.head(MAX_HEAD_BYTES)
        self._drop_frame()
        if isinstance(error, TooMuchNoise):  # there is no frame to answer
            slot.replies = ()
            return
        try:
            nak = self._context.on_unframed(error, head)
        except Exception:  # noqa: BLE001  # the connection closes without an answer
            self._on_failure(slot, Failure())  # type: ignore[no-untyped-call]
        else:
            # A peer that closed its side does not wait for an answer.
            slot.replies = () if nak is None or isinstance(error, TruncatedFrame) else (nak,)

    def _on_frame_timeout(self) -> None:
        timeout, received = self._context.limits.frame_timeout, self._reader.received
        waited = PauseReason.MEMORY in self._pause_reasons
        error = FrameMemoryExhausted(received) if waited else FrameTimedOut(received, timeout)
        self._refuse_frame(error)
        self._write_ready_replies()

    # Replies

    def _on_replies(self, slot: ReplySlot, replies: Sequence[bytes] | Failure) -> None:
        self._unanswered_bytes -= slot.size
        self._window.unanswered -= 1
        if self._memory.charged:
            self._report_memory()
        if isinstance(replies, Failure):
            self._on_failure(slot, replies)
            return
        slot.replies = replies
        if not self._processing and self._write_ready_replies():
            self.proceed()

    def _on_failure(self, slot: ReplySlot, failure: Failure) -> None:
        slot.failed = True
        self._observer.handler_failed(*failure_location(failure))
        self.pause(PauseReason.ENDING)
        if not self._processing:
            self._write_ready_replies()

    def _write_ready_replies(self) -> bool:
        """Write the replies that may leave; True if frames can be accepted again."""
        if self._stopped:
            return False
        if payloads := self._replies.take_ready():
            self._write(b"".join(map(frame, payloads)))
        if not self._pause_reasons:
            return False
        if self._replies.is_blocked or (
            PauseReason.ENDING in self._pause_reasons and not self._replies
        ):
            self.stop()
            self._end()
            return False
        # Continue at half of the window: at a full one, frames would be read one by one.
        if len(self._replies) <= self._window.size // 2:
            return self._gate.resume(PauseReason.WINDOW)
        return False


def failure_location(failure: Failure) -> tuple[str, str]:
    """Return the class of an exception and the file:line that raised it, without its text."""
    kind = failure.type.__name__ if failure.type else "unknown"
    traceback = failure.getTracebackObject()  # type: ignore[no-untyped-call]
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return kind, "?"
    code = traceback.tb_frame.f_code
    return kind, f"{code.co_filename.rsplit('/', 1)[-1]}:{traceback.tb_lineno}"


LINGER_SECONDS = 2.0
"""
Seconds for which a connection that we end still reads: closing with unread bytes resets the
connection, and a reset can overtake our last reply.
"""


@implementer(IHalfCloseableProtocol, IHandshakeListener)
class ServerConnection(Protocol):
    """One connection, and the `Peer` for its handler."""

    transport: Transport  # type: ignore[assignment]  # Twisted's is optional and knows less
    accepts_later_frames = True

    def __init__(
        self,
        context: ListenerContext,
        connection_id: int,
        on_gone: Callable[["ServerConnection"], None],
        source: str = "",
    ) -> None:
        self.host, self.port, self.connection_id = "", 0, connection_id
        self.source = source
        self._active_at = context.clock.seconds()  # time of accept, or of the last reply
        self._observer = context.observer
        self._on_gone = on_gone
        self._gate = ReadGate()
        self._eof = False  # whether the peer has closed its sending side
        self._in_handshake = False  # whether the TLS handshake is in progress
        self._ended = False  # whether nothing more is written
        limits, clock = context.limits, context.clock
        self._clock = clock
        self._pause_timer: Timer | None = None  # runs while large frames arrive too fast
        self._idle = Deadline(clock, limits.idle_timeout, self._on_idle_timeout)
        self._stalled = Deadline(clock, limits.write_timeout, self.abort)
        self._handshake = Deadline(clock, limits.frame_timeout, self._on_handshake_timeout)
        self._handshake_timeout, self._handshake_timed_out = limits.frame_timeout, False
        self._lingering = Deadline(clock, LINGER_SECONDS, self.abort)
        self._session = ServerSession(
            context, self, self._gate, source=source, write=self._write, end=self._end
        )

    # Called by the transport

    @override
    def connectionMade(self) -> None:
        address = self.transport.getPeer()
        self.host, self.port = getattr(address, "host", ""), getattr(address, "port", 0)
        tune(self.transport)
        self._outlet = ImmediateWriter(self.transport)
        self.transport.registerProducer(self, True)
        self._observer.connection_opened(self)
        self._gate.attach(self.transport)
        self._idle.start()
        if is_tls(self.transport):
            self._in_handshake = True
            self._handshake.start()

    def handshakeCompleted(self) -> None:  # noqa: N802  # Twisted's name
        """Handle the end of the TLS handshake."""
        self._in_handshake = False
        self._handshake.stop()

    @override
    def dataReceived(self, data: bytes) -> None:
        if not self._ended:
            self._idle.touch()
            pause = self._session.receive(data)
            if pause and not self._gate.reasons:
                self.transport.pauseProducing()
                self._pause_timer = self._clock.callLater(pause, self._resume_reading)

    def readConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Handle a half-close: the peer sends no more, but frames are still answered."""
        self._eof = True
        self._gate.detach()
        if self._ended:
            self.transport.loseConnection()
        else:
            self._session.receive_eof()

    def writeConnectionLost(self) -> None:  # noqa: N802  # Twisted's name
        """Do nothing: we ended the writing side ourselves."""

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._ended = True
        self._gate.detach()
        for deadline in (self._handshake, self._idle, self._stalled, self._lingering):
            deadline.stop()
        self._session.stop()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        self._gate.pause(PauseReason.ENDING)
        if self._in_handshake:
            timeout = self._handshake_timeout if self._handshake_timed_out else None
            why = incoming_failure(reason, tls_refusal(self.transport), timed_out=timeout)
            self._observer.handshake_failed(self.host, why)
        self._observer.connection_closed(self)
        self._on_gone(self)

    def pauseProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Stop reading: the peer does not read what we wrote."""
        self._stalled.start()
        self._session.pause(PauseReason.OUTPUT)

    def resumeProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Read again: the peer has read what we wrote."""
        self._stalled.stop()
        self._session.resume(PauseReason.OUTPUT)

    def stopProducing(self) -> None:  # noqa: N802  # Twisted's name
        """Do nothing: `connectionLost` follows."""

    # Called by the factory and the handler

    def send(self, payload: bytes) -> bool:
        """Send a frame that is not a reply; False if the connection is gone or ending."""
        if self._ended:
            return False
        self._outlet.write(frame(payload))
        return True

    def pause(self) -> None:
        """Stop reading until `resume`; frames that have arrived are answered."""
        self._session.pause(PauseReason.OPERATOR)

    def resume(self) -> None:
        """Read again."""
        self._session.resume(PauseReason.OPERATOR)

    def finish(self) -> None:
        """Accept no more frames, answer those that have arrived, close."""
        self._session.pause(PauseReason.ENDING)
        if not self._session.unanswered and not self._ended:
            self._stop_writing()
            self.transport.loseConnection()

    @property
    def activity(self) -> ConnectionActivity:
        """What the connection is doing, for admission control."""
        if self._session.unanswered:
            return ConnectionActivity.BUSY
        return ConnectionActivity.UNFINISHED if self._session.in_frame else ConnectionActivity.IDLE

    @property
    def since(self) -> float:
        """When it became idle, or when its unfinished frame began (seconds of the clock)."""
        return self._session.frame_started_at if self._session.in_frame else self._active_at

    def evict(self) -> None:
        """Close in favour of another connection; an unfinished frame is refused."""
        self._observer.evicted(self.host)
        if self._in_handshake or self._session.in_frame or self._ended:
            self.abort()
        else:
            self.finish()
            self._lingering.start()  # a peer that does not read our last reply must not stay

    def abort(self) -> None:
        """Close now."""
        self.transport.abortConnection()

    def _resume_reading(self) -> None:
        """Read again, unless there is another reason to pause."""
        self._pause_timer = None
        if not self._gate.reasons:
            self.transport.resumeProducing()

    # Called by the session, and timeouts

    def _write(self, data: bytes) -> None:
        self._idle.touch()
        self._active_at = self._clock.seconds()
        self._outlet.write(data)

    def _end(self) -> None:
        """Close so that the peer gets all replies: read and drop what it still sends."""
        self._stop_writing()
        if self._eof:
            self.transport.loseConnection()
        else:
            self._lingering.start()
            self._gate.detach()
            self.transport.resumeProducing()
            end_writing(self.transport)

    def _stop_writing(self) -> None:
        self._ended = True
        self._idle.stop()
        self.transport.unregisterProducer()

    def _on_handshake_timeout(self) -> None:
        self._handshake_timed_out = True
        self.abort()

    def _on_idle_timeout(self) -> None:
        if self._session.is_idle and not self._gate.reasons:
            self.finish()
        else:
            self._idle.start()


def close_without_nak(_error: FramingError, _head: bytes) -> None:
    """Send nothing for an abandoned frame: the connection just closes."""


class _RejectedConnection(Protocol):
    """
    A connection that is closed at accept. (Returning None would not work: TLS wraps the
    protocol.)
    """

    transport: Transport  # type: ignore[assignment]  # Twisted's is optional and knows less

    @override
    def connectionMade(self) -> None:
        self.transport.loseConnection()


class MLLPServerFactory(Factory):
    """
    Makes the connections of one listener.

    `handle` gets every complete frame, truncated ones too (`Frame.truncated`). `clock` is the
    reactor, or a `twisted.internet.task.Clock`.
    """

    noisy = False

    def __init__(
        self,
        handle: Handler,
        limits: ServerLimits | None = None,
        *,
        clock: Clock,
        observer: ServerObserver | None = None,
        on_unframed: NakBuilder = close_without_nak,
        grace: float = 30.0,
        budget: FrameBudget | None = None,
        shared_limit: SharedConnectionLimit | None = None,
    ) -> None:
        """`budget` and `shared_limit` are shared with the other listeners of the process."""
        limits = limits or ServerLimits()
        self._context = ListenerContext(
            handle,
            limits,
            clock,
            observer or ServerObserver(),
            on_unframed,
            ReadThrottle(),
            budget or FrameBudget(),
            SharedWindow(limits.window, limits.shared_window),
        )
        self._admission = Admission(
            limits.max_connections,
            per_source=limits.max_connections_per_source,
            allow=limits.allow,
            shared_limit=shared_limit,
        )
        self._ids = count(1)
        self._connections: ConnectionSet[ServerConnection] = ConnectionSet(clock, grace)
        self._paused = False
        self._draining = False

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    @property
    def paused(self) -> bool:
        return self._paused

    @override
    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        host = getattr(addr, "host", "")
        reason = (
            AdmissionRefusal.DRAINING
            if self._draining
            else self._admission.request(host, self._context.clock.seconds())
        )
        if reason is not None:
            self._context.observer.refused(reason, host)
            return _RejectedConnection()
        connection = ServerConnection(self._context, next(self._ids), self._remove, source_of(host))
        self._admission.enter(connection)
        connection.factory = self
        if self._paused:
            connection.pause()
        self._connections.add(connection)
        return connection

    def _remove(self, connection: ServerConnection) -> None:
        self._admission.leave(connection)
        self._connections.discard(connection)

    def pause(self) -> None:
        """
        Stop reading. Connections stay open and new ones are accepted; received frames are
        answered.
        """
        self._paused = True
        for connection in self._connections.all():
            connection.pause()

    def resume(self) -> None:
        """Read again."""
        self._paused = False
        for connection in self._connections.all():
            connection.resume()

    def drain(self) -> Deferred[None]:
        """
        Stop for good: stop reading, answer the frames that have arrived, close.

        Fires when all connections have ended; after `grace` seconds they are aborted. The owner
        of the listening port stops it first.
        """
        self._draining = True
        for connection in self._connections.all():
            connection.finish()
        return self._connections.ended()
