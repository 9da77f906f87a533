"""Integers that stand for messages and link signals in indexes.

Pure. Hashes, as `bridge.queue.ledger.arrivals` makes them, so that no patient is in an index.
"""

import re

from bridge.index_key import keyed64
from bridge.queue.ledger.arrivals import digest, identity, lane, signed64
from mappings.hl7.header import Header

__all__ = [
    "answers_us",
    "digest",
    "lane",
    "message_identity",
    "payload_identity",
    "signal",
    "single_identity",
]


_OURS = rb"RB[0-9a-f]{18}"  # as `bridge.wiring.listeners.ControlIds` gives them
_ANSWERS_US = re.compile(rb"[\r\n]MSA(.)[A-Z]{2}\1" + _OURS + rb"(?:\1|[\r\n]|$)")


def answers_us(payload: bytes) -> bool:
    """Tell whether a message acknowledges one of ours: an answer to it might have no end."""
    return _ANSWERS_US.search(payload) is not None


def message_identity(listener: str, header: Header) -> int:
    """Identify a message by listener, MSH-3, MSH-4 and MSH-10, byte by byte."""
    return identity(
        listener, header.sending_application, header.sending_facility, header.control_id
    )


def payload_identity(listener: str, payload_digest: bytes) -> int:
    """Identify what has no control id by its content."""
    return signed64(b"payload", listener.encode(), payload_digest)


def single_identity(listener: str, unique: str) -> int:
    """Identify something that nothing may ever be a duplicate of."""
    return signed64(b"once", listener.encode(), unique.encode())


def signal(kind: str, value: str) -> int:
    """Give a link signal's number; signals that differ in case or outer blanks are equal."""
    named = value.strip().casefold().encode("utf-8", "surrogatepass")
    return keyed64(signed64(kind.encode(), named))
