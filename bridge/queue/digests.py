"""
Digests of payloads: they distinguish a retransmit from other content, and show damage.

No I/O. A row stores 64 bits of the digest beside its payload.
"""

from hashlib import blake2b

_STORED_BYTES = 8


def digest(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=16).digest()


def stored_digest(payload_digest: bytes) -> int:
    """Return the 64 bits of a digest that are stored, as a signed number."""
    return int.from_bytes(payload_digest[:_STORED_BYTES], signed=True)


def is_intact(payload: bytes, stored: int | None) -> bool:
    """True if a stored payload has the digest that was stored with it; None: unknown."""
    return stored is None or stored_digest(digest(payload)) == stored
