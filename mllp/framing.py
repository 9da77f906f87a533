"""
Find frames in a byte stream, and wrap payloads into frames.

    <VT> payload <FS><CR>

No I/O, no time, no HL7: give bytes to `FrameReader.receive`, take events from `next_event`.
`mllp.server` and `mllp.client` are Twisted shells around this file.
"""

from dataclasses import dataclass
from io import BytesIO
from typing import NamedTuple

from mllp.errors import FrameTooLarge, TruncatedFrame, Unframeable

START = b"\x0b"
END = b"\x1c\x0d"

COMMIT_ACK, COMMIT_NAK = b"\x06", b"\x15"
"""Payloads of the commit blocks of MLLP release 2: kept safely, and not kept."""

COMMIT_BLOCKS = frozenset({COMMIT_ACK, COMMIT_NAK})

DEFAULT_MAX_PAYLOAD = 16 * 2**20

_VT, _FS = START[0], END[:1]
_LARGE = 256 * 2**10  # bytes of a frame from which it is put together as it comes


class Frame(NamedTuple):
    """
    One payload, exactly as it stood between the delimiters.

    `truncated`: another START stands inside. Either two messages ran together because the end
    of the first was lost, or the payload is in a charset MLLP cannot carry (UTF-16, UTF-32):
    bytes are missing or misplaced, so this must never get a positive answer.
    """

    payload: bytes
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Noise:
    """Bytes outside of frames: how many, never which. One stretch may come in several parts."""

    length: int


Event = Frame | Noise


def frame(payload: bytes) -> bytes:
    """Wrap a payload for the wire."""
    return START + payload + END


def checked_frame(payload: bytes) -> bytes:
    """Wrap a payload for the wire; raise `Unframeable` if the peer would see its end too early."""
    if (at := payload.find(END)) >= 0:
        raise Unframeable(at)
    return START + payload + END


class FrameReader:
    """
    Turn received bytes into events, in time linear in their number.

    FS alone ends nothing: a lone 0x1C is payload. (None of the multi-byte charsets HL7 v2
    names for MLLP uses 0x0B, 0x0D or 0x1C as a trail byte: GB 18030 and Big5 start those at
    0x30, Shift-JIS at 0x40; UTF-8 and EUC have none below 0x80.) Memory is bounded by
    `max_payload` plus what one `receive` hands in: noise is not kept. A large payload is put
    together piece by piece, so that its end costs no more than that of a small one.
    """

    __slots__ = ("_before", "_buffer", "_in_frame", "_max_payload", "_searched", "_truncated")

    def __init__(self, max_payload: int = DEFAULT_MAX_PAYLOAD) -> None:
        self._max_payload = max_payload
        self._buffer = bytearray()
        self._in_frame = False
        self._searched = 0  # END cannot begin before this offset
        self._before: BytesIO | None = None  # what of a large frame came before the buffer
        self._truncated = False  # whether START stands in there

    @property
    def in_frame(self) -> bool:
        """Whether a frame has begun and not ended, as far as `next_event` has looked."""
        return self._in_frame

    @property
    def received(self) -> int:
        """How many bytes of the open frame are here; 0 between frames."""
        return self._length_before + len(self._buffer) if self._in_frame else 0

    @property
    def in_large_frame(self) -> bool:
        """Whether the open frame is put together piece by piece."""
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
        """Add bytes from the peer; `next_event` makes sense of them."""
        self._buffer += data

    def discard(self) -> None:
        """Release the memory of the open frame; the reader is of no more use."""
        self._buffer, self._before = bytearray(), None
        self._in_frame, self._searched = False, 0

    def whole(self, data: bytes) -> Frame | None:
        """
        Give the one frame that these bytes are, where nothing came before them that is still here.

        Else None, and they are still to be received. A packet nearly always is a frame.
        """
        if self._in_frame or self._buffer:
            return None
        length = len(data) - len(END) - 1
        if (
            0 < length <= self._max_payload
            and data[0] == _VT
            # One byte is found ten times as fast as two, and is hardly ever in a payload.
            and (data.find(_FS) == length + 1 or data.find(END) == length + 1)
            and data.endswith(END)
            and data.rfind(START) == 0
        ):
            return Frame(data[1 : -len(END)])
        return None

    def receive_eof(self) -> None:
        """Tell that the peer will send no more; raise `TruncatedFrame` inside a frame."""
        if self._in_frame:
            raise TruncatedFrame(received=self.received)

    def next_event(self) -> Event | None:
        """
        Return the next event, or None when more bytes are needed.

        Raises `FrameTooLarge`, also before the frame has ended; after that the reader is of
        no more use except for `head`.
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
        """Give the frame that the buffer begins with, if all of it is here; nearly always it is."""
        buffer = self._buffer
        end = buffer.find(_FS)
        if not 1 < end <= min(self._max_payload, _LARGE) or buffer[end : end + len(END)] != END:
            return None
        payload = bytes(buffer[1:end])
        if START in payload:
            return None  # said by whoever reads byte by byte
        del buffer[: end + len(END)]
        return Frame(payload)

    def _skip_noise(self) -> Noise:
        """Drop what precedes START, or everything if there is none."""
        at = self._buffer.find(START)
        length = len(self._buffer) if at < 0 else at
        del self._buffer[:length]
        return Noise(length)

    def _skip_repeated_starts(self) -> Noise:
        """Let the last of several STARTs in a row begin the frame."""
        before = len(self._buffer)
        self._buffer = self._buffer.lstrip(START)
        return Noise(before - len(self._buffer))

    def _read_frame(self) -> Frame | None:
        buffer = self._buffer
        end = buffer.find(_FS, self._searched)  # one byte is found ten times as fast as two
        if end >= 0 and buffer[end : end + len(END)] != END:
            end = buffer.find(END, end)  # a payload of many FS is not to be walked one by one
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
        """Put the buffer's first bytes to those of the frame before them; give it, if complete."""
        buffer, before = self._buffer, self._before or BytesIO()
        with memoryview(buffer)[:length] as view:
            before.write(view)
        self._truncated = self._truncated or buffer.find(START, 0, length) >= 0
        del buffer[: length + ended * len(END)]
        self._searched = 0
        if not ended:
            self._before = before
            return None
        found = Frame(before.getvalue(), self._truncated)  # its own bytes, and no copy of them
        self._before, self._truncated, self._in_frame = None, False, False
        return found
