"""
The integers the queue finds things by.

Hashes, so that no index, log or error can tell a patient: 64 bits for keys that are compared
among what is unfinished or shares a control id, never for what must be secret.
"""

from hashlib import blake2b

_WIDTH = 8


def signed64(*parts: bytes) -> int:
    """Give 64 bits that depend on each part and on where one ends and the next begins."""
    digest = blake2b(digest_size=_WIDTH)
    for part in parts:
        digest.update(len(part).to_bytes(_WIDTH))
        digest.update(part)
    return int.from_bytes(digest.digest(), signed=True)


def identity(listener: str, application: bytes, facility: bytes, control_id: bytes) -> int:
    """Give what a retransmit has in common with its original: MSH-3, MSH-4 and MSH-10, raw."""
    return signed64(listener.encode(), application, facility, control_id)


def digest(payload: bytes) -> bytes:
    """Give the 16 bytes that tell a retransmit from a control id used again."""
    return blake2b(payload, digest_size=16).digest()


def lane(*key: str) -> int:
    """Give the lane of a key, such as a site and its patient's number."""
    return signed64(*(part.encode() for part in key))
