"""Framing: each case in one piece, byte by byte, and cut at each place."""

import time
import tracemalloc
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllp import (
    END,
    START,
    Event,
    Frame,
    FrameReader,
    FrameTooLarge,
    Noise,
    TruncatedFrame,
    Unframeable,
    checked_frame,
    frame,
)
from mllp.client import TRANSITIONS, ClientEvent, ClientState, IllegalTransitionError, next_state

CASES: dict[str, tuple[bytes, list[Event]]] = {
    "one frame": (b"\x0bA\x1c\r", [Frame(b"A")]),
    "an empty frame": (b"\x0b\x1c\r", [Frame(b"")]),
    "two frames in one packet": (b"\x0bA\x1c\r\x0bB\x1c\r", [Frame(b"A"), Frame(b"B")]),
    "FS alone does not end a frame": (b"\x0bA\x1cB\x1c\r", [Frame(b"A\x1cB")]),
    "FS FS CR": (b"\x0bA\x1c\x1c\r", [Frame(b"A\x1c")]),
    "segments end with CR": (b"\x0bA\rB\r\x1c\r", [Frame(b"A\rB\r")]),
    "FS at the end waits": (b"\x0bA\x1c", []),
    "newline between frames": (
        b"\x0bA\x1c\r\n\x0bB\x1c\r",
        [Frame(b"A"), Noise(1), Frame(b"B")],
    ),
    "NULs before the first frame": (b"\0\0\0\x0bA\x1c\r", [Noise(3), Frame(b"A")]),
    "a byte order mark before the frame": (b"\xef\xbb\xbf\x0bA\x1c\r", [Noise(3), Frame(b"A")]),
    "no START at all": (b"MSH|^~\\&|\x1c\r", [Noise(11)]),
    "repeated START": (b"\x0b\x0b\x0bA\x1c\r", [Noise(2), Frame(b"A")]),
    "START inside a frame": (b"\x0bA\x0bB\x1c\r", [Frame(b"A\x0bB", truncated=True)]),
    "bytes above 127": (b"\x0b\xfc\x84\x31\x95\x1c\r", [Frame(b"\xfc\x84\x31\x95")]),
}


def events(reader: FrameReader, *parts: bytes) -> list[Event]:
    """Feed the parts in order, and join consecutive noise."""
    events_found: list[Event] = []
    for part in parts:
        reader.receive(part)
        while (event := reader.next_event()) is not None:
            last = events_found[-1] if events_found else None
            if isinstance(event, Noise) and isinstance(last, Noise):
                events_found[-1] = Noise(last.length + event.length)
            else:
                events_found.append(event)
    return events_found


@pytest.mark.parametrize(("wire", "expected"), list(CASES.values()), ids=list(CASES))
class TestEveryCase:
    """A table of byte streams and their events."""

    def test_one_part(self, wire: bytes, expected: list[Event]) -> None:
        """The stream arrives in one part."""
        assert events(FrameReader(), wire) == expected

    def test_byte_by_byte(self, wire: bytes, expected: list[Event]) -> None:
        """Each byte arrives alone."""
        assert events(FrameReader(), *(bytes([byte]) for byte in wire)) == expected

    def test_cut_anywhere(self, wire: bytes, expected: list[Event]) -> None:
        """The stream arrives in two parts, cut at each place."""
        for cut in range(len(wire)):
            assert events(FrameReader(), wire[:cut], wire[cut:]) == expected

    def test_whole(self, wire: bytes, expected: list[Event]) -> None:
        """`whole` returns the frame of `next_event` if there is exactly one frame, else None."""
        events_found = FrameReader().whole(wire)

        assert events_found is None or [events_found] == expected

    def test_the_next_frame(self, wire: bytes, expected: list[Event]) -> None:
        if wire.endswith(END):
            assert events(FrameReader(), wire, b"\x0bZ\x1c\r") == [*expected, Frame(b"Z")]


PAYLOADS = st.binary(max_size=60).filter(lambda data: END not in data and START not in data)
NOISE = st.binary(max_size=20).filter(lambda data: START not in data)


@given(
    pieces=st.lists(st.tuples(NOISE, PAYLOADS), max_size=8),
    cuts=st.lists(st.integers(0, 800), max_size=12),
)
def test_any_frames_any_cuts(pieces: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    """The reader finds all frames, for any bytes between them and any cut of the stream."""
    wire = b"".join(noise + frame(payload) for noise, payload in pieces)
    edges = sorted({0, len(wire), *(min(cut, len(wire)) for cut in cuts)})
    expected: list[Event] = []
    for noise, payload in pieces:
        if noise:
            expected.append(Noise(len(noise)))
        expected.append(Frame(payload))

    assert events(FrameReader(), *(wire[a:b] for a, b in pairwise(edges))) == expected


@given(parts=st.lists(st.binary(max_size=80), max_size=30), limit=st.integers(0, 64))
def test_any_garbage_stays_bounded(parts: list[bytes], limit: int) -> None:
    """Random bytes raise at most FrameTooLarge, and memory stays within the limit."""
    reader = FrameReader(limit)
    for part in parts:
        try:
            events_found = events(reader, part)
        except FrameTooLarge:
            assert reader.received > limit
            return
        assert reader.received <= limit + 1  # the reader may hold an FS until the next byte
        assert all(len(one.payload) <= limit for one in events_found if isinstance(one, Frame))


@given(stream=st.lists(st.sampled_from([b"\x0b", b"\x1c", b"\r", b"A"]), max_size=24))
def test_the_same_events_byte_by_byte(stream: list[bytes]) -> None:
    """The events of delimiter bytes in any order do not depend on the cut."""
    assert events(FrameReader(), b"".join(stream)) == events(FrameReader(), *stream)


class TestLimits:
    def test_as_long_as_the_limit(self) -> None:
        """A payload as long as the limit is accepted."""
        assert events(FrameReader(3), b"\x0bABC\x1c", b"\r") == [Frame(b"ABC")]

    def test_one_byte_too_long(self) -> None:
        """A complete frame one byte longer is refused."""
        with pytest.raises(FrameTooLarge, match="longer than 3 bytes"):
            events(FrameReader(3), b"\x0bABCD\x1c\r")

    def test_while_the_frame_is_open(self) -> None:
        """A frame that is too long is refused before its end."""
        with pytest.raises(FrameTooLarge):
            events(FrameReader(3), b"\x0bABCD")

    def test_head_of_a_refused_frame(self) -> None:
        """The reader returns the first bytes of a refused frame."""
        reader = FrameReader(3)
        with pytest.raises(FrameTooLarge):
            events(reader, b"\x0bMSH|^~")

        assert reader.head(4) == b"MSH|"

    def test_noise_without_end_is_not_kept(self) -> None:
        """The reader does not store ten megabytes of noise."""
        reader = FrameReader(10)
        for _ in range(160):
            assert events(reader, b"x" * 65536) == [Noise(65536)]
        assert not reader.in_frame
        assert reader.received == 0


def test_close_inside_a_frame() -> None:
    """A close inside a frame reports the received bytes."""
    reader = FrameReader()
    events(reader, b"\x0bPID|SECRET")

    with pytest.raises(TruncatedFrame) as raised:
        reader.receive_eof()

    assert str(raised.value) == "connection closed 10 bytes into a frame"


def test_close_between_frames() -> None:
    reader = FrameReader()
    events(reader, b"\x0bA\x1c\r\n")

    reader.receive_eof()


def test_a_payload_with_an_end_block() -> None:
    """A payload with FS CR is refused, because the peer would read two frames."""
    with pytest.raises(Unframeable, match="at byte 3"):
        checked_frame(b"MSH\x1c\rPID")


@pytest.mark.parametrize("piece", [b"A", b"A" * 1024, b"\x1cA", b"\x1c" * 7])
def test_time_is_linear(piece: bytes) -> None:
    """Eight times the bytes take at most about eight times as long."""

    def seconds(size: int) -> float:
        reader = FrameReader(size * 2)
        started = time.process_time()
        reader.receive(START)
        for _ in range(size // len(piece)):
            reader.receive(piece)
            reader.next_event()
        return time.process_time() - started

    size = 20_000 * len(piece)
    seconds(size)
    assert seconds(8 * size) < 30 * max(seconds(size), 0.001)


@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda data: START not in data)))
def test_buffered_packets(payloads: list[bytes]) -> None:
    """Buffered packets yield their frames in order."""
    sent = [payload for payload in payloads if END not in payload + END[:1]]
    reader = FrameReader()
    for payload in sent:
        reader.receive(frame(payload))
    events_found = []
    while (event := reader.next_event()) is not None:
        events_found.append(event)
    assert events_found == [Frame(payload) for payload in sent]


@given(payload=PAYLOADS.filter(bool), begun=st.sampled_from([b"", b"\0", b"\x0b", b"\x0bA\x1c"]))
def test_a_packet_that_is_a_frame(payload: bytes, begun: bytes) -> None:
    """The reader recognizes a packet that is one frame only if its buffer is empty."""
    reader = FrameReader()
    reader.receive(begun)

    assert reader.whole(frame(payload)) == (None if begun else Frame(payload))
    assert FrameReader(len(payload) - 1).whole(frame(payload)) is None


class TestLargeFrames:
    """The reader assembles large frames as they arrive."""

    LENGTH = 2**20 + 17

    @pytest.mark.parametrize("step", [2**16, 2**16 + 1, 300_000, 2**21])
    def test_however_they_are_cut(self, step: int) -> None:
        """A large frame is read with a split end, FS at packet ends, and a next frame."""
        payload = (b"x" * (step - 2) + b"\x1c")[: self.LENGTH] * (self.LENGTH // step + 1)
        wire = frame(payload) + frame(b"next")
        parts = [wire[at : at + step] for at in range(0, len(wire), step)]
        assert events(FrameReader(), *parts) == [Frame(payload), Frame(b"next")]
        end = len(payload) + 2
        assert events(FrameReader(), wire[:end], wire[end:]) == [Frame(payload), Frame(b"next")]

    @pytest.mark.parametrize("at", [1, 2**18, 2**18 + 1, 2**20])
    def test_a_second_start_makes_it_truncated(self, at: int) -> None:
        """A second start byte at any place truncates the frame. The next frame is not affected."""
        payload = b"x" * at + START + b"x" * (self.LENGTH - at)
        wire = frame(payload) + frame(b"A" * self.LENGTH)
        parts = [wire[at : at + 2**16] for at in range(0, len(wire), 2**16)]
        assert [event[1] for event in events(FrameReader(), *parts)] == [True, False]  # type: ignore[index]  # frames

    def test_length_and_head_of_a_refused_frame(self) -> None:
        """The reader returns length and first bytes of a frame cut off or too large."""
        reader = FrameReader(self.LENGTH)
        assert events(reader, START + b"MSH|" + b"x" * 2**19) == []
        assert (reader.received, reader.head(5)) == (2**19 + 4, b"MSH|x")
        with pytest.raises(TruncatedFrame):
            reader.receive_eof()
        with pytest.raises(FrameTooLarge):
            events(reader, b"x" * 2**19, b"x" * 2**16)
        assert reader.head(5) == b"MSH|x"

    def test_it_is_not_copied_at_its_end(self) -> None:
        """The last packet of a frame takes no longer than others, so the frame is not copied."""
        part, reader = b"x" * 2**16, FrameReader()
        tracemalloc.start()
        try:
            (events_found,) = events(reader, START, *[part] * 64, END)
            assert tracemalloc.get_traced_memory()[1] < 1.5 * 2**22
        finally:
            tracemalloc.stop()
        assert events_found == Frame(part * 64)


@pytest.mark.parametrize(("state", "event"), list(product(ClientState, ClientEvent)))
def test_every_pair(state: ClientState, event: ClientEvent) -> None:
    """Each pair in the table has its result. Other pairs raise an error."""
    if (state, event) in TRANSITIONS:
        assert next_state(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{event} cannot happen .* {state}"):
            next_state(state, event)


def test_every_state_is_reachable() -> None:
    assert set(ClientState) == {ClientState.DISCONNECTED, *TRANSITIONS.values()}


def test_every_event_is_used() -> None:
    assert {event for _, event in TRANSITIONS} == set(ClientEvent)


def test_only_a_reply_makes_the_connection_ready() -> None:
    """Only a reply leads from AWAITING to READY."""
    onwards = {
        event: to for (state, event), to in TRANSITIONS.items() if state is ClientState.AWAITING
    }

    assert [event for event, to in onwards.items() if to is ClientState.READY] == [
        ClientEvent.REPLIED
    ]
    assert onwards[ClientEvent.UNANSWERED] is ClientState.BACKING_OFF


def test_closed_is_the_end() -> None:
    """CLOSED has no transition to another state."""
    assert not [event for state, event in TRANSITIONS if state is ClientState.CLOSED]
