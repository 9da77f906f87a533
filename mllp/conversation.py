"""
The turns on one connection of a server: frames to the handler, replies out in frame order.

Bounds what is in hand, and how long a frame may take. Knows no transport: it is given the
bytes, a gate, a way to write and a way to end.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from twisted.python.failure import Failure

from mllp.bundle import REPLIES
from mllp.contract import Peer, Service
from mllp.deadline import Deadline
from mllp.errors import FrameTimedOut, FramingError, TruncatedFrame
from mllp.framing import COMMIT_BLOCKS, Frame, FrameReader, frame
from mllp.gate import Gate, Hold
from mllp.replies import ReplyQueue, Slot

HEAD = 4096
"""How much of a frame that is given up `NakBuilder` gets to see."""


class Conversation:
    """Reads frames while the gate is open, and calls `end` when the last reply is written."""

    def __init__(
        self,
        service: Service,
        peer: Peer,
        gate: Gate,
        *,
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

    @property
    def in_hand(self) -> int:
        """How many frames have come and are not answered."""
        return len(self._replies)

    @property
    def quiet(self) -> bool:
        """Whether nothing is in hand and no frame has begun."""
        return not self._replies and not self._reader.in_frame

    def receive(self, data: bytes) -> float:
        """Take bytes from the peer; give the seconds for which no more should be read."""
        if not self._pumping and not self._holds and (whole := self._reader.whole(data)):
            self._service.pace.others += 1
            self._take(whole)  # nearly always
            return 0.0
        self._reader.receive(data)
        self.proceed()
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
        """Stop reading. The time until it goes on is no delay of the peer's."""
        self._gate.hold(reason)
        self._deadline.stop()

    def let_go(self, reason: Hold) -> None:
        """Go on, if this was the last reason not to."""
        if self._gate.let_go(reason):
            self.proceed()

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
        if self._reader.in_frame and not self._holds and not self._deadline.running:
            self._deadline.start()

    def _advance(self) -> bool:
        """Hand over frames as far as the window allows; say whether there may be more."""
        try:
            while not self._holds and (event := self._reader.next_event()) is not None:
                if isinstance(event, Frame):
                    self._take(event)
                else:
                    self._observer.noise(event.length)
            if self._eof and not self._holds:
                self.hold(Hold.ENDING)
                self._reader.receive_eof()
        except FramingError as error:
            self._give_up(error)
        return self._flush()

    def _take(self, arrived: Frame) -> None:
        self._deadline.stop()
        if len(arrived.payload) == 1 and arrived.payload in COMMIT_BLOCKS:
            self._observer.noise(1)  # it answers a reply of ours: an answer to it would have no end
            return
        self._observer.frame_received(len(arrived.payload))
        slot = self._replies.reserve()
        if len(self._replies) >= self._window:
            self.hold(Hold.WINDOW)
        try:
            self._direct(arrived, self._peer, partial(self._told, slot))
        except Exception:  # noqa: BLE001  # whatever it is, the connection closes unanswered
            self._failed(slot, Failure())  # type: ignore[no-untyped-call]

    def _give_up(self, error: FramingError) -> None:
        """Say farewell after the replies in hand: the stream cannot be trusted any further."""
        self.hold(Hold.ENDING)
        self._observer.frame_refused(error)
        slot = self._replies.reserve()
        try:
            nak = self._service.on_unframed(error, self._reader.head(HEAD))
        except Exception:  # noqa: BLE001  # as for a handler: the connection closes unanswered
            self._failed(slot, Failure())  # type: ignore[no-untyped-call]
        else:
            # Who has said that nothing more comes does not wait for a word either.
            slot.replies = () if nak is None or isinstance(error, TruncatedFrame) else (nak,)

    def _frame_overdue(self) -> None:
        timeout = self._service.limits.frame_timeout
        self._give_up(FrameTimedOut(self._reader.received, timeout))
        self._flush()

    # Replies out

    def _told(self, slot: Slot, replies: Sequence[bytes] | Failure) -> None:
        if isinstance(replies, Failure):
            self._failed(slot, replies)
            return
        slot.replies = replies
        if not self._pumping and not REPLIES.takes(self):
            self.flush_ready()

    def flush_ready(self) -> None:
        """Write what may leave, and go on."""
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
