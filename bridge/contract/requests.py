"""
Bodies of requests of the HTTP interface: what the routes read and the OpenAPI description shows.

A model validates the shape; the use case validates the values together. A scalar tag may be sent as
a string or a number and becomes a string; blank means unset. Objects and lists are refused where a
tag is expected. Endpoints of a single report accept the identity nested in `clinicalInfo` or flat.
"""

# ruff: noqa: N815  # the spelling of the interface reference

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StrictBool,
    StrictInt,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import InitErrorDetails, PydanticCustomError

from bridge.contract import OutsideStatus

_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]"
)

MAX_MISTAKES: Final = 100
"""Mistakes of a body that are reported individually."""

TAG_LENGTH = 1024
IDENTIFIER_BYTES = 1024
MAX_TEMPLATE = 999_999_999


def _scalar(value: object) -> object:
    """Convert numbers to text, because some clients send numbers for string tags."""
    if isinstance(value, str | bool):
        return value
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) else value


def _whole_number(value: object) -> object:
    """Convert whole numbers to text; a fraction is refused, as it has several spellings."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else value
    return _scalar(value)


def has_invisible(text: str) -> bool:
    """
    True if an identifier has invisible characters.

    These are control characters, line ends and direction marks. Two identifiers that differ only in
    them look the same.
    """
    return _INVISIBLE.search(text) is not None


def _require_indexable(text: str) -> str:
    """Limit the bytes of an identifier: an index row of PostgreSQL has at most 2,704 bytes."""
    short = len(text) * 4 <= IDENTIFIER_BYTES  # a character has at most 4 bytes
    if not short and len(text.encode("utf-8", "surrogatepass")) > IDENTIFIER_BYTES:
        message = f"String should have at most {IDENTIFIER_BYTES} bytes in UTF-8"
        raise ValueError(message)
    return text


def _require_visible(text: str) -> str:
    """Refuse invisible characters: two identifiers that differ by one look the same."""
    if has_invisible(text):
        message = "String should have no control characters, line ends or direction marks"
        raise ValueError(message)
    return text


# Pydantic applies the validators of an annotation from right to left.
Tag = Annotated[
    str,
    StringConstraints(max_length=TAG_LENGTH),
    BeforeValidator(_scalar, json_schema_input_type=str | int | float | None),
]
"""A scalar clinicalInfo tag: optional, and empty when unset."""

Text = Annotated[str, BeforeValidator(_scalar, json_schema_input_type=str | None)]
"""A long text; the use case limits its length."""

Identifier = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=TAG_LENGTH),
    AfterValidator(_require_indexable),
    AfterValidator(_require_visible),
    BeforeValidator(
        _whole_number,
        json_schema_input_type=Annotated[
            str, Field(min_length=1, max_length=TAG_LENGTH, pattern=r"\S")
        ]
        | int,
    ),
]
"""A required identifier; blank counts as missing."""

OptionalIdentifier = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=TAG_LENGTH),
    AfterValidator(_require_indexable),
    BeforeValidator(
        _whole_number,
        json_schema_input_type=Annotated[str, Field(max_length=TAG_LENGTH)] | int | None,
    ),
]


OptionalVisibleIdentifier = Annotated[OptionalIdentifier, AfterValidator(_require_visible)]
"""An optional identifier without invisible characters."""


def _null_as_false(value: object) -> object:
    """Accept null as absent: some clients send every optional member."""
    return False if value is None else value


Flag = Annotated[
    StrictBool,
    BeforeValidator(_null_as_false, json_schema_input_type=StrictBool | None),
    Field(exclude_if=lambda value: not value),
]
"""An optional boolean, false if it is absent or null; other types are refused."""

QueryText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=TAG_LENGTH),
    AfterValidator(_require_indexable),
    AfterValidator(_require_visible),
]

OptionalQueryText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=TAG_LENGTH),
    AfterValidator(_require_indexable),
]


RowId = Annotated[int, Field(ge=1, lt=2**63)]
TemplateNumber = Annotated[int, Field(ge=1, le=MAX_TEMPLATE)]
ExpiryDays = Annotated[StrictInt, Field(ge=1, le=3650)]
"""Days until an access token expires."""


class Model(BaseModel):
    """
    A request body, or a part of one.

    If a body has more than MAX_MISTAKES mistakes, only one is reported: each reported mistake costs
    a thousand bytes, and a hostile body can have a mistake in every value.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _limit_mistakes(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError as error:
            if error.error_count() <= MAX_MISTAKES:
                raise
        message = f"more than {MAX_MISTAKES} members are wrong"
        raise PydanticCustomError("too_many_mistakes", message)


class Body(Model):
    """A request body; it is immutable and ignores unknown members."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_enum_values=False)


class ResponseType(StrEnum):
    """The content of a launch response."""

    LINK = "link"
    QRCODE = "qrcode"
    ALL = "all"


def null_as(default: StrEnum) -> BeforeValidator:
    """Accept null as `default` in an optional choice."""
    return BeforeValidator(
        lambda value: default if value is None else value,
        json_schema_input_type=type(default) | None,
    )


def nest_identity(body: Any, members: tuple[str, ...]) -> Any:
    """
    Move flat identity members into `clinicalInfo` if that is absent.

    The interface reference nests them for most endpoints and not for two; both forms are accepted
    everywhere.
    """
    if not isinstance(body, Mapping) or "clinicalInfo" in body:
        return body
    flat = {name: body[name] for name in members if name in body}
    return {**body, "clinicalInfo": flat} if flat else body


def flatten_identity(body: Any, members: tuple[str, ...]) -> Any:
    """Copy members of a nested `clinicalInfo` to the top level if they are absent there."""
    if not isinstance(body, Mapping) or not isinstance(body.get("clinicalInfo"), Mapping):
        return body
    nested = {name: body["clinicalInfo"][name] for name in members if name in body["clinicalInfo"]}
    return {**nested, **body}


class QrSize(StrEnum):
    """The width of a QR code: 400 or 80 pixels."""

    STANDARD = "standard"
    MINI = "mini"


class QrMode(StrEnum):
    """The background of a QR code; `dark` has inverted colours."""

    LIGHT = "light"
    DARK = "dark"


class UpdateMode(StrEnum):
    """Whether new structured reports replace the existing ones."""

    REPLACE = "replace"
    APPEND = "append"


LAUNCH_EXAMPLE: JsonDict = {
    "clinicalInfo": {
        "SiteID": "SITE1",
        "PatientMRN": "MRN-1001",
        "Accession": "ACC-2001",
        "PatientName": "EXAMPLE^PERSON",
        "Modality": "CT",
        "StudyDescription": "CT Chest",
        "Metadata": {"ward": "3B"},
    },
    "reportingApp": {"AppLanguage": "en-US", "SpeechLanguage": "en-US", "ReturnFormat": "HL7"},
    "response": {"type": "link"},
    "lazyLaunch": False,
}

INIT_EXAMPLE: JsonDict = {
    "clinicalInfo": {"SiteID": "SITE1", "AppLanguage": "en-US", "SpeechLanguage": "en-US"},
    "userInfo": {"UserName": "Example Person", "UserEmail": "person@hospital.example"},
}


class ClinicalInfo(Body):
    """The tags of a launch; a DICOM SR file may supply missing ones, except SiteID."""

    SiteID: Identifier
    SiteLocation: OptionalVisibleIdentifier = ""
    PatientMRN: OptionalVisibleIdentifier = ""
    Accession: OptionalVisibleIdentifier = ""
    PatientName: Tag = ""
    PatientBirthDate: Tag = ""
    PatientAge: Tag = ""
    PatientSex: Tag = ""
    Race: Tag = ""
    Ethnicity: Tag = ""
    Modality: Tag = ""
    BodyPartExamined: Tag = ""
    StudyDescription: Tag = ""
    ProcedureCode: Tag = ""
    StudyDate: Tag = ""
    StudyTime: Tag = ""
    StudyInstanceUID: Tag = ""
    ReasonForExam: Text = ""
    KeyFindings: Text = ""
    ReferringPhysician: Tag = ""
    ReportingPhysician: Tag = ""
    Notes: Text = ""
    Metadata: dict[str, Any] | None = None


class ReportingApp(Body):
    """Options of the reporting app for this launch."""

    AppLanguage: Tag | None = None
    SpeechLanguage: Tag | None = None
    ReturnFormat: Tag | None = None
    ApplyTemplate: OptionalIdentifier = ""  # a template number, or its digits
    SyncLaunch: StrictBool | None = None
    AutoComparePrior: StrictBool | None = None


class QrCodeOptions(Body):
    """Size and background of the QR code."""

    size: Annotated[QrSize, null_as(QrSize.STANDARD)] = QrSize.STANDARD
    mode: Annotated[QrMode, null_as(QrMode.LIGHT)] = QrMode.LIGHT


class ResponseOptions(Body):
    """Link, QR code or both. `qrCodeOptions` is ignored for a link alone."""

    type: ResponseType
    qrCodeOptions: dict[str, Any] | None = None


class LaunchUserInfo(Body):
    """The user for whom the report is launched, and the token of that user."""

    UserEmail: OptionalIdentifier = ""
    UserName: OptionalIdentifier = ""
    Auth: OptionalIdentifier = Field("", repr=False)
    forceOwnershipTransfer: Flag = False


class StructuredReportFile(Body):
    """One DICOM SR file, in base64."""

    fileData: str = Field(repr=False)


class KeyImageFile(Body):
    """One key image, in base64."""

    imageData: str = Field(repr=False)
    contentType: str
    fileName: str | None = None


class LaunchBody(Body):
    """`POST /api/report/launch/clinical`."""

    model_config = ConfigDict(json_schema_extra={"examples": [LAUNCH_EXAMPLE]})

    clinicalInfo: ClinicalInfo
    reportingApp: ReportingApp
    response: ResponseOptions
    userInfo: LaunchUserInfo | None = None
    lazyLaunch: Flag = False
    registerOrder: Flag = False
    linkGroup: OptionalIdentifier = ""
    forceUpdatePatientName: Flag = False
    dicomSR: list[StructuredReportFile] | None = None
    keyImages: list[KeyImageFile] | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _report_missing_identifiers(
        cls, value: object, handler: ModelWrapValidatorHandler["LaunchBody"]
    ) -> "LaunchBody":
        """Report missing identifiers together with the other errors."""
        try:
            return handler(value)
        except ValidationError as error:
            missing = _missing_identity(value)
            if not missing:
                raise
            found = [
                InitErrorDetails(
                    type=PydanticCustomError("invalid", "{message}", {"message": mistake["msg"]}),
                    loc=mistake["loc"],
                    input=None,
                )
                for mistake in error.errors(include_url=False, include_input=False)
            ]
            raise ValidationError.from_exception_data(cls.__name__, [*found, *missing]) from None


def _missing_identity(value: object) -> list[InitErrorDetails]:
    """Return an error for each missing identifier of a launch without SR files."""
    info = value.get("clinicalInfo") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(info, Mapping) or value.get("dicomSR"):
        return []
    return [
        InitErrorDetails(
            type=PydanticCustomError("missing", "Field required"),
            loc=("clinicalInfo", name),
            input=None,
        )
        for name in ("PatientMRN", "Accession")
        if info.get(name) is None or str(info[name]).strip() == ""
    ]


class InitClinicalInfo(Body):
    """Site and languages; patient and study members must be absent or empty."""

    model_config = ConfigDict(extra="allow")

    SiteID: Identifier
    SiteLocation: OptionalIdentifier = ""
    AppLanguage: Tag | None = None
    SpeechLanguage: Tag | None = None


class InitUserInfo(Body):
    """The user of the session."""

    UserName: Identifier
    UserEmail: Identifier
    Auth: OptionalIdentifier = Field("", repr=False)


class InitBody(Body):
    """`POST /api/report/init`."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [INIT_EXAMPLE]})

    clinicalInfo: InitClinicalInfo
    userInfo: InitUserInfo
    reportingApp: ReportingApp | None = None


IDENTITY = ("SiteID", "SiteLocation", "PatientMRN", "Accession")
_SITE = ("SiteID", "SiteLocation")
_ORDER_EXAMPLE: JsonDict = {"SiteID": "SITE1", "PatientMRN": "MRN-1001", "Accession": "ACC-2001"}
_ONE: JsonDict = {"clinicalInfo": _ORDER_EXAMPLE}

_YEAR_9999 = 253_402_300_799_999  # its last millisecond


class OrderIdentity(Body):
    """The key of an order: site, MRN and accession, with the location of sites that have any."""

    model_config = ConfigDict(json_schema_extra={"examples": [_ORDER_EXAMPLE]})

    SiteID: Identifier
    SiteLocation: OptionalIdentifier = ""
    PatientMRN: Identifier
    Accession: Identifier


class FlatIdentity(OrderIdentity):
    """`reset-order`, `unassign`: the identity is the whole body."""

    @model_validator(mode="before")
    @classmethod
    def _either_form(cls, body: Any) -> Any:
        return flatten_identity(body, IDENTITY)


class OneReport(Body):
    """A body that names one report."""

    model_config = ConfigDict(json_schema_extra={"examples": [_ONE]})

    clinicalInfo: OrderIdentity

    @model_validator(mode="before")
    @classmethod
    def _either_form(cls, body: Any) -> Any:
        return nest_identity(body, IDENTITY)


class DeleteBody(OneReport):
    """
    `POST /api/report/delete`.

    `onlyWhenOrdered` refuses (400) a report that a reader has started, in the same transaction, so
    that cancelling an order never deletes a text. `setAside`: the order is held or moved and may
    come back, so the change feed does not mark it as cancelled.
    """

    onlyWhenOrdered: Flag = False
    setAside: Flag = False


class ReportedElsewhereBody(OneReport):
    """
    `POST /api/report/elsewhere`.

    `reported`: another system has reported the order, or has withdrawn this. `reportedAt`
    (milliseconds since the epoch; without it the time of the request), `sender` and `resultStatus`
    (HL7 table 0123) say when, who and how.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    **_ONE,
                    "reported": True,
                    "reportedAt": 1_800_000_000_000,
                    "sender": "RIS",
                    "resultStatus": "F",
                }
            ]
        }
    )

    reported: StrictBool
    reportedAt: Annotated[int, Field(strict=True, ge=0, le=_YEAR_9999)] | None = None
    sender: Tag = ""
    resultStatus: Tag = ""


MAX_OUTSIDE_TEXT: Final = 1_000_000
"""Characters of an outside report."""


class OutsideReportBody(Body):
    """
    `POST /api/report/outside`.

    A version of a report that was not made here. `PatientMRN` or `Accession` is required.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    **_ORDER_EXAMPLE,
                    "sender": "NIGHTREADS|NORTH",
                    "number": "F-3401",
                    "reportStatus": "final",
                    "statusCode": "F",
                    "reportedAt": 1_800_000_000_000,
                    "title": "CT chest",
                    "author": "Nora Night",
                    "text": "No acute finding.",
                }
            ]
        }
    )

    SiteID: Identifier
    PatientMRN: OptionalVisibleIdentifier = ""
    Accession: OptionalVisibleIdentifier = ""
    PatientName: Tag = ""
    PatientBirthDate: Tag = ""
    Modality: Tag = ""
    BodyPartExamined: Tag = ""
    StudyDescription: Tag = ""
    ProcedureCode: Tag = ""
    StudyDate: Tag = ""
    StudyTime: Tag = ""
    sender: Identifier
    number: Identifier = Field(description="Number of the document at its sender")
    parent: OptionalVisibleIdentifier = Field(
        "", description="Number of the document that this one replaces or completes"
    )
    reportStatus: OutsideStatus = Field(description="Status of this version")
    statusCode: Tag = Field("", description="Status code as sent, such as `F`")
    reportedAt: Annotated[int, Field(strict=True, ge=0, le=_YEAR_9999)] | None = Field(
        None, description="Time of this version, in milliseconds since the epoch"
    )
    sentAt: Annotated[int, Field(strict=True, ge=0, le=_YEAR_9999)] | None = Field(
        None, description="Time of its message, in milliseconds since the epoch"
    )
    title: Tag = Field("", description="Title of the document")
    author: Tag = Field("", description="Name of its author")
    text: Annotated[Text, Field(max_length=MAX_OUTSIDE_TEXT, repr=False)] = Field(
        "", description="Plain text of the report"
    )
    pdfs: list[Text] = Field(
        [],
        max_length=20,
        repr=False,
        description="PDF files of the report in base64, together at most 16 MiB",
    )
    omitted: list[Tag] = Field(
        [], max_length=20, description="Types of the parts that are not shown, such as image JPEG"
    )


class StatusBody(Body):
    """`POST /api/report/status`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"clinicalInfo": [_ORDER_EXAMPLE]}]})

    clinicalInfo: list[OrderIdentity] = Field(min_length=1)
    texts: Flag = False


AddendumCount = Annotated[int, Field(strict=True, ge=0, le=10_000)]


class ExportBody(OneReport):
    """
    `POST /api/report/export/html` and `/json`.

    `prelimUntil`, in milliseconds since the epoch, selects the text of the latest preliminary read
    at that time (404 if there is none) instead of the current text.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{**_ONE, "timeZone": "Europe/Berlin"}]}
    )

    timeZone: str | None = None
    prelimUntil: Annotated[int, Field(strict=True, ge=0, le=_YEAR_9999)] | None = None


class RtfResponse(StrEnum):
    """The encoding of an RTF response."""

    ARRAYBUFFER = "arraybuffer"
    BASE64 = "base64"


def _folded(value: Any) -> Any:
    """Accept `responseType` in any case; null means the default."""
    if value is None:
        return RtfResponse.ARRAYBUFFER
    return value.lower() if isinstance(value, str) else value


class PdfBody(ExportBody):
    """`POST /api/report/export/pdf`."""

    addenda: AddendumCount | None = None


class RtfFileBody(ExportBody):
    """`POST /api/report/export/rtf`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {**_ONE, "timeZone": "Europe/Berlin", "responseType": "base64", "contentOnly": True}
            ]
        }
    )

    responseType: Annotated[
        RtfResponse, BeforeValidator(_folded, json_schema_input_type=RtfResponse | None)
    ] = RtfResponse.ARRAYBUFFER
    contentOnly: Flag = False
    addenda: AddendumCount | None = None


class SignBody(OneReport):
    """`POST /api/report/sign`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{**_ONE, "timeZone": "Europe/Berlin", "ignoreSignDelay": False}]
        }
    )

    timeZone: str | None = None
    ignoreSignDelay: Flag = False


def _require_true(value: bool) -> bool:
    if not value:
        message = "must be true"
        raise ValueError(message)
    return value


class AddendumSignBody(OneReport):
    """`POST /api/report/addendum/sign`: `ignoreSignDelay` is required and must be true."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_ONE, "ignoreSignDelay": True}]})

    ignoreSignDelay: Annotated[
        StrictBool, AfterValidator(_require_true), Field(json_schema_extra={"const": True})
    ]


class PrelimBody(OneReport):
    """`POST /api/report/prelim`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{**_ONE, "prelimGroup": "Night", "prelimTag": "Resident"}]}
    )

    prelimGroup: Identifier
    prelimTag: Identifier


class AssignOrderBody(OneReport):
    """`POST /api/report/assign`; the user of the site becomes the owner."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{**_ONE, "UserEmail": "person@hospital.example"}]}
    )

    UserEmail: Identifier


class UpdateStructuredReports(OneReport):
    """`POST /api/report/update-dicomsr`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{**_ONE, "dicomSR": [{"fileData": "RElDTQ=="}], "mode": "append"}]
        }
    )

    dicomSR: Annotated[list[StructuredReportFile], Field(json_schema_extra={"minItems": 1})]
    mode: Annotated[UpdateMode, null_as(UpdateMode.REPLACE)] = UpdateMode.REPLACE


class OrderInSite(Body):
    """An order of the site that the body names; a different SiteID is refused."""

    SiteID: OptionalIdentifier = ""
    PatientMRN: Identifier
    Accession: Identifier


class LinkBody(Body):
    """`POST /api/report/link-orders` and `/unlink-orders`; the first order is the anchor."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "SiteID": "SITE1",
                    "clinicalInfo": [
                        {"PatientMRN": "MRN-1001", "Accession": "ACC-2001"},
                        {"PatientMRN": "MRN-1001", "Accession": "ACC-2002"},
                    ],
                }
            ]
        }
    )

    SiteID: Identifier
    SiteLocation: OptionalIdentifier = ""
    clinicalInfo: list[OrderInSite] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_site(self) -> "LinkBody":
        if any(order.SiteID not in ("", self.SiteID) for order in self.clinicalInfo):
            message = "orders of one request belong to its SiteID"
            raise ValueError(message)
        return self


class PatientUpdateBody(Body):
    """`POST /api/patient/update`; absent members are unchanged."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"SiteID": "SITE1", "PatientMRN": "MRN-1001", "PatientName": "EXAMPLE^PERSON"}
            ]
        }
    )

    SiteID: Identifier
    PatientMRN: Identifier
    PatientName: Tag | None = None
    PatientBirthDate: Tag | None = None
    PatientSex: Tag | None = None
    PatientAge: Tag | None = None
    Race: Tag | None = None
    Ethnicity: Tag | None = None


class PatientMergeBody(Body):
    """`POST /api/patient/merge`; `PriorPatientMRN` is merged into `PatientMRN`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"SiteID": "SITE1", "PatientMRN": "MRN-1001", "PriorPatientMRN": "MRN-0999"}
            ]
        }
    )

    SiteID: Identifier
    PatientMRN: Identifier
    PriorPatientMRN: Identifier


class ReturnedOrder(Body):
    """An order that a merge had moved, with its demographics before; absent ones are removed."""

    Accession: Identifier
    PatientName: Tag = ""
    PatientBirthDate: Tag = ""
    PatientSex: Tag = ""
    PatientAge: Tag = ""
    Race: Tag = ""
    Ethnicity: Tag = ""


class PatientUnmergeBody(PatientMergeBody):
    """`POST /api/patient/unmerge`; `orders` of `PatientMRN` go back to `PriorPatientMRN`."""

    orders: list[ReturnedOrder] = Field(
        default_factory=list,
        description="Orders that the merge had moved, which return to `PriorPatientMRN`; without "
        "them all stay",
    )
    includeSigned: StrictBool = Field(
        default=False,
        description="Return also orders whose text was signed, or read preliminarily, since the "
        "merge, also after the merge was undone: a person has checked whose they are",
    )
