"""
Decodes and checks the files of a launch. One bad file refuses the launch.

Limits are checked before anything is decoded; worker processes read the files. Whether a file
belongs to the patient is checked later (`service.reports.files`).
"""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Any

from bridge.engine.documents.errors import SR_DETAILS, BadImage, ImageFault, SrFault
from bridge.engine.documents.uploads.images import ImageLimits, accept
from bridge.engine.launch.errors import BadLaunch
from bridge.engine.launch.request import Attachment
from bridge.engine.rules.status import FileKind
from bridge.engine.settings import SizeLimits
from bridge.workers.documents import DocumentTooCostly, DocumentUnparsable, ParsingBudget, parse
from parsers.limits import STRUCTURED_REPORT

NAME_LENGTH = 255


def structured_reports(
    files: Sequence[str], limits: SizeLimits, budget: ParsingBudget | None = None
) -> list[Attachment]:
    """Read base64 files in worker processes; raise `BadLaunch` with the index of a bad one."""
    budget = budget or ParsingBudget()
    if len(files) > limits.structured_reports:
        detail = f"at most {limits.structured_reports} DICOM SR files in one request"
        raise BadLaunch("too_many_files", detail, pointer="/dicomSR")
    return [_structured_report(text, index, limits, budget) for index, text in enumerate(files)]


def _structured_report(
    text: str, index: int, limits: SizeLimits, budget: ParsingBudget
) -> Attachment:
    pointer = f"/dicomSR/{index}/fileData"
    data = _decoded(text, limits.structured_report, f"dicomSR[{index}]", pointer)
    report = _read(data, limits, budget)
    if "fault" in report:
        fault = SrFault(report["fault"])
        detail = f"dicomSR[{index}]: {SR_DETAILS[fault]}"
        raise BadLaunch(fault.value.replace("-", "_"), detail, pointer=pointer)
    details = {name: report[name] for name in ("title", "text", "measurements")}
    return Attachment(
        FileKind.STRUCTURED_REPORT,
        hashlib.sha256(data).hexdigest(),
        data,
        "application/dicom",
        sop_instance_uid=report["sop_instance_uid"],
        details=details,
        tags=report["tags"],
    )


def _read(data: bytes, limits: SizeLimits, budget: ParsingBudget) -> dict[str, Any]:
    """Return the members of a `StructuredReport`, or `fault`."""
    size = {"size": limits.structured_report}
    try:
        found: dict[str, Any] = parse(
            "structured report", data, size, limits=STRUCTURED_REPORT, budget=budget
        )
    except DocumentTooCostly:
        return {"fault": SrFault.TOO_COSTLY.value}
    except DocumentUnparsable:
        return {"fault": SrFault.MALFORMED.value}
    return found


def key_images(
    images: Sequence[tuple[str, str, str | None]],
    limits: SizeLimits,
    budget: ParsingBudget | None = None,
) -> list[Attachment]:
    """Return the images `(base64, content type, file name)` re-encoded; raise `BadLaunch`."""
    if len(images) > limits.key_images:
        detail = f"at most {limits.key_images} key images in one request"
        raise BadLaunch("too_many_files", detail, pointer="/keyImages")
    budget = budget or ParsingBudget()
    return [_key_image(image, index, limits, budget) for index, image in enumerate(images)]


def _key_image(
    sent: tuple[str, str, str | None], index: int, limits: SizeLimits, budget: ParsingBudget
) -> Attachment:
    text, declared, name = sent
    pointer = f"/keyImages/{index}/imageData"
    data = _decoded(text, limits.key_image, f"keyImages[{index}]", pointer)
    try:
        bounds = ImageLimits(limits.key_image, limits.key_image_pixels)
        image = accept(data, declared, bounds, budget=budget)
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
        name=_file_name(name or ""),
        details={"width": image.width, "height": image.height},
    )


def _decoded(text: str, limit: int, named: str, pointer: str) -> bytes:
    # Four characters encode three bytes, so the size is known before decoding.
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


def _file_name(name: str) -> str:
    """Return the last part of a path, without control characters."""
    bare = name.replace("\\", "/").rpartition("/")[2]
    return "".join(each for each in bare if each.isprintable())[:NAME_LENGTH]
