"""
Sealed links: opaque handles, and payloads encrypted with AES-256-GCM under a rotating key ring.

    LinkError
    ├── UnknownSealKey  sealed under a key that is no longer in the ring
    └── SealBroken      altered, or sealed for another handle, site or purpose

A handle is 128 random bits as 22 characters, short enough for an 80-pixel QR code. Only its hash is
stored.

The newest key seals, every key of the ring opens. The associated data binds a payload to its
handle, site and purpose, so that stored rows cannot be swapped. This module stores nothing.
"""

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


class LinkError(Exception):
    """A sealed payload cannot be opened."""


class UnknownSealKey(LinkError):
    """The key that sealed this payload is not in the key ring."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no key {key_id!r} in the key ring")


class SealBroken(LinkError):
    """The authentication tag does not match: the payload was altered or belongs to another link."""

    def __init__(self) -> None:
        super().__init__("the sealed payload does not belong here or was altered")


HANDLE_BYTES = 16
_HANDLE = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)

RandomBytes = Callable[[int], bytes]


class Purpose(StrEnum):
    """The purpose of a handle; a handle of one purpose opens nothing of another."""

    LAUNCH = "launch"
    INIT = "init"
    SESSION = "session"
    SHARE = "share"
    SIGN_ON = "sign-on"
    TOTP = "totp"
    DEVICE = "device"
    REPEAT = "repeat"


PATHS = {
    Purpose.LAUNCH: "/reporting/launch-report/clinical",
    Purpose.INIT: "/reporting/init",
    Purpose.SHARE: "/reporting/shared",
}


def link_address(base_url: str, purpose: Purpose, handle: str) -> str:
    """Return the address of a link; `handle` is its secret."""
    return f"{base_url}{PATHS[purpose]}?token={handle}"


def new_handle(random_bytes: RandomBytes) -> str:
    """Return 22 characters of the URL-safe base64 alphabet, without padding."""
    return base64.urlsafe_b64encode(random_bytes(HANDLE_BYTES)).rstrip(b"=").decode("ascii")


def handle_hash(handle: str) -> str:
    """Return the SHA-256 of a handle in hexadecimal, the only form that is stored."""
    return hashlib.sha256(handle.encode("utf-8", "surrogatepass")).hexdigest()


def is_handle(text: str) -> bool:
    """True if `text` has the form of a handle."""
    return _HANDLE.fullmatch(text) is not None


NONCE_BYTES = 12


@dataclass(frozen=True, slots=True)
class Binding:
    """Handle, site and purpose of a sealed payload; it cannot be opened with another binding."""

    handle_hash: str
    site_id: str
    purpose: Purpose

    def associated_data(self) -> bytes:
        """Return the three parts, joined unambiguously."""
        return f"{self.purpose}\x00{self.handle_hash}\x00{self.site_id}".encode()


@dataclass(frozen=True, slots=True)
class Sealed:
    """Nonce and ciphertext, and the id of the key that sealed them."""

    key_id: str
    data: bytes


Keys = Sequence[tuple[str, bytes]]
"""A key ring, newest first: `(key id, 32 bytes)`."""


class KeyRing:
    """
    The keys of sealed links.

    `changed` returns the ring if it was rotated since the last call, otherwise None. It is called
    before each sealing and for an unknown key, so keys can be rotated while the service runs.
    """

    def __init__(
        self,
        keys: Keys,
        random_bytes: RandomBytes,
        changed: Callable[[], Keys | None] = lambda: None,
    ) -> None:
        self._random = random_bytes
        self._changed = changed
        self._use(keys)

    @property
    def newest(self) -> str:
        """The id of the key that seals."""
        return self._ring[0]

    def seal(self, payload: bytes, binding: Binding) -> Sealed:
        """Compress and encrypt `payload` for exactly this binding."""
        self._refresh()
        newest, ciphers = self._ring
        nonce = self._random(NONCE_BYTES)
        data = ciphers[newest].encrypt(nonce, zlib.compress(payload, 1), binding.associated_data())
        return Sealed(newest, nonce + data)

    def open(self, sealed: Sealed, binding: Binding) -> bytes:
        """Return the payload; raise `UnknownSealKey` or `SealBroken`."""
        if sealed.key_id not in self._ring[1]:
            self._refresh()
        cipher = self._ring[1].get(sealed.key_id)
        if cipher is None:
            raise UnknownSealKey(sealed.key_id)
        nonce, data = sealed.data[:NONCE_BYTES], sealed.data[NONCE_BYTES:]
        try:
            return zlib.decompress(cipher.decrypt(nonce, data, binding.associated_data()))
        except InvalidTag:
            raise SealBroken from None

    def seal_text(self, payload: bytes, binding: Binding) -> str:
        """Seal a payload for a cookie or a form field."""
        sealed = self.seal(payload, binding)
        return f"{sealed.key_id}.{base64.urlsafe_b64encode(sealed.data).decode('ascii')}"

    def open_text(self, text: str, binding: Binding) -> bytes | None:
        """Return the payload of a sealed text; None if it is damaged or of another binding."""
        key_id, _, data = text.partition(".")
        if not data:
            return None
        try:
            return self.open(Sealed(key_id, base64.urlsafe_b64decode(data)), binding)
        except (LinkError, ValueError):
            return None

    def reseal(self, sealed: Sealed, binding: Binding) -> Sealed | None:
        """Return the payload sealed under the newest key, or None if it already is."""
        if sealed.key_id == self.newest:
            return None
        return self.seal(self.open(sealed, binding), binding)

    def _refresh(self) -> None:
        keys = self._changed()
        if keys:
            self._use(keys)

    def _use(self, keys: Keys) -> None:
        if not keys:
            message = "the key ring is empty"
            raise ValueError(message)
        # One assignment: other threads see either the old or the new ring.
        self._ring = (keys[0][0], {key_id: AESGCM(key) for key_id, key in keys})
