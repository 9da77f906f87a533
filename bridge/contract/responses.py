"""
Bodies of responses: what the routes send, the OpenAPI description shows, and the client reads.

Attributes have Python names, members the spelling of the interface reference. The engine makes its
bodies with `model_construct`. A service of another vendor may omit members or send null for them:
`absent` says what is read then. Unknown members are ignored.
"""

# ruff: noqa: N815  # the spelling of the interface reference

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict
from typing_extensions import override

from bridge.contract import PRE_LAUNCH, OrderKey, OutsideStatus, ReportStatus

PROBLEM_TYPE: Final = "application/problem+json"
"""The media type of a problem (RFC 9457)."""

_ORDER: JsonDict = {"SiteID": "SITE1", "PatientMRN": "MRN-1001", "Accession": "ACC-2001"}
_RECORD: JsonDict = {
    "reportId": "4f6c1f0e9d8b7a695847362514032f1e",
    "status": "Addendum",
    "userEmail": "person@hospital.example",
    "unsignUntil": 1800000060000,
    "clinicalInfo": [_ORDER],
    "hasContent": True,
    "addendumUnsignUntil": 1800000090000,
}
_RETURNED: JsonDict = {"Accession": "ACC-2001", "reportId": _RECORD["reportId"]}
_KEPT: JsonDict = {"Accession": "ACC-2002", "reason": "signed"}
_WAITING: JsonDict = {name: _RECORD[name] for name in ("reportId", "clinicalInfo", "userEmail")}
_TAGS: JsonDict = {
    **_ORDER,
    "SiteLocation": "",
    "PatientName": "EXAMPLE^PERSON",
    "Modality": "CT",
    "Metadata": {"ward": "3B"},
}
_LINK = "https://reports.example/reporting/launch-report/clinical?token=Zm9vYmFyYmF6cXV4MTIzNA"


def _example(value: JsonDict) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [value]})


def moment(value: object) -> Any:
    """Return a time in milliseconds that is in milliseconds or in ISO 8601. Raises ValueError."""
    if not isinstance(value, str):
        return value
    found = datetime.fromisoformat(value)
    return round(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000)


def iso(milliseconds: int) -> str:
    """Write a time as ISO 8601 in UTC, as the report service expects it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


Time = Annotated[StrictInt, BeforeValidator(moment), WithJsonSchema({"type": "string"})]
"""A time: ISO 8601 in the body, here milliseconds since the epoch."""


def _is_null(value: object) -> bool:
    return value is None


class ResponseBody(BaseModel):
    """The base of the bodies. A member with `exclude_if` is not sent if it is null."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )

    absent: ClassVar[Mapping[str, Any]] = {}
    """The values that are read for members that are absent or null."""

    @override
    def __repr__(self) -> str:
        """Show the class name only: a body may contain data that must not be logged."""
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    @model_validator(mode="before")
    @classmethod
    def _read_absent(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        filled = dict(body)
        for name, value in cls.absent.items():
            member = cls.model_fields[name].alias or name
            if filled.get(member) is None and filled.get(name) is None:
                filled[member] = value
        return filled


class ProblemError(BaseModel):
    """One error in the request."""

    pointer: str
    message: str


class ProblemBody(BaseModel):
    """RFC 9457, with `code`, `errors`, `requestId`, `message` and `retryable`."""

    model_config = _example(
        {
            "type": "urn:report-engine:problem:report_signed",
            "title": "Bad Request",
            "status": 400,
            "detail": "the report is signed",
            "instance": "/api/report/delete",
            "code": "report_signed",
            "errors": [],
            "requestId": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
            "message": "the report is signed",
            "retryable": False,
        }
    )

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    errors: list[ProblemError]
    requestId: str
    message: str
    retryable: bool

    @classmethod
    def of(
        cls,
        status: int,
        code: str,
        detail: str,
        request_id: str,
        *,
        instance: str = "",
        errors: Iterable[tuple[str, str]] = (),
        retryable: bool = False,
    ) -> Self:
        """
        Return a problem; no member repeats a submitted value.

        `code` is stable. `errors` are JSON pointers into the request, each with a message. If
        `retryable`, the same request may succeed later.
        """
        return cls(
            type=f"urn:report-engine:problem:{code}",
            title=HTTPStatus(status).phrase,
            status=status,
            detail=detail,
            instance=instance,
            code=code,
            errors=[ProblemError(pointer=pointer, message=text) for pointer, text in errors],
            requestId=request_id,
            message=detail,
            retryable=retryable,
        )


class ReportOwner(ResponseBody):
    """Name and e-mail address of the owner; an empty object if there is none."""

    name: str | None = Field(default=None, exclude_if=_is_null)
    email: str | None = Field(default=None, exclude_if=_is_null)


class FileSetAside(ResponseBody):
    """A DICOM SR file of another patient, or a second content of one SOP instance (no tags)."""

    sop_instance_uid: str = Field(alias="sopInstanceUID")
    contradicts: list[str]


class FileOverridden(ResponseBody):
    """A DICOM SR file of the patient; clinicalInfo overrides these tags of it."""

    sop_instance_uid: str = Field(alias="sopInstanceUID")
    overridden: list[str]


class LaunchResponse(ResponseBody):
    """The response to a launch; both spellings of the QR code have the same value."""

    model_config = _example(
        {
            "status": "Draft",
            "owner": {"name": "Example Person", "email": "person@hospital.example"},
            "reportLink": _LINK,
            "reportStatus": "Draft",
            "reportId": "4f6c1f0e9d8b7a695847362514032f1e",
            "warnings": [],
        }
    )
    absent = {"status": "", "owner": {}, "warnings": []}

    status: str
    owner: ReportOwner
    report_link: str | None = Field(default=None, exclude_if=_is_null)
    report_qr_code: str | None = Field(default=None, alias="reportQRCode", exclude_if=_is_null)
    report_qr_code_too: str | None = Field(default=None, alias="reportQrCode", exclude_if=_is_null)
    report_status: str | None = None
    report_id: str | None = None
    warnings: list[str]
    files_set_aside: list[FileSetAside] | None = Field(default=None, exclude_if=_is_null)
    files_overridden: list[FileOverridden] | None = Field(default=None, exclude_if=_is_null)


class InitResponse(ResponseBody):
    """The response to init."""

    model_config = _example(
        {
            "sessionLink": "https://reports.example/reporting/init?token=Zm9vYmFyYmF6cXV4MTIzNA"
            "&AppLanguage=en-US&SpeechLanguage=en-US",
            "expiresAt": "2027-01-15T08:05:00.000Z",
        }
    )

    session_link: str
    expires_at: str
    warnings: list[str] | None = Field(default=None, exclude_if=_is_null)


class StatusRecordBody(ResponseBody):
    """The report status record."""

    # For a reader: the first order is the anchor, the others follow in linking order. `has_content`
    # and `addendum_unsign_until` are additions of our engine, and None for other services.
    model_config = _example(_RECORD)
    absent = {
        "report_id": "",
        "user_email": "",
        "unsign_until": None,
        "addendum_unsign_until": None,
    }

    report_id: str
    status: Annotated[
        ReportStatus,
        # Another service may send the status of launch responses: nobody has opened the report.
        BeforeValidator(lambda status: ReportStatus.ORDERED if status == PRE_LAUNCH else status),
        WithJsonSchema({"type": "string", "title": "Status"}),
    ]
    user_email: str
    unsign_until: StrictInt | None
    orders: tuple[OrderKey, ...] = Field(alias="clinicalInfo")
    has_content: Annotated[bool | None, WithJsonSchema({"type": "boolean"})]
    addendum_unsign_until: StrictInt | None

    @model_validator(mode="before")
    @classmethod
    def _ignore_other_content(cls, body: Any) -> Any:
        """Another service may use `hasContent` for something else."""
        if not isinstance(body, dict) or isinstance(body.get("has_content"), bool):
            return body
        found = body.get("hasContent")
        return {**body, "hasContent": found if isinstance(found, bool) else None}


class ContentResponse(ResponseBody):
    """The report's plain text."""

    model_config = _example({"content": "The lungs are clear."})
    absent = {"content": ""}

    content: str


class OutsideVersionBody(ResponseBody):
    """A version of a report that was not made here."""

    status: OutsideStatus = Field(description="Status of this version")
    at: StrictInt = Field(description="Time of this version, in milliseconds since the epoch")
    received_at: StrictInt = Field(description="Time of its arrival, in milliseconds")
    title: str = Field(description="Title of the document")
    author: str = Field(description="Name of its author")
    text: str | None = Field(description="Plain text; null beyond the limit of a response")
    pdfs: StrictInt = Field(description="Number of its PDF files")
    omitted: tuple[str, ...] = Field(description="Types of the parts that are not shown")


class OutsideReportOfPatient(ResponseBody):
    """A report that was not made here."""

    accession: str = Field(alias="Accession")
    sender: str = Field(description="MSH-3 and MSH-4 of its messages")
    study: str = Field(alias="StudyDescription")
    versions: tuple[OutsideVersionBody, ...] = Field(description="Versions, the newest first")


class OutsideReportsResponse(ResponseBody):
    """The reports of a patient that were not made here."""

    model_config = _example(
        {
            "reports": [
                {
                    "Accession": "A1001",
                    "sender": "NIGHTREADS NORTH",
                    "StudyDescription": "CT chest",
                    "versions": [
                        {
                            "status": "final",
                            "at": 1_800_000_000_000,
                            "receivedAt": 1_800_000_060_000,
                            "title": "CT chest",
                            "author": "Nora Night",
                            "text": "No acute finding.",
                            "pdfs": 0,
                            "omitted": [],
                        }
                    ],
                }
            ]
        }
    )

    reports: tuple[OutsideReportOfPatient, ...] = Field(description="The outside reports")


class StructuredReportOfOrder(ResponseBody):
    """A DICOM SR, dose report or key object selection that is attached to a report."""

    title: str = Field(description="Title of the document; of key objects, what it refers to")
    text: str | None = Field(description="Plain text; null beyond the limit of a response")
    set_aside: StrictBool = Field(
        description="True if it contradicts the patient or an earlier object, and is not used"
    )


class StructuredReportsResponse(ResponseBody):
    """The structured reports of an order."""

    model_config = _example(
        {
            "reports": [
                {
                    "title": "X-Ray Radiation Dose Report",
                    "text": "Dose (RP) Total: 12 mGy",
                    "setAside": False,
                }
            ]
        }
    )

    reports: tuple[StructuredReportOfOrder, ...] = Field(description="In the order of arrival")


class HtmlResponse(BaseModel):
    """The report as a self-contained HTML document."""

    model_config = _example({"html": "<!doctype html><html lang='en-US'>…</html>"})

    html: str = Field(repr=False)


class WaitingBody(ResponseBody):
    """A report that waits for review since `prelimAt`."""

    report_id: str
    orders: tuple[OrderKey, ...] = Field(alias="clinicalInfo")
    user_email: str
    prelim_at: str


class PrelimsResponse(ResponseBody):
    """The longest-waiting match, and a page of the matches; the last page has no `next`."""

    model_config = _example(
        {
            **_WAITING,
            "reports": [{**_WAITING, "prelimAt": "2027-01-15T07:55:00.000Z"}],
            "next": "1800000000000.42",
        }
    )

    report_id: str | None
    orders: tuple[OrderKey, ...] = Field(alias="clinicalInfo")
    user_email: str | None
    reports: list[WaitingBody]
    next: str | None = Field(default=None, exclude_if=_is_null)


class WorklistResponse(ResponseBody):
    """A page of the worklist; `next` is null on the last one."""

    model_config = _example(
        {
            "items": [
                {
                    **_RECORD,
                    "ownerName": "Example Person",
                    "priority": "S",
                    "orderedAt": "2027-01-15T07:43:19.000Z",
                    "reportedElsewhere": [],
                    "orders": [_TAGS],
                    "createdAt": "2027-01-15T07:43:19.000Z",
                    "updatedAt": "2027-01-15T08:00:00.000Z",
                    "signedAt": "2027-01-15T08:00:00.000Z",
                }
            ],
            "next": "WyItdXBkYXRlZCIsMTgwMDAwMDAwMDAwMCw0Ml0",
        }
    )

    items: tuple[dict[str, Any], ...]
    next: str | None = None


class ReturnedOrderBody(ResponseBody):
    """An order that an undone merge gave back to its patient."""

    absent = {"report_id": ""}

    accession: str = Field(alias="Accession")
    report_id: str


class KeptOrderBody(ResponseBody):
    """An order that stays with the survivor of a merge that is undone."""

    accession: str = Field(alias="Accession")
    reason: str = Field(
        description="`signed`: its report or an addendum was signed, or read preliminarily, since "
        "the merge; `shared`: its report was begun and has orders of the survivor; `order_exists`: "
        "the other patient has an order with the accession; `stayed`: the merge was undone before"
    )


class UndoneMergeBody(ResponseBody):
    """What became of the orders that should return."""

    model_config = _example({"moved": [_RETURNED], "kept": [_KEPT]})
    absent = {"moved": (), "kept": ()}

    moved: tuple[ReturnedOrderBody, ...] = Field(description="Orders that returned")
    kept: tuple[KeptOrderBody, ...] = Field(description="Orders that stay; other ones are unknown")


class ReleaseBody(ResponseBody):
    """A release: its kind and number."""

    # `kind` is final, addendum or retraction; `sequence` counts the releases of a kind.
    absent = {"kind": "", "sequence": 0}

    kind: str
    sequence: StrictInt


class SignerBody(ResponseBody):
    """The signer."""

    absent = {"name": "", "email": ""}

    name: str
    email: str


class SignedTextBody(ResponseBody):
    """The text of a report or an addendum, as in its export."""

    absent = {"content": "", "signed_at": None, "signed_by": None}

    content: str
    signed_at: str | None
    signed_by: Annotated[SignerBody | None, BeforeValidator(lambda signer: signer or None)]


class ReleasedTextBody(ResponseBody):
    """The text of a release: the report and its signed addenda in order."""

    absent = {"report": {}, "addenda": []}

    report: SignedTextBody = Field(alias="reportInfo")
    addenda: tuple[SignedTextBody, ...] = Field(alias="addendumInfo")


class StatusAnswerBody(StatusRecordBody):
    """A record of `POST /api/report/status`."""

    text: ReleasedTextBody | None = Field(
        default=None,
        description="With `texts`, for a signed report, if the export quota is sufficient and "
        "the texts of the response have at most 16,000,000 characters together",
    )


class ChangeBody(ResponseBody):
    """One change of one report."""

    # A retraction has in `addenda` the place before it. The number of a release may be higher than
    # the place, because numbers of recalled addenda are not used again.
    absent = {
        "cursor": 0,
        "at": 0,
        "event": "",
        "report_id": "",
        "orders": [],
        "release": None,
    }

    cursor: StrictInt
    at: Time
    event: str
    report_id: str
    record: StatusRecordBody
    orders: tuple[dict[str, Any], ...]
    release: ReleaseBody | None
    addenda: StrictInt | None = Field(
        default=None, description="Place of a released addendum among those of the export"
    )
    cancelled: StrictBool | None = Field(
        default=None, description="For a deleted report: whether its order is cancelled for good"
    )
    returned: dict[str, StrictInt] | None = Field(
        default=None,
        description="For `order_returned`: the time of the removed mark, by accession number",
    )
    text: ReleasedTextBody | None = Field(
        default=None,
        description="With `texts`, if the export quota is sufficient and the texts of the response "
        "have at most 16,000,000 characters together",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_other_forms(cls, body: Any) -> Any:
        """The record of another service may be in `status`, or its members in the change itself."""
        if isinstance(body, dict) and not body.get("record"):
            return {**body, "record": body.get("status") or body}
        return body


class ChangesResponse(ResponseBody):
    """Changes in commit order; continue after `cursor`."""

    model_config = _example(
        {
            "changes": [
                {
                    "cursor": 4711,
                    "at": "2027-01-15T08:00:00.000Z",
                    "event": "report_finalized",
                    "reportId": _RECORD["reportId"],
                    "record": _RECORD,
                    "orders": [_TAGS],
                    "release": {"kind": "final", "sequence": 1},
                }
            ],
            "cursor": 4503599936107239,
        }
    )

    changes: tuple[ChangeBody, ...]
    cursor: StrictInt = Field(
        description="The value of `after` for the next request. It is opaque, grows, and has at"
        " most 53 bits. It identifies the feed: it is refused after the database was restored"
    )

    @model_validator(mode="before")
    @classmethod
    def _read_other_forms(cls, body: Any) -> Any:
        """Another service may name its members as in the worklist, or have no cursor of a page."""
        if not isinstance(body, dict):
            return body
        changes = body.get("changes") or body.get("items") or []
        cursor = body.get("cursor") or body.get("next")
        if cursor is None and isinstance(changes, list):
            numbers = [change.get("cursor") for change in changes if isinstance(change, dict)]
            cursor = max((number for number in numbers if isinstance(number, int)), default=0)
        return {"changes": changes, "cursor": cursor}


# FastAPI omits nulls from examples, so every member has a value.
_IMAGE = "data:image/png;base64,iVBORw0KGgo="
_PERSON: JsonDict = {
    "name": "Example Person",
    "email": "person@hospital.example",
    "signature": _IMAGE,
}
_EXPORT: JsonDict = {
    "siteInfo": {"headerImgType": "image/png", "headerImg": "iVBORw0KGgo=", "footerImg": _IMAGE},
    "clinicalInfo": [
        {
            "SiteID": "SITE1",
            "Modality": "CT",
            "Accession": "ACC-2001",
            "StudyDate": "20270115",
            "StudyTime": "",
            "PatientAge": "",
            "PatientMRN": "MRN-1001",
            "PatientSex": "",
            "PatientName": "EXAMPLE^PERSON",
            "ReasonForExam": "",
            "BodyPartExamined": "",
            "PatientBirthDate": "",
            "StudyDescription": "CT Chest",
            "StudyInstanceUID": "",
            "ReferringPhysician": "",
            "ReportingPhysician": "",
        }
    ],
    "addendumInfo": [
        {
            "content": "The comparison was of 2026.",
            "signedAt": "2027-01-15T08:30:00.000Z",
            "signedBy": _PERSON,
        }
    ],
    "prelimInfo": [
        {
            "prelimTag": {"name": "Resident", "group": "Night"},
            "prelimAt": "2027-01-15T07:55:00.000Z",
            "prelimBy": _PERSON,
            "reviewedAt": "2027-01-15T08:00:00.000Z",
            "reviewedBy": _PERSON,
        }
    ],
    "reportInfo": {
        "content": "The lungs are clear.",
        "signedAt": "2027-01-15T08:00:00.000Z",
        "signedBy": _PERSON,
    },
}


class SiteInfo(BaseModel):
    """The site's images: `headerImg` in base64, `footerImg` as a data URI."""

    headerImgType: str | None
    headerImg: str | None
    footerImg: str | None


class ClinicalInfoOut(BaseModel):
    """One order; empty strings where unset."""

    SiteID: str
    Modality: str
    Accession: str
    StudyDate: str
    StudyTime: str
    PatientAge: str
    PatientMRN: str
    PatientSex: str
    PatientName: str
    ReasonForExam: str
    BodyPartExamined: str
    PatientBirthDate: str
    StudyDescription: str
    StudyInstanceUID: str
    ReferringPhysician: str
    ReportingPhysician: str


class PersonOut(BaseModel):
    """A signer, reader or reviewer; `signature` is a data URI."""

    name: str
    email: str
    signature: str | None


class AddendumInfo(BaseModel):
    """A signed addendum; `signedAt` in UTC, ISO 8601."""

    content: str
    signedAt: str
    signedBy: PersonOut


class PrelimTagOut(BaseModel):
    """A tag of a prelim group."""

    name: str
    group: str


class PrelimInfo(BaseModel):
    """A preliminary read, and its review if there was one."""

    prelimTag: PrelimTagOut
    prelimAt: str
    prelimBy: PersonOut
    reviewedAt: str | None
    reviewedBy: PersonOut | None


class ReportInfo(BaseModel):
    """The text of the report; the signature is null while it is unsigned."""

    content: str
    signedAt: str | None
    signedBy: PersonOut | None


class ExportRecord(BaseModel):
    """The current report with all its orders, the anchor first."""

    model_config = _example(_EXPORT)

    siteInfo: SiteInfo
    clinicalInfo: list[ClinicalInfoOut]
    addendumInfo: list[AddendumInfo]
    prelimInfo: list[PrelimInfo]
    reportInfo: ReportInfo


class AccountInfo(ResponseBody):
    """An account; `enrolled`: its owner has set a password or signed in by a provider."""

    # An account is disabled unless the engine says that it is enabled.
    account_id: str = Field(min_length=1)
    email: str
    disabled: StrictBool = True
    enrolled: StrictBool = False
    sites: frozenset[str] = frozenset()
    second_factor: StrictBool = False
    second_factor_required: StrictBool = False
    password: StrictBool = False


class ReaderCounts(ResponseBody):
    """Accounts on sites without a role in the console; `invited`: they have not enrolled yet."""

    enrolled: int = Field(ge=0)
    invited: int = Field(ge=0)


class EnrolmentLink(ResponseBody):
    """The enrolment link of an account; None if a provider signs its users in."""

    link: str | None = None
    expires_at: Time | None = None


class SignedInUser(ResponseBody):
    """
    The signed-in user of a browser session.

    `site` is the only site of the session; None means all sites of the account.
    `authenticated_at` is the time of the last authentication. `second_factor`: it used a one-time
    code or an identity provider.
    """

    absent = {"name": "", "theme": ""}

    account_id: str = Field(min_length=1)
    email: str
    name: str
    theme: str
    site: Annotated[str, Field(min_length=1)] | None
    authenticated_at: Time
    second_factor: StrictBool = False
