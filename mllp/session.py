"""One server connection: frames to the handler, replies out in the order of their frames.

Pure: knows neither transport nor handler.

Bounds what is in hand, and how long a frame may take. Knows no transport: it is given the
bytes, a gate, a way to write and a way to end.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from twisted.python.failure import Failure

from mllp.contract import Deadline, Peer, Service
from mllp.errors import (
    FrameMemoryExhausted,
    FrameTimedOut,
    FramingError,
    TooMuchNoise,
    TruncatedFrame,
)
from mllp.framing import COMMIT_BLOCKS, Frame, FrameReader, frame
from mllp.memory_budget import RESERVE
from mllp.transport import Gate, Hold


class Slot:
    """The place of one frame's replies."""

    __slots__ = ("failed", "replies", "size")

    def __init__(self, size: int) -> None:
        self.replies: Sequence[bytes] | None = None
        self.failed = False
        self.size = size
        """Bytes of the frame."""


class ReplyQueue:
    """The frames of one connection that are in hand, oldest first."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()

    def __len__(self) -> int:
        return len(self._slots)

    def reserve(self, size: int = 0) -> Slot:
        """Take the next place in the line, for a frame of so many bytes."""
        slot = Slot(size)
        self._slots.append(slot)
        return slot

    def ready(self) -> list[bytes]:
        """Take all payloads that may leave now: those before the first frame still in hand."""
        payloads: list[bytes] = []
        slots = self._slots
        while slots and not slots[0].failed and (replies := slots[0].replies) is not None:
            payloads += replies
            slots.popleft()
        return payloads

    @property
    def broken(self) -> bool:
        """Whether it is the turn of a frame that will not be answered: nothing may pass it."""
        return bool(self._slots) and self._slots[0].failed


HEAD = 4096
"""How much of a frame that is given up `NakBuilder` gets to see."""

MOST_NOISE = 2**20
"""Bytes outside of frames, from one frame to the next, after which a connection is closed."""

_MEMORY_ONLY = {Hold.MEMORY}


class Conversation:
    """Reads frames while the gate is open, and calls `end` when the last reply is written."""

    def __init__(
        self,
        service: Service,
        peer: Peer,
        gate: Gate,
        *,
        source: str,
        write: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> None:
        self._service = service
        self._direct = service.direct
        self._observer, self._window = service.observer, service.limits.window
        self._peer = peer
        self._gate = gate
        self._holds = gate.holds
        self._write = write
        self._end = end
        self._reader = FrameReader(service.limits.max_frame)
        self._replies = ReplyQueue()
        self._pumping = False
        self._eof = False
        self._over = False
        timeout = service.limits.frame_timeout
        self._deadline = Deadline(service.clock, timeout, self._frame_overdue)
        self.began = 0.0
        """When the unfinished frame began, in seconds of the service's clock; else 0."""
        self._noise = 0  # bytes since the last frame
        self._unanswered = 0  # bytes of the frames that have come and are not answered
        self._memory = service.budget.account(
            source, resume=self._go_on_reading, refuse=self._give_memory_back
        )

    @property
    def in_hand(self) -> int:
        """How many frames have come and are not answered."""
        return len(self._replies)

    @property
    def quiet(self) -> bool:
        """Whether nothing is in hand and no frame has begun."""
        return not self._replies and not self._reader.in_frame

    @property
    def frame_began(self) -> bool:
        """Whether a frame has begun and not ended."""
        return self._reader.in_frame

    def receive(self, data: bytes) -> float:
        """Take bytes from the peer; give the seconds for which no more should be read."""
        if not self._pumping and not self._holds and (whole := self._reader.whole(data)):
            self._service.pace.others += 1
            self._take(whole)  # nearly always
            if self._unanswered > RESERVE:
                self._report_memory()
            return 0.0
        self._reader.receive(data)
        self.proceed()
        self._report_memory()
        return self._rest(len(data)) if self._reader.in_large_frame else 0.0

    def _rest(self, size: int) -> float:
        """Give way to the others for a while, which is no delay of the peer's."""
        rest = self._service.pace.rest(size, self._service.clock.seconds())
        self._deadline.put_off(rest)
        return rest

    def receive_eof(self) -> None:
        """Take note that the peer will send no more; what is in hand is still answered."""
        self._eof = True
        self.proceed()

    def hold(self, reason: Hold) -> None:
        """
        Stop reading. The time until it goes on does not count for the frame's time limit.

        Time spent waiting for memory does: a frame that never ends must not wait for ever.
        """
        self._gate.hold(reason)
        if reason is not Hold.MEMORY:
            self._deadline.stop()

    def let_go(self, reason: Hold) -> None:
        """Go on, if this was the last reason not to."""
        if self._gate.let_go(reason):
            self.proceed()
        else:
            self._watch_frame()

    def _go_on_reading(self) -> None:
        self.let_go(Hold.MEMORY)
        self._report_memory()

    def _give_memory_back(self) -> None:
        """Refuse the unfinished frame: its memory is needed for others."""
        self._give_up(FrameMemoryExhausted(self._reader.received))
        if not self._pumping:
            self._flush()

    def _report_memory(self) -> None:
        """Account for what this connection holds, and stop reading where that is too much."""
        size = self._unanswered + self._reader.received
        if size <= RESERVE and not self._memory.charged:  # nearly always
            return
        if not self._memory.report(self._unanswered, self._reader.received) and not self._over:
            self.hold(Hold.MEMORY)
        elif Hold.MEMORY in self._holds:
            self.let_go(Hold.MEMORY)

    def _drop_frame(self) -> None:
        """Release the bytes of the unfinished frame."""
        self._reader.discard()
        self._report_memory()

    def stop(self) -> None:
        """Take note that the connection is gone: nothing can be read or written any more."""
        self._deadline.stop()
        if self._over:
            return
        self._over = True
        if self._reader.in_frame and Hold.ENDING not in self._holds:
            error = TruncatedFrame(self._reader.received)
            self._observer.frame_refused(error)
            with suppress(Exception):  # there is nobody left to tell
                self._service.on_unframed(error, self._reader.head(HEAD))
        self._drop_frame()
        if self._replies:
            self._observer.replies_dropped(len(self._replies))

    # Frames in

    def proceed(self) -> None:
        """Hand over what has arrived. Not re-entrant: a handler may answer at once."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._advance():
                pass
        finally:
            self._pumping = False
        self._watch_frame()

    def _watch_frame(self) -> None:
        """Start the time limit of a frame that has begun and that we read."""
        if not self._reader.in_frame or self._deadline.running or self._over:
            return
        self.began = self.began or self._service.clock.seconds()
        if not self._holds or self._holds == _MEMORY_ONLY:
            self._deadline.start()

    def _advance(self) -> bool:
        """Hand over frames as far as the window allows; say whether there may be more."""
        try:
            while not self._holds and (event := self._reader.next_event()) is not None:
                if isinstance(event, Frame):
                    self._take(event)
                else:
                    self._skip(event.length)
            if self._eof and not self._holds:
                self.hold(Hold.ENDING)
                self._reader.receive_eof()
        except FramingError as error:
            self._give_up(error)
        return self._flush()

    def _skip(self, noise: int) -> None:
        """Count bytes outside of frames. Raises TooMuchNoise."""
        self._observer.noise(noise)
        self._noise += noise
        if self._noise > MOST_NOISE:
            raise TooMuchNoise(MOST_NOISE)

    def _take(self, arrived: Frame) -> None:
        self._deadline.stop()
        self._noise, self.began = 0, 0.0
        if len(arrived.payload) == 1 and arrived.payload in COMMIT_BLOCKS:
            self._observer.noise(1)  # it answers a reply of ours: an answer to it would have no end
            return
        size = len(arrived.payload)
        self._observer.frame_received(size)
        slot = self._replies.reserve(size)
        self._unanswered += size
        if len(self._replies) >= self._window:
            self.hold(Hold.WINDOW)
        try:
            self._direct(arrived, self._peer, partial(self._told, slot))
        except Exception:  # noqa: BLE001  # whatever it is, the connection closes unanswered
            self._unanswered -= slot.size
            self._failed(slot, Failure())  # type: ignore[no-untyped-call]

    def _give_up(self, error: FramingError) -> None:
        """Say farewell after the replies in hand: the stream cannot be trusted any further."""
        self.hold(Hold.ENDING)
        self._observer.frame_refused(error)
        slot = self._replies.reserve()
        head = self._reader.head(HEAD)
        self._drop_frame()
        if isinstance(error, TooMuchNoise):  # there is no frame to answer
            slot.replies = ()
            return
        try:
            nak = self._service.on_unframed(error, head)
        except Exception:  # noqa: BLE001  # as for a handler: the connection closes unanswered
            self._failed(slot, Failure())  # type: ignore[no-untyped-call]
        else:
            # Who has said that nothing more comes does not wait for a word either.
            slot.replies = () if nak is None or isinstance(error, TruncatedFrame) else (nak,)

    def _frame_overdue(self) -> None:
        timeout, received = self._service.limits.frame_timeout, self._reader.received
        waited = Hold.MEMORY in self._holds
        error = FrameMemoryExhausted(received) if waited else FrameTimedOut(received, timeout)
        self._give_up(error)
        self._flush()

    # Replies out

    def _told(self, slot: Slot, replies: Sequence[bytes] | Failure) -> None:
        self._unanswered -= slot.size
        if self._memory.charged:
            self._report_memory()
        if isinstance(replies, Failure):
            self._failed(slot, replies)
            return
        slot.replies = replies
        if not self._pumping and self._flush():
            self.proceed()

    def _failed(self, slot: Slot, failure: Failure) -> None:
        slot.failed = True
        self._observer.handler_failed(*whereabouts(failure))
        self.hold(Hold.ENDING)
        if not self._pumping:
            self._flush()

    def _flush(self) -> bool:
        """Write what may leave, in one go; say whether frames can be taken again."""
        if self._over:
            return False
        if payloads := self._replies.ready():
            self._write(b"".join(map(frame, payloads)))
        if not self._holds:
            return False
        if self._replies.broken or (Hold.ENDING in self._holds and not self._replies):
            self.stop()
            self._end()
            return False
        # Half the window at a time, or a full window would be read frame by frame.
        if len(self._replies) <= self._window // 2:
            return self._gate.let_go(Hold.WINDOW)
        return False


def whereabouts(failure: Failure) -> tuple[str, str]:
    """Return the class of an exception and the file:line that raised it, never its text."""
    kind = failure.type.__name__ if failure.type else "unknown"
    traceback = failure.getTracebackObject()  # type: ignore[no-untyped-call]
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return kind, "?"
    code = traceback.tb_frame.f_code
    return kind, f"{code.co_filename.rsplit('/', 1)[-1]}:{traceback.tb_lineno}"
