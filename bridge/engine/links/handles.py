"""
Opaque handles: what stands in an address instead of the submitted tags.

128 random bits as 22 characters, short enough for an 80-pixel QR code.
Only the hash of a handle is ever stored.
"""

import base64
import hashlib
import re
from collections.abc import Callable
from enum import StrEnum

HANDLE_BYTES = 16
_SHAPE = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)

RandomBytes = Callable[[int], bytes]


class Purpose(StrEnum):
    """What a handle is good for; a handle of one purpose opens nothing of another."""

    LAUNCH = "launch"
    INIT = "init"
    SESSION = "session"
    SHARE = "share"
    SIGN_ON = "sign-on"
    TOTP = "totp"
    DEVICE = "device"
    REPEAT = "repeat"


def new_handle(random_bytes: RandomBytes) -> str:
    """Return 22 characters of the URL-safe base64 alphabet, without padding."""
    return base64.urlsafe_b64encode(random_bytes(HANDLE_BYTES)).rstrip(b"=").decode("ascii")


def handle_hash(handle: str) -> str:
    """Return the SHA-256 of a handle in hexadecimal: the only form that is stored."""
    return hashlib.sha256(handle.encode("utf-8", "surrogatepass")).hexdigest()


def is_handle(text: str) -> bool:
    """Tell whether `text` can be a handle at all."""
    return _SHAPE.fullmatch(text) is not None
