"""
Key images: sniff, check, re-encode.

What is stored and shown is never what was sent: decoded pixels are encoded anew, so that
metadata, trailing data and tricks of the container are gone. Sizes are checked before
pixels are decoded. Stores nothing; compares with nothing.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

from PIL import ExifTags, Image, ImageOps
from PIL.Image import DecompressionBombError, DecompressionBombWarning

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
    try:
        return _reencode(data, limits.max_pixels)
    except BadImage:
        raise
    except (DecompressionBombError, DecompressionBombWarning):
        raise BadImage(ImageFault.TOO_MANY_PIXELS) from None
    except Exception:  # noqa: BLE001  # decoders raise what they like on hostile bytes
        raise BadImage(ImageFault.MALFORMED) from None


def _reencode(data: bytes, max_pixels: int) -> KeyImage:
    kind = next((kind for kind, matches in SIGNATURES if matches(data)), None)
    if kind is None:
        raise BadImage(ImageFault.NOT_AN_IMAGE)
    picture = Image.open(BytesIO(data), formats=(kind,))
    if picture.width * picture.height > max_pixels:  # known from the header, nothing decoded yet
        raise BadImage(ImageFault.TOO_MANY_PIXELS)
    picture.load()
    upright = _upright(picture)
    encoded = _jpeg(upright) if kind == "JPEG" else _png(upright)
    media_type = JPEG if kind == "JPEG" else PNG
    digest = hashlib.sha256(data).hexdigest()
    return KeyImage(media_type, encoded, digest, upright.width, upright.height)


def _upright(picture: Image.Image) -> Image.Image:
    """Apply the camera's orientation, since the tag that says it is not kept."""
    if picture.getexif().get(ExifTags.Base.Orientation, 1) == 1:
        return picture
    return ImageOps.exif_transpose(picture)


def _jpeg(picture: Image.Image) -> bytes:
    buffer = BytesIO()
    if picture.mode == "CMYK":
        picture = picture.convert("RGB")  # browsers disagree about CMYK
    # `keep` takes over the quantization tables: the least loss that re-encoding allows.
    quality = "keep" if picture.format == "JPEG" else 95
    picture.save(buffer, "JPEG", quality=quality, exif=b"", icc_profile=None, comment=b"")
    return buffer.getvalue()


def _png(picture: Image.Image) -> bytes:
    buffer = BytesIO()
    picture.info = {key: value for key, value in picture.info.items() if key == "transparency"}
    picture.save(buffer, "PNG")
    return buffer.getvalue()
