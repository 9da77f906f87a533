"""
Integers that stand for messages and lanes in indexes: hashes, so that no patient is in one.

Pure. 64 bits signed, because that is what a database's integer column holds.
"""

from hashlib import blake2b

from mappings.hl7.header import Header

DIGEST_SIZE = 16


def _integer(*parts: bytes) -> int:
    joined = b"\x1f".join(parts)
    return int.from_bytes(blake2b(joined, digest_size=8).digest(), "big", signed=True)


def digest(payload: bytes) -> bytes:
    """Give the 16 bytes by which two payloads are told apart."""
    return blake2b(payload, digest_size=DIGEST_SIZE).digest()


def message_identity(listener: bytes, header: Header) -> int:
    """Identify a message by listener, MSH-3, MSH-4 and MSH-10, byte by byte."""
    return _integer(
        listener, header.sending_application, header.sending_facility, header.control_id
    )


def payload_identity(listener: bytes, payload_digest: bytes) -> int:
    """Identify what has no control id by its content."""
    return _integer(listener, payload_digest)


def single_identity(listener: bytes, unique: str) -> int:
    """Identify something that nothing may ever be a duplicate of."""
    return _integer(listener, b"once", unique.encode())


def lane(key: str) -> int:
    """Give the number of the lane of a patient key (`SITE|MRN`)."""
    return _integer(b"lane", key.encode("utf-8", "surrogatepass"))


def signal(kind: str, value: str) -> int:
    """Give a link signal's number; equal signals have equal ones."""
    return _integer(kind.encode(), value.strip().casefold().encode("utf-8", "surrogatepass"))
