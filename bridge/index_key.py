"""
The key of index hashes of patient identifiers.

An unkeyed hash of a medical record number can be reversed by trying all numbers. Therefore every
stored hash of a patient or order identifier passes through `keyed64` or `keyed_text`, with the key
in `secrets/index.key`. All nodes of a database share the key. A process installs it when it opens a
database. Both functions take the unkeyed hash, so that an upgrade can key existing rows without
reading messages.
"""

from hashlib import blake2b
from typing import Final

KEY_BYTES: Final = 32
_WIDTH: Final = 8


class _Installed:
    key: bytes = b""


def install(key: bytes) -> None:
    """Install the key of this process, of `KEY_BYTES` bytes."""
    if len(key) != KEY_BYTES:
        raise ValueError("an index key has 32 bytes")
    _Installed.key = key


def signed64(*parts: bytes) -> int:
    """Return a 64-bit hash of the parts and their boundaries, without a key."""
    whole = b""
    for part in parts:
        whole += len(part).to_bytes(_WIDTH) + part
    return int.from_bytes(blake2b(whole, digest_size=_WIDTH).digest(), signed=True)


def signal_hash(kind: str, value: str) -> int:
    """Return the keyed hash of a link signal or number; case and outer blanks are ignored."""
    named = value.strip().casefold().encode("utf-8", "surrogatepass")
    return keyed64(signed64(kind.encode(), named))


def keyed64(number: int) -> int:
    """Return the keyed form of a 64-bit hash, as a signed number."""
    data = number.to_bytes(_WIDTH, signed=True)
    return int.from_bytes(blake2b(data, digest_size=_WIDTH, key=_key()).digest(), signed=True)


def keyed_text(digest: str) -> str:
    """Return the keyed form of a digest, in hexadecimal."""
    return blake2b(digest.encode(), digest_size=32, key=_key()).hexdigest()


def derived_key(purpose: str, nonce: bytes) -> bytes:
    """
    Return a key for another purpose, of `KEY_BYTES` bytes.

    The same nonce returns it again; without the index key nobody can compute it.
    """
    named = blake2b(purpose.encode(), digest_size=_WIDTH).digest()
    return blake2b(named + nonce, digest_size=KEY_BYTES, key=_key(), person=b"derived key").digest()


def fingerprint(key: bytes | None = None) -> str:
    """
    Return the fingerprint by which a database recognizes a key, by default the installed one.

    The fingerprint reveals nothing about the key.
    """
    return blake2b(b"fingerprint of the index key", digest_size=16, key=key or _key()).hexdigest()


def _key() -> bytes:
    key = _Installed.key
    if not key:
        raise RuntimeError("no index key was given to this process")
    return key
