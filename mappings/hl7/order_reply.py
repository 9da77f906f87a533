"""
Order replies: ORR^O02, ORI^O24 and ORG^O20, in place of a plain ACK where a sender wants them.

Says what the acknowledgment says, and an ORC for each order with its numbers, followed by the
sender's own order detail (HL7 v2.5.1 §4.4.2, §4.4.5, §4.4.7). What ORC-1 says is handed in.
"""

from collections.abc import Callable

from mappings.hl7.elements import is_null
from mappings.hl7.message import Message, Segment
from mappings.hl7.refusals import MalformedMessage

Reply = Callable[[str], str]
"""Gives ORC-1 of the reply to an order control code; empty where there is none."""

KINDS = {"ORM": ("ORR", "O02"), "OMI": ("ORI", "O24"), "OMG": ("ORG", "O20")}
_DETAILS = frozenset({"OBR", "RQD", "RQ1", "RXO", "ODS", "ODT", "IPC"})
_KEPT = (2, 3, 4, 7)
_MSH_9 = 8  # counted from the segment's name: MSH-1 is the separator itself
_MSH_12 = 11
_STRUCTURED = (2, 3, 1)  # the first version whose MSH-9 names a structure


def as_order_reply(ack: bytes, request: bytes, reply: Reply) -> bytes:
    """
    Turn an application acknowledgment into the reply to an order message.

    Of a request that is no order message, or cannot be read, the acknowledgment stays as it is.
    """
    try:
        message = Message.parse(request)
    except MalformedMessage:
        return ack
    kind = KINDS.get(message.header.message_code)
    orders = _orders(message, reply) if kind else []
    if kind is None or not orders:
        return ack
    head, *others = ack.rstrip(b"\r").split(b"\r")
    separator = message.header.fields[1]
    fields = head.split(separator)
    component = message.delimiters.completed().component
    fields[_MSH_9] = component.join(_named(kind, fields[_MSH_12])).encode("latin-1")
    return b"\r".join([separator.join(fields), *others, *orders, b""])


def _named(kind: tuple[str, str], version: bytes) -> tuple[str, ...]:
    numbers = tuple(int(part) for part in version.split(b".") if part.isdigit())
    return (*kind, "_".join(kind)) if numbers >= _STRUCTURED else kind


def _orders(message: Message, reply: Reply) -> list[bytes]:
    """Give an ORC for each of the message's, each followed by its details as they came."""
    lines: list[bytes] = []
    for segment in message.segments:
        if segment.id == "ORC":
            word = reply(segment.value("1").strip().upper())
            if not word:
                return []
            lines.append(_orc(segment, word, message.header.fields[1]))
        elif lines and segment.id in _DETAILS:
            lines.append(segment.id.encode() + segment.raw[3:])
    return lines


def _orc(segment: Segment, word: str, separator: bytes) -> bytes:
    """Answer one ORC: its code replaced; numbers and timing (required in 2.3) as they came."""
    sent = dict(enumerate(segment.raw.split(separator)))
    kept = [sent.get(at, b"") if at in _KEPT else b"" for at in range(2, _KEPT[-1] + 1)]
    kept = [b"" if is_null(each.decode("latin-1")) else each for each in kept]
    return separator.join([b"ORC", word.encode("latin-1"), *kept]).rstrip(separator)
