"""Hashes that identify messages and link signals in database indexes.

Pure. The hashes are those of `bridge.queue.ledger.arrivals`; no index contains patient data.
"""

import re

from bridge.index_key import keyed64
from bridge.queue.ledger.arrivals import digest, identity, lane, signed64
from mappings.hl7.header import Header

__all__ = [
    "acknowledges_us",
    "digest",
    "lane",
    "message_identity",
    "payload_identity",
    "signal",
    "single_identity",
]


_OWN_CONTROL_ID = rb"RB[0-9a-f]{18}"  # the format of `bridge.wiring.listeners.ControlIds`
_ACKNOWLEDGES_US = re.compile(rb"[\r\n]MSA(.)[A-Z]{2}\1" + _OWN_CONTROL_ID + rb"(?:\1|[\r\n]|$)")


def acknowledges_us(payload: bytes) -> bool:
    """Tell whether a message acknowledges one of ours. A reply could start an endless exchange."""
    return _ACKNOWLEDGES_US.search(payload) is not None


def message_identity(listener: str, header: Header) -> int:
    """Return the identity of a message: a hash of listener, MSH-3, MSH-4 and MSH-10 as sent."""
    return identity(
        listener, header.sending_application, header.sending_facility, header.control_id
    )


def payload_identity(listener: str, payload_digest: bytes) -> int:
    """Return the identity of a message without a control id: its content."""
    return signed64(b"payload", listener.encode(), payload_digest)


def single_identity(listener: str, unique: str) -> int:
    """Return an identity that no other message has: `unique` is never used again."""
    return signed64(b"once", listener.encode(), unique.encode())


def signal(kind: str, value: str) -> int:
    """Return the hash of a link signal; case and outer blanks are ignored."""
    named = value.strip().casefold().encode("utf-8", "surrogatepass")
    return keyed64(signed64(kind.encode(), named))
