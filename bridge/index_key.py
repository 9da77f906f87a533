"""
The secret that index hashes of patient identifiers are keyed with.

An unkeyed hash of a medical record number can be found by trying all numbers. Every hash of a
patient's or an order's identifier that is stored therefore passes through `keyed64` or
`keyed_text`, with the key of `secrets/index.key`. It is one for all nodes that share a database,
and is given to a process once, when a database is opened. Both functions take the unkeyed hash, so
that an upgrade can key the rows there are without reading a message.
"""

from hashlib import blake2b
from typing import Final

KEY_BYTES: Final = 32
_WIDTH: Final = 8


class _Installed:
    """The key of this process."""

    key: bytes = b""


def use(key: bytes) -> None:
    """Let this process key its hashes with `key`, of `KEY_BYTES` bytes."""
    if len(key) != KEY_BYTES:
        raise ValueError("an index key has 32 bytes")
    _Installed.key = key


def keyed64(number: int) -> int:
    """Give the signed 64 bits under which an unkeyed hash of 64 bits is stored."""
    data = number.to_bytes(_WIDTH, signed=True)
    return int.from_bytes(blake2b(data, digest_size=_WIDTH, key=_key()).digest(), signed=True)


def keyed_text(digest: str) -> str:
    """Give the text under which an unkeyed digest is stored, in hexadecimal."""
    return blake2b(digest.encode(), digest_size=32, key=_key()).hexdigest()


def fingerprint(key: bytes | None = None) -> str:
    """
    Give what a database keeps to recognize a key, by default the one in use.

    Nothing follows from it about the key.
    """
    return blake2b(b"fingerprint of the index key", digest_size=16, key=key or _key()).hexdigest()


def _key() -> bytes:
    key = _Installed.key
    if not key:
        raise RuntimeError("no index key was given to this process")
    return key
