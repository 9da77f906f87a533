"""
Decoding and encoding of images with Pillow.

A separate module, because Pillow is slow to load. `images` checks an upload before it is decoded.
"""

from io import BytesIO

from PIL import ExifTags, Image, ImageOps
from PIL.Image import DecompressionBombError, DecompressionBombWarning

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.errors import BadImage


def reencode(data: bytes, kind: str, max_pixels: int) -> tuple[bytes, int, int]:
    """
    Return the re-encoded image, its width and its height; `kind` is Pillow's name of the format.

    JPEG stays JPEG, the others become PNG. Raises `BadImage`.
    """
    try:
        return _reencode(data, kind, max_pixels)
    except BadImage:
        raise
    except (DecompressionBombError, DecompressionBombWarning):
        raise BadImage(ErrorCode.IMAGE_TOO_MANY_PIXELS) from None
    except Exception:  # noqa: BLE001  # decoders raise arbitrary exceptions
        raise BadImage(ErrorCode.IMAGE_MALFORMED) from None


def _reencode(data: bytes, kind: str, max_pixels: int) -> tuple[bytes, int, int]:
    picture = Image.open(BytesIO(data), formats=(kind,))
    if picture.width * picture.height > max_pixels:  # known from the header, nothing decoded yet
        raise BadImage(ErrorCode.IMAGE_TOO_MANY_PIXELS)
    picture.load()
    upright = _upright(picture)
    encoded = _jpeg(upright) if kind == "JPEG" else _png(upright)
    return encoded, upright.width, upright.height


def _upright(picture: Image.Image) -> Image.Image:
    """Apply the EXIF orientation, because the tag is not kept."""
    if picture.getexif().get(ExifTags.Base.Orientation, 1) == 1:
        return picture
    return ImageOps.exif_transpose(picture)


def _jpeg(picture: Image.Image) -> bytes:
    buffer = BytesIO()
    if picture.mode == "CMYK":
        picture = picture.convert("RGB")  # browsers disagree about CMYK
    # `keep` reuses the quantization tables, which loses the least.
    quality = "keep" if picture.format == "JPEG" else 95
    picture.save(buffer, "JPEG", quality=quality, exif=b"", icc_profile=None, comment=b"")
    return buffer.getvalue()


def _png(picture: Image.Image) -> bytes:
    buffer = BytesIO()
    picture.info = {key: value for key, value in picture.info.items() if key == "transparency"}
    picture.save(buffer, "PNG")
    return buffer.getvalue()
