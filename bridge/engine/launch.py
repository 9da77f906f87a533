"""
A launch as use cases get it (checked and decoded, without HTTP), and its outcome.

The link of a lazy launch contains the launch as JSON until it is first opened (`to_json`,
`from_json`). The JSON leaves out what only the launch itself needs: its user and the authority.
Languages are the 17 codes of the interface reference; other BCP-47 codes are mapped to them. HTTP
adds the link and its QR code to the outcome.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final

from bridge.contract import PRE_LAUNCH, SIGNED, OrderKey, ReportStatus
from bridge.engine.rules.lifecycle import FileKind

LANGUAGES = (
    "en-US",
    "en-GB",
    "en-AU",
    "zh-CN",
    "zh-Hant",
    "nl-NL",
    "fr-FR",
    "fr-CA",
    "de-DE",
    "id-ID",
    "it-IT",
    "ja-JP",
    "ko-KR",
    "pl-PL",
    "pt-BR",
    "ro-RO",
    "es-ES",
)
DEFAULT_LANGUAGE = "en-US"

_BY_LOWER = {code.lower(): code for code in LANGUAGES}
_BY_LANGUAGE = {code.partition("-")[0]: code for code in reversed(LANGUAGES)}
"""The first code of each language."""
_TRADITIONAL = frozenset({"hant", "tw", "hk", "mo"})


def supported_language(code: str) -> str | None:
    """
    Return the supported code for `code`, or None.

    `zh-TW`, `zh-HK`, `zh-MO` and any `zh-Hant-…` map to `zh-Hant`, other Chinese to `zh-CN`, and
    `en`, `pt`, `es-MX` … to the code of their language.
    """
    lowered = code.strip().replace("_", "-").lower()
    if exact := _BY_LOWER.get(lowered):
        return exact
    primary, *rest = lowered.split("-")
    if primary == "zh":
        is_traditional = "hans" not in rest and not _TRADITIONAL.isdisjoint(rest)
        return "zh-Hant" if is_traditional else "zh-CN"
    return _BY_LANGUAGE.get(primary)


def first_language(choices: Sequence[str | None]) -> str:
    """Return the first code that is set, in the order request, user, site; otherwise `en-US`."""
    return next((choice for choice in choices if choice), DEFAULT_LANGUAGE)


@dataclass(frozen=True, slots=True)
class NamedUser:
    """The user that `userInfo` names; either part may be missing."""

    email: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ReportingOptions:
    """`reportingApp`, with languages already mapped; None for options that were not sent."""

    app_language: str | None = None
    speech_language: str | None = None
    return_format: str | None = None
    template: int | None = None
    sync_launch: bool = False
    auto_compare: bool | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in self.members().items() if value is not None}

    def members(self) -> dict[str, Any]:
        """Return all options. The values are immutable, so `asdict`'s copies are not needed."""
        return {app_field.name: getattr(self, app_field.name) for app_field in _APP_FIELDS}


_APP_FIELDS: Final = fields(ReportingOptions)


@dataclass(frozen=True, slots=True)
class Attachment:
    """An accepted SR file or key image."""

    kind: FileKind
    sha256: str
    data: bytes = field(repr=False)
    media_type: str = ""
    name: str = ""
    sop_instance_uid: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tags: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The clinicalInfo tags of an SR file."""
    position: int = 0
    """The place of an SR file in the request."""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, the bytes in base64."""
        return {
            "kind": self.kind.value,
            "sha256": self.sha256,
            "data": base64.b64encode(self.data).decode("ascii"),
            "media_type": self.media_type,
            "name": self.name,
            "sop_instance_uid": self.sop_instance_uid,
            "details": dict(self.details),
            "tags": dict(self.tags),
            "position": self.position,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Attachment":
        """Read what `to_json` wrote."""
        return cls(
            **{**value, "kind": FileKind(value["kind"]), "data": base64.b64decode(value["data"])}
        )


@dataclass(frozen=True, slots=True)
class LaunchInput:
    """
    One launch.

    `tags` are the clinicalInfo tags that have a value, including identity and KeyFindings.
    `cleared` names the tags that were sent empty; only the registration of a known order uses it.
    `metadata` is None if it was not sent. `filled` names the tags whose value comes from a DICOM SR
    file. `link_group` is a name that new orders of one batch share if they get one report.
    """

    identity: OrderKey
    tags: Mapping[str, str] = field(repr=False)
    cleared: tuple[str, ...] = ()
    location: str = ""
    metadata: Mapping[str, Any] | None = field(default=None, repr=False)
    app: ReportingOptions = ReportingOptions()
    user: NamedUser | None = field(default=None, repr=False)
    authority: str = field(default="", repr=False)  # userInfo.Auth
    force_transfer: bool = False
    lazy: bool = False
    register_order: bool = False
    force_name: bool = False
    attachments: tuple[Attachment, ...] = field(default=(), repr=False)
    filled: frozenset[str] = frozenset()
    link_group: str = ""

    @property
    def patient_name(self) -> str:
        return self.tags.get("PatientName", "")

    @property
    def key_findings(self) -> str:
        return self.tags.get("KeyFindings", "")

    def without_content(self) -> "LaunchInput":
        """Return the launch without the data that the report stores: enough to open the report."""
        return replace(self, tags={}, cleared=(), metadata=None, attachments=(), filled=frozenset())

    def to_json(self) -> dict[str, Any]:
        """Return the members that opening the link needs; never the authority."""
        return {
            "triple": [self.identity.site, self.identity.mrn, self.identity.accession],
            "tags": dict(self.tags),
            "location": self.location,
            "metadata": None if self.metadata is None else dict(self.metadata),
            "app": self.app.members(),
            "force_transfer": self.force_transfer,
            "force_name": self.force_name,
            "attachments": [attachment.to_json() for attachment in self.attachments],
            "filled": sorted(self.filled),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "LaunchInput":
        """Return the launch that `to_json` wrote; members that it leaves out have their default."""
        return cls(
            identity=OrderKey(*value["triple"]),
            tags=value["tags"],
            location=value["location"],
            metadata=value["metadata"],
            app=ReportingOptions(**value["app"]),
            force_transfer=value["force_transfer"],
            force_name=value["force_name"],
            attachments=tuple(
                Attachment.from_json(attachment) for attachment in value["attachments"]
            ),
            filled=frozenset(value.get("filled", ())),  # absent in links of older releases
        )


class LaunchWarning(StrEnum):
    """A warning of a launch that was executed nevertheless."""

    UNKNOWN_TEMPLATE = "unknown_template"
    REPORT_SIGNED = "report_signed"
    AUTH_IGNORED = (
        "auth_ignored"  # userInfo.Auth is not an administrator's, but the header's token is
    )
    SYNC_REFUSED = "sync_refused"  # the user's window did not follow and shows the reason
    SYNC_PENDING = "sync_pending"  # the window has not followed yet
    SR_OTHER_PATIENT = "dicom_sr_other_patient"  # a file of another patient was set aside
    SR_OVERRIDDEN = "dicom_sr_overridden"  # clinicalInfo overrides the name or birth date of a file
    SR_SECOND_VERSION = (
        "dicom_sr_second_version"  # the report has another content with this SOP Instance UID
    )
    FILES_NOT_ADDED = "files_not_added"  # the report is signed, so it did not get the files


@dataclass(frozen=True, slots=True)
class AwaitedWindow:
    """An open window that should follow the launch, and the launch's sequence number."""

    site_id: str
    account_id: int
    sequence: int


_FILE_LISTS: Final[Mapping[LaunchWarning, tuple[str, str]]] = {
    LaunchWarning.SR_OTHER_PATIENT: ("filesSetAside", "contradicts"),
    LaunchWarning.SR_SECOND_VERSION: ("filesSetAside", "contradicts"),
    LaunchWarning.SR_OVERRIDDEN: ("filesOverridden", "overridden"),
}
"""The member of a response that lists the files of a warning, and the member with their tags."""


@dataclass(frozen=True, slots=True)
class FileWarning:
    """A warning about the DICOM SR file at a position of the request, and the tags concerned."""

    warning: LaunchWarning
    position: int
    sop_instance_uid: str
    tags: tuple[str, ...] = ()

    def header(self) -> str:
        """Return the warning as an item of `X-Warnings` (RFC 9651); it contains no value."""
        tags = f';tags="{" ".join(self.tags)}"' if self.tags else ""
        return f"{self.warning.value};file={self.position}{tags}"

    def audit_members(self) -> dict[str, object]:
        """Return the members that the audit trail records."""
        return {"code": self.warning.value, "file": self.position, "tags": list(self.tags)}


@dataclass(frozen=True, slots=True)
class OpenBracketsWarning:
    """The warning about a report that was signed with requests that nobody has answered."""

    count: int

    def header(self) -> str:
        """Return the warning as an item of `X-Warnings`."""
        return f"{_OPEN_BRACKETS};count={self.count}"

    def audit_members(self) -> dict[str, object]:
        """Return the members that the audit trail records."""
        return {"code": _OPEN_BRACKETS, "count": self.count}


ResponseWarning = FileWarning | OpenBracketsWarning

_OPEN_BRACKETS: Final = "open_brackets"

_HEADER_LENGTH: Final = 4000


def warnings_header(warnings: Sequence[ResponseWarning]) -> str:
    """Return the value of `X-Warnings`; beyond `_HEADER_LENGTH` characters it ends with `more`."""
    header = ", ".join(warning.header() for warning in warnings)
    if len(header) <= _HEADER_LENGTH:
        return header
    return header[: header.rindex(", ", 0, _HEADER_LENGTH)] + ", more"


def file_lists(warnings: Sequence[FileWarning]) -> dict[str, list[dict[str, object]]]:
    """Return the members of a response that list the files of warnings."""
    lists: dict[str, list[dict[str, object]]] = {}
    for file in warnings:
        member, tags = _FILE_LISTS[file.warning]
        entry: dict[str, object] = {"sopInstanceUID": file.sop_instance_uid, tags: list(file.tags)}
        lists.setdefault(member, []).append(entry)
    return lists


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """The outcome of one launch; `owner` is None if the report has none."""

    status: str
    """A `ReportStatus`, or `PRE_LAUNCH`."""
    report_status: ReportStatus | None
    report_id: str | None
    owner: tuple[str, str] | None  # name, e-mail
    handle: str = ""
    warnings: tuple[LaunchWarning, ...] = ()
    awaited: AwaitedWindow | None = None
    file_warnings: tuple[FileWarning, ...] = ()


def launch_status(status: ReportStatus | None, *, lazy: bool) -> str:
    """Return the `status` of a launch response; a status of None means no report yet."""
    if status is None or (status is ReportStatus.ORDERED and lazy):
        return PRE_LAUNCH
    return (ReportStatus.FINAL if status in SIGNED else status).value
