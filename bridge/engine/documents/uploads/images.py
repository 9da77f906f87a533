"""
Uploaded images: detect the format, check the size, re-encode.

The bytes that were sent are never stored or shown. The pixels are decoded and encoded again in a
worker process, which removes metadata, trailing data and malformed parts. The size is checked
before the pixels are decoded.
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.errors import BadImage
from bridge.workers.pool import DocumentTooCostly, DocumentUnparsable, ParsingBudget, parse
from parsers.limits import IMAGE

DIMENSIONS = struct.Struct("!II")
"""Width and height, in front of the image bytes in the result of a worker process."""

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
    """Limits of an image: bytes as sent, pixels as decoded."""

    max_bytes: int = IMAGE.size
    max_pixels: int = IMAGE.count


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An accepted image: `data` is re-encoded, `sha256` is the hash of the bytes that were sent."""

    media_type: str
    data: bytes
    sha256: str
    width: int
    height: int


Encoder = Callable[[bytes, str, int], tuple[bytes, int, int]]
"""Converts (bytes, format, maximum pixels) to (re-encoded bytes, width, height)."""


def accept(
    data: bytes,
    declared_type: str,
    limits: ImageLimits | None = None,
    *,
    budget: ParsingBudget | None = None,
) -> EncodedImage:
    """
    Return the image re-encoded (JPEG stays JPEG, the others become PNG), or raise `BadImage`.

    The declared type must be a supported one; the signature of the data determines the format. An
    animation is reduced to its first picture. `sha256` identifies a repeated upload.
    """

    def encode(data: bytes, kind: str, pixels: int) -> tuple[bytes, int, int]:
        return _encode_in_worker(data, kind, pixels, budget)

    return _accepted(data, declared_type, limits or ImageLimits(), encode)


def accept_stored(data: bytes, declared_type: str) -> EncodedImage:
    """Re-encode an image that `accept` has encoded before; this needs no worker process."""
    from bridge.engine.documents.uploads.pixels import reencode  # noqa: PLC0415  # slow to load

    return _accepted(data, declared_type, ImageLimits(), reencode)


def _accepted(
    data: bytes, declared_type: str, limits: ImageLimits, encode: Encoder
) -> EncodedImage:
    if declared_type.partition(";")[0].strip().lower() not in DECLARED:
        raise BadImage(ErrorCode.IMAGE_TYPE_UNSUPPORTED)
    if not data:
        raise BadImage(ErrorCode.IMAGE_EMPTY)
    if len(data) > limits.max_bytes:
        raise BadImage(ErrorCode.IMAGE_TOO_LARGE)
    kind = next((kind for kind, matches in SIGNATURES if matches(data)), None)
    if kind is None:
        raise BadImage(ErrorCode.IMAGE_NOT_RECOGNIZED)
    encoded, width, height = encode(data, kind, limits.max_pixels)
    media_type = JPEG if kind == "JPEG" else PNG
    return EncodedImage(media_type, encoded, hashlib.sha256(data).hexdigest(), width, height)


def _encode_in_worker(
    data: bytes, kind: str, pixels: int, budget: ParsingBudget | None
) -> tuple[bytes, int, int]:
    """Re-encode an image in a worker process; raise BadImage."""
    try:
        found = parse("image", data, {"kind": kind, "pixels": pixels}, limits=IMAGE, budget=budget)
    except DocumentTooCostly:
        raise BadImage(ErrorCode.IMAGE_TOO_COSTLY) from None
    except DocumentUnparsable:
        raise BadImage(ErrorCode.IMAGE_MALFORMED) from None
    if isinstance(found, dict):
        raise BadImage(ErrorCode(found["fault"]))
    width, height = DIMENSIONS.unpack_from(found)
    return found[DIMENSIONS.size :], width, height
