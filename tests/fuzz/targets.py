"""
The fuzz targets: each takes any bytes, and raises only on a defect of the product.

They do not depend on the fuzzer, so that hypothesis and the inputs of past crashes run them too.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from mappings.compiler import DEFINITIONS, load
from mappings.hl7.acknowledgment import build_ack, read_ack, unframed_nak
from mappings.hl7.batch import join_acks, split
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import AckCode, MalformedMessage, MalformedReason, MessageRefusal
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import RuleFailed
from mappings.language.scope import ListenerDefaults
from mllp.errors import FrameTooLarge, TruncatedFrame
from mllp.framing import END, START, Event, Frame, FrameReader

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DEFAULTS = ListenerDefaults(site="SITE1", time_zone="UTC", now=NOW)
MAX_PAYLOAD = 256
INBOUND = [
    made for name in ("orders", "patients")
    if isinstance(made := load(DEFINITIONS, name), InboundMapping)
]  # fmt: skip


def framing(data: bytes) -> None:
    """A stream gives the same frames for every division into packets, and no byte is lost."""
    step = data[0] % 7 + 1 if data else 1
    single, divided = (
        _events([data]),
        _events([data[at : at + step] for at in range(0, len(data), step)]),
    )
    assert (single is None) == (divided is None)
    if single is None or divided is None:
        return
    assert _frames(single) == _frames(divided)
    for event in single:
        assert not isinstance(event, Frame) or END not in event.payload
        assert not isinstance(event, Frame) or len(event.payload) <= MAX_PAYLOAD
    payload = data.split(END)[0][:MAX_PAYLOAD].lstrip(START)
    assert _frames(_events([START + payload + END]) or []) in ([payload], [])


def _events(packets: list[bytes]) -> list[Event] | None:
    """All events of a reader of packets; None if a frame exceeds the limit."""
    reader = FrameReader(MAX_PAYLOAD)
    events: list[Event] = []
    for packet in packets:
        reader.receive(packet)
        try:
            while (event := reader.next_event()) is not None:
                events.append(event)
        except FrameTooLarge:
            return None
        assert reader.received <= MAX_PAYLOAD + len(END)
    try:
        reader.receive_eof()
    except TruncatedFrame:
        assert reader.in_frame
    return events


def _frames(events: list[Event]) -> list[bytes]:
    return [event.payload for event in events if isinstance(event, Frame)]


def parsing(data: bytes) -> None:
    """Any bytes are malformed, or a message that keeps them and whose values can be read."""
    try:
        message = Message.parse(data)
    except MalformedMessage:
        return
    assert message.raw == data
    assert peek(data).control_id == message.header.control_id
    for segment in message.segments[:50]:
        for number in range(1, min(len(segment), 40) + 1):
            segment.value(str(number))
            segment.values(f"{number}.1.1")
    message.value("PID-3.1")
    message.values("OBX[*]-5")


def mapping(data: bytes) -> None:
    try:
        message = Message.parse(data)
    except MalformedMessage:
        return
    for definition in INBOUND:
        if not definition.accepts(message.header):
            continue
        pre_check = definition.pre_check(message, DEFAULTS)
        try:
            definition.apply(message, DEFAULTS)
        except (MessageRefusal, RuleFailed):
            assert pre_check.refusals, "an accepted message cannot be applied"


def acknowledging(data: bytes) -> None:
    """Any bytes get a readable acknowledgment with the right code and MSA-2."""
    refusal = MalformedMessage(MalformedReason.NOT_HL7)
    nak = unframed_nak(data, refusal, control_id="Y1", now=NOW)
    assert read_ack(nak).code == AckCode.REJECT
    try:
        header = peek(data)
    except MalformedMessage:
        return
    for code in AckCode:
        ack = build_ack(header, code, control_id="Y1", now=NOW, refusals=[refusal])
        assert read_ack(ack).code == code
        separator = header.fields[1]
        expected = separator.join([b"\rMSA", code.encode(), header.control_id])
        assert expected in ack, "MSA-2 is MSH-10 to the byte"


def replies(data: bytes) -> None:
    """Any reply of a peer is read without an error; any bytes are a batch or none."""
    read_ack(data)
    try:
        messages = split(data)
    except MalformedMessage:
        return
    if messages is not None:
        naks = [_nak(message) for message in messages]
        join_acks(data, naks, control_id="Y1", now=NOW)


def _nak(raw: bytes) -> bytes:
    return unframed_nak(raw, MalformedMessage(MalformedReason.NOT_HL7), control_id="Y2", now=NOW)


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (framing, parsing, mapping, acknowledging, replies)
}


def seeds() -> Iterator[bytes]:
    """The seeds: the repository's samples, bare and framed."""
    folder = DEFINITIONS.parents[1] / "sample_messages"
    for path in sorted(folder.rglob("*.hl7")):
        raw = path.read_bytes()
        yield raw
        yield START + raw + END


DICTIONARY = (
    *(b"MSH|^~\\&|", b"FHS|^~\\&|", b"BHS|^~\\&|", b"\rPID|", b"\rORC|", b"\rOBR|", b"\rMRG|"),
    *(b"\rZDS|", b"\rMSA|AA|", b"\rERR|", b"ORM^O01", b"OMG^O19", b"ADT^A40", b"\\F\\", b"\\X0D\\"),
    *(b"UNICODE UTF-8", b"ISO IR87", b"8859/1", b"GB 18030-2000", b"\x1b$B", b"\xfc", b'""'),
    *(b"\x0b", b"\x1c\r", b"\x1c", b"\r\n", b"|NW|", b"|CA|", b"|XO|", b"2.3.1", b"2.5.1"),
)

FOUND = (
    b"MSH|^~\\&|A|B|C|D|2026||ADT^A00^ADT_A39|Q13|P|2.5.1\rEVN||2026\rPID\rMRG|O1^^^N^MR\r",
    b"MSH|^~\\&|A|B|C|D|2026||ORM^O01|Q46\x00\x00|P|2.7\rPID|1||A1^^^N^MR\r",
    b"FHS\rMSH|^~\\&|A||Kim\rPID|1\r",
    b"FHS\x0c\\~|\\X0D\\",
)
"""Shortened inputs of past failures; each is fixed."""
