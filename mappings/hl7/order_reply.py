"""
Order replies: ORR^O02, ORI^O24 and ORG^O20 in place of a plain ACK, for senders that expect them.

A reply contains the acknowledgment and, for each order, an ORC with its numbers and the sender's
own order detail (HL7 v2.5.1 §4.4.2, §4.4.5, §4.4.7). The caller supplies the order control codes.
"""

from collections.abc import Callable

from mappings.hl7.elements import is_null
from mappings.hl7.message import Message, Segment
from mappings.hl7.refusals import MalformedMessage

Reply = Callable[[str], str]
"""Returns ORC-1 of the reply to an order control code; '' if there is no reply."""

KINDS = {"ORM": ("ORR", "O02"), "OMI": ("ORI", "O24"), "OMG": ("ORG", "O20")}
_DETAILS = frozenset({"OBR", "RQD", "RQ1", "RXO", "ODS", "ODT", "IPC"})
_KEPT_FIELDS = (2, 3, 4, 7)
_MSH_9 = 8  # index after splitting: MSH-1 is the separator
_MSH_12 = 11
_STRUCTURED = (2, 3, 1)  # from this version on MSH-9 names the message structure


def as_order_reply(ack: bytes, request: bytes, reply: Reply) -> bytes:
    """
    Convert an application acknowledgment into the reply to an order message.

    The acknowledgment is returned unchanged if the request is not an order message or is malformed.
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
    fields[_MSH_9] = component.join(_message_type(kind, fields[_MSH_12])).encode("latin-1")
    return b"\r".join([separator.join(fields), *others, *orders, b""])


def _message_type(kind: tuple[str, str], version: bytes) -> tuple[str, ...]:
    """Return the parts of MSH-9."""
    numbers = tuple(int(part) for part in version.split(b".") if part.isdigit())
    return (*kind, "_".join(kind)) if numbers >= _STRUCTURED else kind


def _orders(message: Message, reply: Reply) -> list[bytes]:
    """Return an ORC for each order of the message, followed by its detail segments as received."""
    lines: list[bytes] = []
    for segment in message.segments:
        if segment.id == "ORC":
            code = reply(segment.value("1").strip().upper())
            if not code:
                return []
            lines.append(_orc(segment, code, message.header.fields[1]))
        elif lines and segment.id in _DETAILS:
            lines.append(segment.id.encode() + segment.raw[3:])
    return lines


def _orc(segment: Segment, code: str, separator: bytes) -> bytes:
    """
    Return the ORC of a reply: a new order control code; numbers and timing as received.

    Timing is required in v2.3.
    """
    fields = dict(enumerate(segment.raw.split(separator)))
    kept = [
        fields.get(at, b"") if at in _KEPT_FIELDS else b"" for at in range(2, _KEPT_FIELDS[-1] + 1)
    ]
    kept = [b"" if is_null(each.decode("latin-1")) else each for each in kept]
    return separator.join([b"ORC", code.encode("latin-1"), *kept]).rstrip(separator)
