"""Images: format detection, re-encoding, decompression bombs."""

import struct
import zlib
from contextlib import suppress
from io import BytesIO

import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL.PngImagePlugin import PngInfo

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.errors import BadImage
from bridge.engine.documents.uploads.images import ImageLimits, accept


def image(kind: str, mode: str = "RGB", **options: object) -> bytes:
    """An image of 6 x 4 pixels."""
    buffer = BytesIO()
    PIL.Image.new(mode, (6, 4)).save(buffer, kind, **options)
    return buffer.getvalue()


def bomb(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", crc)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize(
    ("kind", "declared", "becomes"),
    [
        ("PNG", "image/png", "image/png"),
        ("JPEG", "image/jpeg", "image/jpeg"),
        ("JPEG", "image/JPG; q=1", "image/jpeg"),
        ("GIF", "image/gif", "image/png"),
        ("WEBP", "image/webp", "image/png"),
        ("PNG", "image/jpeg", "image/png"),
    ],
)
def test_accepted(kind: str, declared: str, becomes: str) -> None:
    """The four formats are accepted under any declared type."""
    taken = accept(image(kind), declared)
    assert (taken.media_type, taken.width, taken.height) == (becomes, 6, 4)
    assert PIL.Image.open(BytesIO(taken.data)).size == (6, 4)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_modes(mode: str) -> None:
    """Every pixel format of PNG is accepted."""
    assert PIL.Image.open(BytesIO(accept(image("PNG", mode), "image/png").data)).size == (6, 4)


def test_metadata_is_removed() -> None:
    """Comments of the file could contain the name of the patient."""
    info = PngInfo()
    info.add_text("Comment", "CANARY")
    assert b"CANARY" not in accept(image("PNG", pnginfo=info), "image/png").data
    assert b"CANARY" not in accept(image("JPEG", comment=b"CANARY"), "image/jpeg").data
    assert b"CANARY" not in accept(image("PNG") + b"CANARY", "image/png").data


def test_orientation_is_applied() -> None:
    """The image is rotated, and the orientation tag is removed."""
    exif = PIL.Image.Exif()
    exif[274] = 6
    taken = accept(image("JPEG", exif=exif), "image/jpeg")
    assert (taken.width, taken.height) == (4, 6)


def test_the_hash_identifies_an_image() -> None:
    """Equal bytes have equal hashes, other bytes have other hashes."""
    assert accept(image("PNG"), "image/png").sha256 == accept(image("PNG"), "image/png").sha256
    assert accept(image("PNG"), "image/png").sha256 != accept(image("GIF"), "image/gif").sha256


@pytest.mark.parametrize(
    ("data", "declared", "fault"),
    [
        (b"", "image/png", ErrorCode.IMAGE_EMPTY),
        (b"<svg xmlns='x'/>", "image/png", ErrorCode.IMAGE_NOT_RECOGNIZED),
        (b"%PDF-1.7", "image/jpeg", ErrorCode.IMAGE_NOT_RECOGNIZED),
        (image("PNG"), "image/svg+xml", ErrorCode.IMAGE_TYPE_UNSUPPORTED),
        (image("PNG"), "text/html", ErrorCode.IMAGE_TYPE_UNSUPPORTED),
        (image("PNG"), "", ErrorCode.IMAGE_TYPE_UNSUPPORTED),
        (image("PNG")[:44], "image/png", ErrorCode.IMAGE_MALFORMED),
        (image("TIFF"), "image/png", ErrorCode.IMAGE_NOT_RECOGNIZED),
        (bomb(50_000, 50_000), "image/png", ErrorCode.IMAGE_TOO_MANY_PIXELS),
        (bomb(10_000, 10_000), "image/png", ErrorCode.IMAGE_TOO_MANY_PIXELS),
        (bomb(7_000, 7_000), "image/png", ErrorCode.IMAGE_TOO_MANY_PIXELS),
    ],
)
def test_refused(data: bytes, declared: str, fault: ErrorCode) -> None:
    """Everything else is refused with a stable code."""
    with pytest.raises(BadImage) as raised:
        accept(data, declared)
    assert raised.value.code is fault


def test_size_limit() -> None:
    """The size is checked before the data is read."""
    with pytest.raises(BadImage) as raised:
        accept(image("PNG"), "image/png", ImageLimits(max_bytes=10))
    assert raised.value.code is ErrorCode.IMAGE_TOO_LARGE


@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP"]), st.binary(max_size=60), st.integers(4, 40))
def test_damage_never_raises_anything_else(kind: str, noise: bytes, at: int) -> None:
    """Damaged images are accepted or refused, without another exception."""
    data = image(kind)
    with suppress(BadImage):
        accept(data[:at] + noise + data[at + len(noise) :], "image/png")
