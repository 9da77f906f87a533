"""Limits of PDUs and messages, before pynetdicom reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.dicom.connections import CUT, LimitExceeded, MemoryBudget, PduLimits, PduStream
from tests.acceptance.hostile_peer import COMMAND, DATA, LAST, command, store_command
from tests.bridge.dicom.modality import BASIC_TEXT

STORE = store_command(BASIC_TEXT)


def pdu(kind: int, body: bytes) -> bytes:
    return bytes((kind, 0)) + len(body).to_bytes(4, "big") + body


def fragment(context: int, control: int, data: bytes) -> bytes:
    return (len(data) + 2).to_bytes(4, "big") + bytes((context, control)) + data


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def make_stream(memory: int = 1000, clock: Clock | None = None) -> PduStream:
    limits = PduLimits(2000, 5.0, 20.0, MemoryBudget(memory))
    stream = PduStream(limits, lambda _: None, clock or Clock())
    stream.is_associated = True
    stream.max_data_sets = {1: 300, 3: 900}
    return stream


def begin(stream: PduStream, context: int) -> PduStream:
    """Have the command of a C-STORE passed on."""
    sent = pdu(4, fragment(context, COMMAND | LAST, STORE))
    stream.feed(sent)
    assert stream.read(1000) == sent
    return stream


def test_the_length_of_a_pdu() -> None:
    """A PDU with a greater length than permitted is refused at its header."""
    for kind, length in ((1, 2**17 + 1), (4, 2001), (5, 65), (7, 2**32 - 1)):
        with pytest.raises(LimitExceeded):
            make_stream().feed(bytes((kind, 0)) + length.to_bytes(4, "big"))


def test_an_unknown_pdu() -> None:
    """The header of an unknown PDU passes, so that it can be answered; nothing after it does."""
    stream = make_stream()
    stream.feed(b"GET / ")
    with pytest.raises(LimitExceeded):
        stream.feed(b"HTTP/1.1")


def test_a_data_set_in_parts() -> None:
    """The fragments of a data set count together, by presentation context."""
    stream = begin(make_stream(), 1)
    parts = [pdu(4, fragment(1, DATA, b"x" * 200)) for _ in range(3)]
    stream.feed(parts[0])
    stream.feed(parts[1])
    assert stream.read(1000) == parts[0] + pdu(4, fragment(1, DATA, b""))
    with pytest.raises(LimitExceeded, match="data set"):
        stream.feed(pdu(4, fragment(1, DATA, b"x" * 201)))
    begin(make_stream(), 3).feed(pdu(4, fragment(3, DATA | LAST, b"x" * 900)))
    with pytest.raises(LimitExceeded, match="data set"):
        begin(make_stream(), 5).feed(pdu(4, fragment(5, DATA | LAST, b"x")))


def test_the_end_of_a_cut_data_set() -> None:
    """The last fragment says that the data set was cut; the next one is whole."""
    stream = begin(make_stream(), 1)
    stream.feed(pdu(4, fragment(1, DATA, b"x" * 400)))
    stream.read(1000)
    last = fragment(1, DATA | LAST, b"end")
    more = fragment(1, COMMAND | LAST, STORE) + fragment(1, DATA | LAST, b"next")
    stream.feed(pdu(4, last + more))
    assert stream.read(1000) == pdu(4, fragment(1, DATA | LAST, CUT) + more)


@pytest.mark.parametrize(
    "body", [b"", b"\0" * 5, b"\0\0\0\1\1", b"\0\0\0\x09\1\0x", b"\xff" * 8], ids=repr
)
def test_a_value_that_does_not_fit(body: bytes) -> None:
    """A PDU whose values have other lengths than it is refused."""
    with pytest.raises(LimitExceeded, match="malformed"):
        make_stream().feed(pdu(4, body))


def test_a_command_in_parts() -> None:
    """A command of endless fragments is ended."""
    stream = make_stream()
    part = pdu(4, fragment(1, COMMAND, b"x" * 1000))
    for _ in range(16):
        stream.feed(part)
    with pytest.raises(LimitExceeded, match="command"):
        stream.feed(part)


ECHO = command(
    AffectedSOPClassUID="1.2.840.10008.1.1",
    CommandField=0x0030,
    MessageID=1,
    CommandDataSetType=0x0101,
)
UNEXPECTED = {
    "a data set without a command": [(1, DATA | LAST, b"x")],
    "a data set that was not announced": [(1, COMMAND | LAST, ECHO), (1, DATA | LAST, b"x")],
    "a command within a data set": [
        *((1, COMMAND | LAST, STORE), (1, DATA, b"x"), (1, COMMAND | LAST, ECHO))
    ],
    "a command after that of a data set": [(1, COMMAND | LAST, STORE), (1, COMMAND | LAST, ECHO)],
    "a command in two contexts": [(1, COMMAND, STORE[:20]), (3, COMMAND | LAST, STORE[20:])],
    "a data set of another context": [(1, COMMAND | LAST, STORE), (3, DATA | LAST, b"x")],
}


@pytest.mark.parametrize("fragments", UNEXPECTED.values(), ids=UNEXPECTED.keys())
def test_the_order_of_fragments(fragments: list[tuple[int, int, bytes]]) -> None:
    """Fragments of messages cannot be mixed: no object gets bytes of another (PS3.8 annex E)."""
    stream = make_stream()
    for one in fragments[:-1]:
        stream.feed(pdu(4, fragment(*one)))
    with pytest.raises(LimitExceeded, match="unexpected"):
        stream.feed(pdu(4, fragment(*fragments[-1])))


def test_the_memory_of_all_associations() -> None:
    """All data sets that arrive share a limit; an answered or ended one gives its part back."""
    memory = MemoryBudget(1000)
    first, second = begin(make_stream(), 3), begin(make_stream(), 3)
    first.limits.memory = second.limits.memory = memory
    first.feed(pdu(4, fragment(3, DATA, b"x" * 600)))
    limits: list[str] = []
    second.on_cut = limits.append
    second.feed(pdu(4, fragment(3, DATA, b"x" * 500)))
    assert (limits, second.read(1000)) == (["object_memory"], pdu(4, fragment(3, DATA, b"")))
    second.close()
    first.feed(pdu(4, fragment(3, DATA | LAST, b"x" * 100)))
    assert not memory.take(400)
    first.note_answer()
    third = begin(make_stream(), 3)
    third.limits.memory = memory
    third.feed(pdu(4, fragment(3, DATA, b"x" * 800)))
    third.close()
    assert memory.take(1000)


def test_requests_that_do_not_wait_for_answers() -> None:
    """A peer with eight unanswered requests may not send another one; an answer permits one."""
    stream = make_stream()
    echo = pdu(4, fragment(1, COMMAND | LAST, ECHO))
    for _ in range(8):
        stream.feed(echo)
    stream.note_answer()
    stream.feed(echo)
    with pytest.raises(LimitExceeded, match="unanswered"):
        stream.feed(echo)


def test_the_memory_after_cancelled_queries() -> None:
    """A C-CANCEL needs no answer, and keeps no memory."""
    stream = make_stream()
    cancel = command(CommandField=0x0FFF, MessageIDBeingRespondedTo=1, CommandDataSetType=0x0101)
    for _ in range(20):
        stream.feed(pdu(4, fragment(3, COMMAND | LAST, STORE)))
        stream.feed(pdu(4, fragment(3, DATA | LAST, b"x" * 600)))
        stream.feed(pdu(4, fragment(3, COMMAND | LAST, cancel)))
        stream.note_answer()
    assert stream.limits.memory.take(1000)


def test_small_data_sets_need_no_memory() -> None:
    """The first bytes of a data set are free, so that a query is answered although none is left."""
    stream = begin(make_stream(memory=0), 1)
    stream.limits.free_bytes = 200
    query = pdu(4, fragment(1, DATA | LAST, b"x" * 200))
    stream.feed(query)
    assert stream.read(1000) == query


def test_the_time_of_a_pdu() -> None:
    """A PDU, and a message, must be complete within their times; between them there is no limit."""
    clock = Clock()
    stream = begin(make_stream(clock=clock), 1)
    stream.feed(pdu(4, fragment(1, DATA, b"x")))
    clock.now = 19.0
    assert stream.seconds_left() == 1.0
    stream.feed(pdu(4, fragment(1, DATA, b"x")))
    clock.now = 20.5
    with pytest.raises(LimitExceeded, match="message_timeout"):
        stream.seconds_left()
    stream = begin(make_stream(clock=clock), 1)
    stream.feed(pdu(4, fragment(1, DATA | LAST, b"x")))
    clock.now = 1000.0
    assert stream.seconds_left() == 20.0


def test_the_time_of_a_request() -> None:
    """Before the association the shorter time applies."""
    clock = Clock()
    stream = make_stream(clock=clock)
    stream.is_associated = False
    stream.feed(b"\x01")
    clock.now = 5.5
    with pytest.raises(LimitExceeded, match="request_timeout"):
        stream.seconds_left()


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.integers(1, 7))
def test_the_same_in_all_pieces(parts: list[bytes], size: int) -> None:
    """It makes no difference how the network cuts the bytes."""
    data = b"".join(
        pdu(4, fragment(3, COMMAND | LAST, STORE)) + pdu(4, fragment(3, DATA | LAST, part))
        for part in parts
    )
    whole, cut = make_stream(), make_stream()
    whole.feed(data)
    for at in range(0, len(data), size):
        cut.feed(data[at : at + size])
    assert whole.read(10_000) == cut.read(10_000)
    for stream in (whole, cut):
        stream.close()
        assert stream.limits.memory.take(1000)


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_any_bytes(parts: list[bytes]) -> None:
    """Any bytes are counted, or exceed a limit; memory is given back."""
    stream = make_stream()
    try:
        for part in parts:
            stream.feed(part)
    except LimitExceeded:
        pass
    stream.close()
    assert stream.limits.memory.take(1000)
