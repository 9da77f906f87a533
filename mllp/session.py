"""
The session of a server connection: it passes frames to the handler, and writes the replies in the
order of the frames.

Limits the number of unanswered frames and the time of a frame. Knows no transport: it gets
bytes, a read gate, and functions to write and to end.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from twisted.python.failure import Failure

from mllp.contract import Deadline, ListenerContext, Peer
from mllp.errors import (
    FrameMemoryExhausted,
    FrameTimedOut,
    FramingError,
    TooMuchNoise,
    TruncatedFrame,
)
from mllp.framing import COMMIT_BLOCKS, Frame, FrameReader, frame
from mllp.memory_budget import RESERVE
from mllp.transport import PauseReason, ReadGate


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

    def hold(self, reason: PauseReason) -> None:
        """
        Stop reading. The pause does not count for the frame's time limit.

        A pause for memory does count: a frame that never ends must not wait for ever.
        """
        self._gate.hold(reason)
        if reason is not PauseReason.MEMORY:
            self._deadline.stop()

    def release(self, reason: PauseReason) -> None:
        """Remove a reason to pause. Without the last one, reading continues."""
        if self._gate.release(reason):
            self.proceed()
        else:
            self._start_frame_deadline()

    def _resume_after_memory(self) -> None:
        self.release(PauseReason.MEMORY)
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
            self.hold(PauseReason.MEMORY)
        elif PauseReason.MEMORY in self._pause_reasons:
            self.release(PauseReason.MEMORY)

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
        """Pass frames to the handler up to the window; tell whether there may be more."""
        try:
            while not self._pause_reasons and (event := self._reader.next_event()) is not None:
                if isinstance(event, Frame):
                    self._handle_frame(event)
                else:
                    self._count_noise(event.length)
            if self._eof and not self._pause_reasons:
                self.hold(PauseReason.ENDING)
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
            self.hold(PauseReason.WINDOW)
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
        self.hold(PauseReason.ENDING)
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
        self.hold(PauseReason.ENDING)
        if not self._processing:
            self._write_ready_replies()

    def _write_ready_replies(self) -> bool:
        """Write the replies that may leave; tell whether frames can be accepted again."""
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
            return self._gate.release(PauseReason.WINDOW)
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
