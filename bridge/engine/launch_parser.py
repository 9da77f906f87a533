"""
Parses the body of a launch into a `LaunchInput`; decodes and checks its files.

Values of DICOM SR files fill only the tags that clinicalInfo leaves unset (interface reference,
launch). Stored data is not read. Limits are checked before anything is decoded, and one bad file
refuses the launch. Worker processes read the files. `service.reports.files` later checks the
patient of the files.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.contract.requests import (
    MAX_TEMPLATE,
    ClinicalInfo,
    KeyImageFile,
    LaunchBody,
    LaunchUserInfo,
    ReportingApp,
    has_invisible,
)
from bridge.engine.documents.errors import BadImage
from bridge.engine.documents.uploads.images import ImageLimits, accept
from bridge.engine.errors import EngineError
from bridge.engine.launch import (
    LANGUAGES,
    Attachment,
    LaunchInput,
    NamedUser,
    ReportingOptions,
    supported_language,
)
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.settings import SizeLimits
from bridge.workers.pool import DocumentTooCostly, DocumentUnparsable, ParsingBudget, parse
from parsers.limits import STRUCTURED_REPORT

IDENTITY_TAGS = ("PatientMRN", "Accession")
_NOT_TAGS = frozenset({"SiteLocation", "Metadata"})
_NO_OPTIONS = ReportingOptions()
_NO_USER = LaunchUserInfo()


def read_launch(
    body: LaunchBody, limits: SizeLimits, budget: ParsingBudget | None = None, link_group: str = ""
) -> LaunchInput:
    """Return the checked launch; raise `EngineError`. Decodes files: call it off the event loop."""
    budget = budget or ParsingBudget()
    files = [file.fileData for file in body.dicomSR or ()]
    reports = read_structured_reports(files, limits, budget)
    attachments = reports + _read_key_images(body.keyImages or (), limits, budget)
    info, user_info = body.clinicalInfo, body.userInfo or _NO_USER
    sent_tags = _tags(info, limits)
    tags = fill_tags(sent_tags, reports)
    _require_identity(tags, limits)
    email, name = user_info.UserEmail, user_info.UserName
    launch = LaunchInput(
        identity=OrderKey(tags["SiteID"], tags["PatientMRN"], tags["Accession"]),
        tags=tags,
        cleared=tuple(
            name for name in info.model_fields_set if getattr(info, name) == "" and name not in tags
        ),
        location=info.SiteLocation,
        metadata=_metadata(info.Metadata, limits),
        app=_reporting_options(body.reportingApp),
        user=NamedUser(email, name) if email or name else None,
        authority=user_info.Auth,
        force_transfer=user_info.forceOwnershipTransfer,
        lazy=body.lazyLaunch,
        register_order=body.registerOrder,
        force_name=body.forceUpdatePatientName,
        attachments=_drop_repeated(attachments),
        filled=frozenset(tags.keys() - sent_tags.keys()),
        link_group=link_group,
    )
    if launch.register_order and not launch.lazy:
        detail = "registerOrder requires lazyLaunch: true"
        raise EngineError(ErrorCode.REGISTER_NEEDS_LAZY, detail, pointer="/registerOrder")
    # The name of a file never renames a patient (interface reference, launch).
    if launch.force_name and not info.PatientName.strip("^ "):
        detail = "forceUpdatePatientName needs a PatientName in clinicalInfo"
        raise EngineError(ErrorCode.MISSING_TAG, detail, pointer="/clinicalInfo/PatientName")
    return launch


def fill_tags(sent_tags: Mapping[str, str], files: Sequence[Attachment]) -> dict[str, str]:
    """Return the tags of clinicalInfo; the first file with a value fills a tag that is unset."""
    tags = dict(sent_tags)
    for file in files:
        for name, value in file.tags.items():
            if value and not tags.get(name):
                tags[name] = value
    return tags


def _tags(info: ClinicalInfo, limits: SizeLimits) -> dict[str, str]:
    tags = {
        name: value
        for name, value in vars(info).items()  # ten times as fast as `dict(info)`
        if value and name not in _NOT_TAGS and isinstance(value, str) and value.strip()
    }
    for name in ("KeyFindings", "Notes", "ReasonForExam"):
        if len(tags.get(name, "")) > limits.key_findings:
            detail = f"{name} is longer than {limits.key_findings} characters"
            raise EngineError(ErrorCode.TOO_LONG, detail, pointer=f"/clinicalInfo/{name}")
    return tags


def _require_identity(tags: Mapping[str, str], limits: SizeLimits) -> None:
    missing = [
        (
            f"/clinicalInfo/{name}",
            f"{name} is missing from clinicalInfo and from the DICOM SR files",
        )
        for name in IDENTITY_TAGS
        if not tags.get(name, "").strip()
    ]
    if missing:
        (pointer, detail), *others = missing
        raise EngineError(ErrorCode.MISSING_TAG, detail, pointer=pointer, errors=others)
    for name in IDENTITY_TAGS:
        if has_invisible(tags[name]):
            detail = f"{name} has control characters, line ends or direction marks"
            raise EngineError(ErrorCode.INVALID_REQUEST, detail, pointer=f"/clinicalInfo/{name}")
        # Only a tag of an SR file can be too long: the HTTP layer has checked the request's tags.
        if len(tags[name].encode()) > limits.tag:
            detail = f"{name} is longer than {limits.tag} bytes"
            raise EngineError(ErrorCode.TOO_LONG, detail, pointer=f"/clinicalInfo/{name}")


def _metadata(value: Any, limits: SizeLimits) -> dict[str, Any] | None:
    if value is None:
        return None
    pointer = "/clinicalInfo/Metadata"
    if _depth(value) > limits.metadata_depth:
        detail = f"Metadata is nested deeper than {limits.metadata_depth}"
        raise EngineError(ErrorCode.METADATA_TOO_DEEP, detail, pointer=pointer)
    # `json.dumps` adds spaces, which at most double the length of the compact JSON.
    large = 2 * len(to_json(value)) > limits.metadata
    if large and len(json.dumps(value, ensure_ascii=False).encode()) > limits.metadata:
        detail = f"Metadata is larger than {limits.metadata} bytes"
        raise EngineError(ErrorCode.METADATA_TOO_LARGE, detail, pointer=pointer)
    return dict(value)


def _depth(value: Any) -> int:
    """Return how deep objects and lists are nested; the shape check has limited it already."""
    depth, level = 0, [value]
    while level := [value for value in level if isinstance(value, (dict, list))]:
        depth += 1
        level = [
            member
            for value in level
            for member in (value.values() if isinstance(value, dict) else value)
        ]
    return depth


def _drop_repeated(attachments: Sequence[Attachment]) -> tuple[Attachment, ...]:
    """Keep one of several files with the same content."""
    found: dict[tuple[FileKind, str], Attachment] = {}
    for attachment in attachments:
        found.setdefault((attachment.kind, attachment.sha256), attachment)
    return tuple(found.values())


def _reporting_options(app: ReportingApp) -> ReportingOptions:
    if all(option is None or option == "" for option in vars(app).values()):
        return _NO_OPTIONS
    if app.ReturnFormat and app.ReturnFormat.upper() != "HL7":
        pointer = "/reportingApp/ReturnFormat"
        raise EngineError(ErrorCode.UNKNOWN_FORMAT, pointer=pointer)
    return ReportingOptions(
        app_language=read_language(app.AppLanguage, "/reportingApp/AppLanguage"),
        speech_language=read_language(app.SpeechLanguage, "/reportingApp/SpeechLanguage"),
        return_format="HL7" if app.ReturnFormat else None,
        template=_template(app.ApplyTemplate),
        sync_launch=bool(app.SyncLaunch),
        auto_compare=app.AutoComparePrior,
    )


def read_language(code: str | None, pointer: str) -> str | None:
    """Return the supported language for `code`, None for an empty one; raise `EngineError`."""
    if not code or not code.strip():
        return None
    found = supported_language(code)
    if found is None:
        detail = f"the language is not one of {', '.join(LANGUAGES)}"
        raise EngineError(ErrorCode.UNKNOWN_LANGUAGE, detail, pointer=pointer)
    return found


def _template(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_TEMPLATE)):
        detail = "ApplyTemplate is not a template number"
        raise EngineError(ErrorCode.BAD_TEMPLATE, detail, pointer="/reportingApp/ApplyTemplate")
    return int(text)


NAME_LENGTH = 255


def read_structured_reports(
    files: Sequence[str], limits: SizeLimits, budget: ParsingBudget | None = None
) -> list[Attachment]:
    """Read base64 files in worker processes; raise `EngineError` with the index of a bad one."""
    budget = budget or ParsingBudget()
    if len(files) > limits.structured_reports:
        detail = f"at most {limits.structured_reports} DICOM SR files in one request"
        raise EngineError(ErrorCode.TOO_MANY_FILES, detail, pointer="/dicomSR")
    return [_structured_report(text, index, limits, budget) for index, text in enumerate(files)]


def _structured_report(
    text: str, index: int, limits: SizeLimits, budget: ParsingBudget
) -> Attachment:
    pointer = f"/dicomSR/{index}/fileData"
    data = decode_file(text, limits.structured_report, f"dicomSR[{index}]", pointer)
    report = _parse_report(data, limits, budget)
    if "fault" in report:
        fault = ErrorCode(report["fault"])
        raise EngineError(fault, f"dicomSR[{index}]: {fault.text}", pointer=pointer)
    details = {name: report[name] for name in ("title", "text", "measurements", "groups")}
    return Attachment(
        FileKind.STRUCTURED_REPORT,
        hashlib.sha256(data).hexdigest(),
        data,
        "application/dicom",
        sop_instance_uid=report["sop_instance_uid"],
        details=details,
        tags=report["tags"],
        position=index,
    )


def _parse_report(data: bytes, limits: SizeLimits, budget: ParsingBudget) -> dict[str, Any]:
    """Return the members of a `StructuredReport`, or `fault` for a refused file."""
    size = {"size": limits.structured_report}
    try:
        found: dict[str, Any] = parse(
            "structured report", data, size, limits=STRUCTURED_REPORT, budget=budget
        )
    except DocumentTooCostly:
        return {"fault": ErrorCode.SR_TOO_COSTLY.value}
    except DocumentUnparsable:
        return {"fault": ErrorCode.SR_MALFORMED.value}
    return found


def _read_key_images(
    images: Sequence[KeyImageFile], limits: SizeLimits, budget: ParsingBudget
) -> list[Attachment]:
    if len(images) > limits.key_images:
        detail = f"at most {limits.key_images} key images in one request"
        raise EngineError(ErrorCode.TOO_MANY_FILES, detail, pointer="/keyImages")
    return [_key_image(image, index, limits, budget) for index, image in enumerate(images)]


def _key_image(
    sent: KeyImageFile, index: int, limits: SizeLimits, budget: ParsingBudget
) -> Attachment:
    pointer = f"/keyImages/{index}/imageData"
    data = decode_file(sent.imageData, limits.key_image, f"keyImages[{index}]", pointer)
    try:
        bounds = ImageLimits(limits.key_image, limits.key_image_pixels)
        image = accept(data, sent.contentType, bounds, budget=budget)
    except BadImage as error:
        if error.code is ErrorCode.IMAGE_TYPE_UNSUPPORTED:
            pointer = f"/keyImages/{index}/contentType"
        detail = f"keyImages[{index}]: {error.detail}"
        raise EngineError(error.code, detail, pointer=pointer) from None
    return Attachment(
        FileKind.KEY_IMAGE,
        image.sha256,
        image.data,
        image.media_type,
        name=_file_name(sent.fileName or ""),
        details={"width": image.width, "height": image.height},
    )


def decode_file(text: str, limit: int, named: str, pointer: str) -> bytes:
    """Decode base64 with line ends; raise EngineError if it is none, empty, or above the limit."""
    # Four characters encode three bytes, so the size is known before decoding.
    if len(text) > limit * 4 // 3 + 4 + text.count("\n") + text.count("\r"):
        detail = f"{named}: the file is larger than {limit} bytes"
        raise EngineError(ErrorCode.FILE_TOO_LARGE, detail, pointer=pointer)
    try:
        plain = text.replace("\r", "").replace("\n", "").encode("ascii")
        data = base64.b64decode(plain, validate=True)
    except (binascii.Error, UnicodeEncodeError):
        detail = f"{named}: the data is not base64"
        raise EngineError(ErrorCode.BAD_BASE64, detail, pointer=pointer) from None
    if not data:
        raise EngineError(ErrorCode.EMPTY_FILE, f"{named}: the file is empty", pointer=pointer)
    return data


def _file_name(name: str) -> str:
    """Return the last part of a path, without control characters."""
    bare = name.replace("\\", "/").rpartition("/")[2]
    return "".join(character for character in bare if character.isprintable())[:NAME_LENGTH]
