"""
Key images: sniff, check, re-encode.

What is stored and shown is never what was sent: decoded pixels are encoded anew, so that
metadata, trailing data and tricks of the container are gone. Sizes are checked before
pixels are decoded. Stores nothing; compares with nothing.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from bridge.engine.documents.errors import BadImage, ImageFault

PNG = "image/png"
JPEG = "image/jpeg"
DECLARED = frozenset({PNG, JPEG, "image/jpg", "image/pjpeg", "image/gif", "image/webp"})

SIGNATURES: tuple[tuple[str, Callable[[bytes], bool]], ...] = (
    ("PNG", lambda data: data.startswith(b"\x89PNG\r\n\x1a\n")),
    ("JPEG", lambda data: data.startswith(b"\xff\xd8\xff")),
    ("GIF", lambda data: data.startswith((b"GIF87a", b"GIF89a"))),
    ("WEBP", lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP"),
)


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """How much of an image is taken: bytes as sent, pixels as decoded."""

    max_bytes: int = 10 * 2**20
    max_pixels: int = 40_000_000


@dataclass(frozen=True, slots=True)
class KeyImage:
    """An accepted image: `data` is ours, `sha256` is of the bytes that were sent."""

    media_type: str
    data: bytes
    sha256: str
    width: int
    height: int


def accept(data: bytes, declared_type: str, limits: ImageLimits | None = None) -> KeyImage:
    """
    Return the image re-encoded (JPEG stays JPEG, the others become PNG), or raise `BadImage`.

    The declared type must be one of ours; which of them it is, the first bytes decide.
    Of an animation the first picture is kept. `sha256` recognizes a repeated upload.
    """
    limits = limits or ImageLimits()
    if declared_type.partition(";")[0].strip().lower() not in DECLARED:
        raise BadImage(ImageFault.UNSUPPORTED_TYPE)
    if not data:
        raise BadImage(ImageFault.EMPTY)
    if len(data) > limits.max_bytes:
        raise BadImage(ImageFault.TOO_LARGE)
    kind = next((kind for kind, matches in SIGNATURES if matches(data)), None)
    if kind is None:
        raise BadImage(ImageFault.NOT_AN_IMAGE)
    from bridge.engine.documents.pixels import reencode  # noqa: PLC0415  # slow to load

    encoded, width, height = reencode(data, kind, limits.max_pixels)
    media_type = JPEG if kind == "JPEG" else PNG
    return KeyImage(media_type, encoded, hashlib.sha256(data).hexdigest(), width, height)
