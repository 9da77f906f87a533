"""
Key images: sniff, check, re-encode.

What is stored and shown is never what was sent: decoded pixels are encoded anew, so that
metadata, trailing data and tricks of the container are gone. Sizes are checked before
pixels are decoded, in a worker process. Stores nothing; compares with nothing.
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass

from bridge.engine.documents.errors import BadImage, ImageFault
from bridge.workers.documents import Budget, TooCostly, Unparsable, parse
from parsers.limits import IMAGE

DIMENSIONS = struct.Struct("!II")
"""Width and height of a picture, before its bytes, in the answer of a worker process."""

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

    max_bytes: int = IMAGE.size
    max_pixels: int = IMAGE.count


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An accepted image: `data` is ours, `sha256` is of the bytes that were sent."""

    media_type: str
    data: bytes
    sha256: str
    width: int
    height: int


Encoder = Callable[[bytes, str, int], tuple[bytes, int, int]]
"""Gives a picture encoded anew, its width and height, from bytes, format and most pixels."""


def accept(
    data: bytes,
    declared_type: str,
    limits: ImageLimits | None = None,
    *,
    budget: Budget | None = None,
) -> EncodedImage:
    """
    Return the image re-encoded (JPEG stays JPEG, the others become PNG), or raise `BadImage`.

    The declared type must be one of ours; which of them it is, the first bytes decide.
    Of an animation the first picture is kept. `sha256` recognizes a repeated upload.
    """

    def encode(data: bytes, kind: str, pixels: int) -> tuple[bytes, int, int]:
        return _offloaded(data, kind, pixels, budget)

    return _accepted(data, declared_type, limits or ImageLimits(), encode)


def accept_stored(data: bytes, declared_type: str) -> EncodedImage:
    """Re-encode an image that `accept` has encoded before, in this process."""
    from bridge.engine.documents.uploads.pixels import reencode  # noqa: PLC0415  # slow to load

    return _accepted(data, declared_type, ImageLimits(), reencode)


def _accepted(
    data: bytes, declared_type: str, limits: ImageLimits, encode: Encoder
) -> EncodedImage:
    if declared_type.partition(";")[0].strip().lower() not in DECLARED:
        raise BadImage(ImageFault.UNSUPPORTED_TYPE)
    if not data:
        raise BadImage(ImageFault.EMPTY)
    if len(data) > limits.max_bytes:
        raise BadImage(ImageFault.TOO_LARGE)
    kind = next((kind for kind, matches in SIGNATURES if matches(data)), None)
    if kind is None:
        raise BadImage(ImageFault.NOT_AN_IMAGE)
    encoded, width, height = encode(data, kind, limits.max_pixels)
    media_type = JPEG if kind == "JPEG" else PNG
    return EncodedImage(media_type, encoded, hashlib.sha256(data).hexdigest(), width, height)


def _offloaded(
    data: bytes, kind: str, pixels: int, budget: Budget | None
) -> tuple[bytes, int, int]:
    """Encode a picture anew in a worker process. Raises BadImage."""
    try:
        found = parse("image", data, {"kind": kind, "pixels": pixels}, limits=IMAGE, budget=budget)
    except TooCostly:
        raise BadImage(ImageFault.TOO_COSTLY) from None
    except Unparsable:
        raise BadImage(ImageFault.MALFORMED) from None
    if isinstance(found, dict):
        raise BadImage(ImageFault(found["fault"]))
    width, height = DIMENSIONS.unpack_from(found)
    return found[DIMENSIONS.size :], width, height
