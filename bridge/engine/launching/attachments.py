"""
Decode and check the files of a launch: all of them, or none is taken.

Limits are applied before anything is decoded. What a file says is not judged here.
"""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from bridge.engine.documents.errors import BadImage, BadStructuredReport, ImageFault
from bridge.engine.documents.images import ImageLimits, accept
from bridge.engine.launching.errors import BadLaunch
from bridge.engine.launching.request import Attachment
from bridge.engine.rules.status import FileKind
from bridge.engine.settings import SizeLimits

if TYPE_CHECKING:
    from bridge.engine.documents.structured_report import StructuredReport

NAME_LENGTH = 255


def structured_reports(
    files: Sequence[str], limits: SizeLimits
) -> list[tuple["StructuredReport", Attachment]]:
    """Return what each base64 file says and how it is kept; raise `BadLaunch` with its index."""
    if len(files) > limits.structured_reports:
        detail = f"at most {limits.structured_reports} DICOM SR files in one request"
        raise BadLaunch("too_many_files", detail, pointer="/dicomSR")
    return [_structured_report(text, index, limits) for index, text in enumerate(files)]


def _structured_report(
    text: str, index: int, limits: SizeLimits
) -> tuple["StructuredReport", Attachment]:
    from bridge.engine.documents.sr_file import SrLimits  # noqa: PLC0415  # slow to load, not every site has such files
    from bridge.engine.documents.structured_report import read  # noqa: PLC0415  # slow to load, not every site has such files

    pointer = f"/dicomSR/{index}/fileData"
    data = _decoded(text, limits.structured_report, f"dicomSR[{index}]", pointer)
    try:
        report = read(data, SrLimits(max_bytes=limits.structured_report))
    except BadStructuredReport as error:
        detail = f"dicomSR[{index}]: {error.detail}"
        raise BadLaunch(error.code.value.replace("-", "_"), detail, pointer=pointer) from None
    details = {
        "title": report.title,
        "text": report.text,
        "measurements": [asdict(each) for each in report.measurements],
    }
    kept = Attachment(
        FileKind.STRUCTURED_REPORT,
        hashlib.sha256(data).hexdigest(),
        data,
        "application/dicom",
        sop_instance_uid=report.sop_instance_uid,
        details=details,
    )
    return report, kept


def key_images(
    images: Sequence[tuple[str, str, str | None]], limits: SizeLimits
) -> list[Attachment]:
    """Return the images `(base64, content type, file name)` re-encoded; raise `BadLaunch`."""
    if len(images) > limits.key_images:
        detail = f"at most {limits.key_images} key images in one request"
        raise BadLaunch("too_many_files", detail, pointer="/keyImages")
    return [_key_image(*image, index, limits) for index, image in enumerate(images)]


def _key_image(
    text: str, declared: str, name: str | None, index: int, limits: SizeLimits
) -> Attachment:
    pointer = f"/keyImages/{index}/imageData"
    data = _decoded(text, limits.key_image, f"keyImages[{index}]", pointer)
    try:
        image = accept(data, declared, ImageLimits(limits.key_image, limits.key_image_pixels))
    except BadImage as error:
        if error.code is ImageFault.UNSUPPORTED_TYPE:
            pointer = f"/keyImages/{index}/contentType"
        detail = f"keyImages[{index}]: {error.detail}"
        raise BadLaunch(error.code.value.replace("-", "_"), detail, pointer=pointer) from None
    return Attachment(
        FileKind.KEY_IMAGE,
        image.sha256,
        image.data,
        image.media_type,
        name=_bare_name(name or ""),
        details={"width": image.width, "height": image.height},
    )


def _decoded(text: str, limit: int, named: str, pointer: str) -> bytes:
    # Four characters hold three bytes: too long is known before decoding.
    if len(text) > limit * 4 // 3 + 4 + text.count("\n") + text.count("\r"):
        detail = f"{named}: the file is larger than {limit} bytes"
        raise BadLaunch("file_too_large", detail, pointer=pointer)
    try:
        plain = text.replace("\r", "").replace("\n", "").encode("ascii")
        data = base64.b64decode(plain, validate=True)
    except (binascii.Error, UnicodeEncodeError):
        detail = f"{named}: the data is not base64"
        raise BadLaunch("bad_base64", detail, pointer=pointer) from None
    if not data:
        raise BadLaunch("empty_file", f"{named}: the file is empty", pointer=pointer)
    return data


def _bare_name(name: str) -> str:
    """Keep the last part of a path, without control characters."""
    bare = name.replace("\\", "/").rpartition("/")[2]
    return "".join(each for each in bare if each.isprintable())[:NAME_LENGTH]
