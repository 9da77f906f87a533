"""MLLP framing: find frames in a byte stream, and wrap payloads into frames.

    <VT> payload <FS><CR>

Pure: pass bytes to `FrameReader.receive`, take events from `next_event`. `mllp.server` and
`mllp.client` are Twisted protocols around this module.
"""

from dataclasses import dataclass
from io import BytesIO
from typing import NamedTuple

from mllp.errors import FrameTooLarge, TruncatedFrame, Unframeable

START = b"\x0b"
END = b"\x1c\x0d"

COMMIT_ACK, COMMIT_NAK = b"\x06", b"\x15"
"""Payloads of the commit blocks of MLLP release 2: stored, and not stored."""

COMMIT_BLOCKS = frozenset({COMMIT_ACK, COMMIT_NAK})

DEFAULT_MAX_PAYLOAD = 16 * 2**20

_VT, _FS = START[0], END[:1]
_LARGE = 256 * 2**10  # bytes; a frame of this size is assembled as it arrives


class Frame(NamedTuple):
    """
    One payload, exactly as between its delimiters.

    `truncated`: the payload contains another START. Either two messages ran together because the
    end of the first one was lost, or the charset is one that MLLP cannot carry (UTF-16, UTF-32).
    Bytes are missing or misplaced: such a frame must never get a positive answer.
    """

    payload: bytes
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Noise:
    """
    Bytes outside of frames: their number, and the first ones if the reader keeps them.

    One stretch may come in several parts.
    """

    length: int
    head: bytes = b""


Event = Frame | Noise


def frame(payload: bytes) -> bytes:
    return START + payload + END


def checked_frame(payload: bytes) -> bytes:
    """Wrap a payload in a frame; raise `Unframeable` if it contains the end of one."""
    if (at := payload.find(END)) >= 0:
        raise Unframeable(at)
    return START + payload + END


class FrameReader:
    """
    Turns received bytes into events, in time linear in their number.

    FS alone ends nothing: a lone 0x1C is payload. (None of the multi-byte charsets that HL7 v2
    names for MLLP uses 0x0B, 0x0D or 0x1C as a trail byte: GB 18030 and Big5 start those at
    0x30, Shift-JIS at 0x40; UTF-8 and EUC have none below 0x80.) Memory is bounded by
    `max_payload` plus one `receive`: noise is not kept. A large payload is assembled as it
    arrives, so that its end costs no more than that of a small one.
    """

    __slots__ = (
        *("_before", "_buffer", "_in_frame", "_max_noise", "_max_payload", "_searched"),
        "_truncated",
    )

    def __init__(self, max_payload: int = DEFAULT_MAX_PAYLOAD, *, max_noise: int = 0) -> None:
        """`max_noise` is how many bytes of each `Noise` are kept."""
        self._max_payload = max_payload
        self._max_noise = max_noise
        self._buffer = bytearray()
        self._in_frame = False
        self._searched = 0  # END cannot begin before this offset
        self._before: BytesIO | None = None  # the part of a large frame before the buffer
        self._truncated = False  # whether that part contains START

    @property
    def in_frame(self) -> bool:
        """Whether a frame has begun and not ended, as far as `next_event` has read."""
        return self._in_frame

    @property
    def received(self) -> int:
        """Bytes of the open frame so far; 0 between frames."""
        return self._length_before + len(self._buffer) if self._in_frame else 0

    @property
    def ends_with_half_an_end(self) -> bool:
        """Whether the last byte of the open frame is FS, without the CR that ends the frame."""
        return self._in_frame and self._buffer.endswith(_FS)

    @property
    def in_large_frame(self) -> bool:
        """Whether the open frame is assembled piece by piece."""
        return self._before is not None

    def head(self, length: int) -> bytes:
        """Return at most the first `length` bytes of the open frame's payload."""
        if self._before is not None:
            with self._before.getbuffer() as whole:
                return bytes(whole[:length])
        return bytes(self._buffer[:length]) if self._in_frame else b""

    @property
    def _length_before(self) -> int:
        return 0 if self._before is None else self._before.tell()

    def receive(self, data: bytes) -> None:
        """Add bytes from the peer; `next_event` parses them."""
        self._buffer += data

    def discard(self) -> None:
        """Release the memory of the open frame. The reader cannot be used afterwards."""
        self._buffer, self._before = bytearray(), None
        self._in_frame, self._searched = False, 0

    def whole(self, data: bytes) -> Frame | None:
        """
        Return the frame that these bytes are, if nothing is buffered and they are exactly one
        frame.

        Otherwise None, and the bytes must be passed to `receive`. This is the usual case: one
        packet is one frame.
        """
        if self._in_frame or self._buffer:
            return None
        length = len(data) - len(END) - 1
        if (
            0 < length <= self._max_payload
            and data[0] == _VT
            # Searching one byte is ten times as fast as two, and payloads rarely contain FS.
            and (data.find(_FS) == length + 1 or data.find(END) == length + 1)
            and data.endswith(END)
            and data.rfind(START) == 0
        ):
            return Frame(data[1 : -len(END)])
        return None

    def receive_eof(self) -> None:
        """Handle the end of the stream; raise `TruncatedFrame` inside a frame."""
        if self._in_frame:
            raise TruncatedFrame(received=self.received)

    def next_event(self) -> Event | None:
        """
        Return the next event, or None if more bytes are needed.

        Raises `FrameTooLarge`, also before the frame has ended. After that only `head` may be
        called.
        """
        if not self._in_frame:
            if not self._buffer:
                return None
            if self._buffer[0] != _VT:
                return self._skip_noise()
            if found := self._whole_ahead():
                return found
            del self._buffer[:1]
            self._in_frame, self._searched = True, 0
        if self._before is None and self._buffer[:1] == START and not self._searched:
            return self._skip_repeated_starts()
        return self._read_frame()

    def _whole_ahead(self) -> Frame | None:
        """Return the frame at the start of the buffer, if it is complete: the usual case."""
        buffer = self._buffer
        end = buffer.find(_FS)
        if not 1 < end <= min(self._max_payload, _LARGE) or buffer[end : end + len(END)] != END:
            return None
        payload = bytes(buffer[1:end])
        if START in payload:
            return None  # `_read_frame` marks it as truncated
        del buffer[: end + len(END)]
        return Frame(payload)

    def _skip_noise(self) -> Noise:
        """Drop the bytes before START, or all if there is none."""
        at = self._buffer.find(START)
        length = len(self._buffer) if at < 0 else at
        head = bytes(self._buffer[: min(length, self._max_noise)])
        del self._buffer[:length]
        return Noise(length, head)

    def _skip_repeated_starts(self) -> Noise:
        """Let the last of several STARTs in a row begin the frame."""
        before = len(self._buffer)
        self._buffer = self._buffer.lstrip(START)
        return Noise(before - len(self._buffer))

    def _read_frame(self) -> Frame | None:
        buffer = self._buffer
        end = buffer.find(_FS, self._searched)  # ten times as fast as a search for END
        if end >= 0 and buffer[end : end + len(END)] != END:
            end = buffer.find(END, end)  # a payload may contain many FS
        # A buffered FS may be half of END, so it does not count as payload yet.
        length = end if end >= 0 else len(buffer) - buffer.endswith(END[:1])
        if self._length_before + length > self._max_payload:
            raise FrameTooLarge(self._max_payload)
        if self._before is not None or length > _LARGE:
            return self._add(length, ended=end >= 0)
        if end < 0:
            self._searched = length
            return None
        with memoryview(buffer)[:end] as view:
            payload = bytes(view)  # copied once, not twice
        del buffer[: end + len(END)]
        self._in_frame = False
        return Frame(payload, START in payload)

    def _add(self, length: int, *, ended: bool) -> Frame | None:
        """Append bytes of the buffer to the open large frame; return it if complete."""
        buffer, before = self._buffer, self._before or BytesIO()
        with memoryview(buffer)[:length] as view:
            before.write(view)
        self._truncated = self._truncated or buffer.find(START, 0, length) >= 0
        del buffer[: length + ended * len(END)]
        self._searched = 0
        if not ended:
            self._before = before
            return None
        found = Frame(before.getvalue(), self._truncated)  # shares the bytes, without a copy
        self._before, self._truncated, self._in_frame = None, False, False
        return found
