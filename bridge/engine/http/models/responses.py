"""Models of the responses, for the OpenAPI description; the routes send plain JSON."""

# ruff: noqa: N815  # the spelling of the interface reference
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from bridge.engine.http.requests.response_bodies import MEDIA_TYPE

_ORDER: JsonDict = {"SiteID": "SITE1", "PatientMRN": "MRN-1001", "Accession": "ACC-2001"}
RECORD: JsonDict = {
    "reportId": "4f6c1f0e9d8b7a695847362514032f1e",
    "status": "Addendum",
    "userEmail": "person@hospital.example",
    "unsignUntil": 1800000060000,
    "clinicalInfo": [_ORDER],
    "hasContent": True,
    "addendumUnsignUntil": 1800000090000,
}
_WAITING: JsonDict = {name: RECORD[name] for name in ("reportId", "clinicalInfo", "userEmail")}
TAGS: JsonDict = {
    **_ORDER,
    "SiteLocation": "",
    "PatientName": "EXAMPLE^PERSON",
    "Modality": "CT",
    "Metadata": {"ward": "3B"},
}
_LINK = "https://reports.example/reporting/launch-report/clinical?token=Zm9vYmFyYmF6cXV4MTIzNA"


def example(value: JsonDict) -> ConfigDict:
    """Return a model configuration with one example."""
    return ConfigDict(json_schema_extra={"examples": [value]})


class ProblemError(BaseModel):
    """One error in the request."""

    pointer: str
    message: str


class ProblemBody(BaseModel):
    """RFC 9457, with `code`, `errors`, `requestId`, `message` and `retryable`."""

    model_config = example(
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


class ReportOwner(BaseModel):
    """Name and e-mail address of the owner; an empty object if there is none."""

    name: str | None = None
    email: str | None = None


class FileSetAside(BaseModel):
    """A DICOM SR file of another patient, or a second content of one SOP instance (no tags)."""

    sopInstanceUID: str
    contradicts: list[str]


class FileOverridden(BaseModel):
    """A DICOM SR file of the patient; clinicalInfo overrides these tags of it."""

    sopInstanceUID: str
    overridden: list[str]


class LaunchResponse(BaseModel):
    """The response to a launch; both spellings of the QR code have the same value."""

    model_config = example(
        {
            "status": "Draft",
            "owner": {"name": "Example Person", "email": "person@hospital.example"},
            "reportLink": _LINK,
            "reportStatus": "Draft",
            "reportId": "4f6c1f0e9d8b7a695847362514032f1e",
            "warnings": [],
        }
    )

    status: str
    owner: ReportOwner
    reportLink: str | None = None
    reportQRCode: str | None = None
    reportQrCode: str | None = None
    reportStatus: str | None = None
    reportId: str | None = None
    warnings: list[str]
    filesSetAside: list[FileSetAside] | None = None
    filesOverridden: list[FileOverridden] | None = None


class InitResponse(BaseModel):
    """The response to init."""

    model_config = example(
        {
            "sessionLink": "https://reports.example/reporting/init?token=Zm9vYmFyYmF6cXV4MTIzNA"
            "&AppLanguage=en-US&SpeechLanguage=en-US",
            "expiresAt": "2027-01-15T08:05:00.000Z",
        }
    )

    sessionLink: str
    expiresAt: str
    warnings: list[str] | None = None


class OrderKeyBody(BaseModel):
    """The key of one order."""

    SiteID: str
    PatientMRN: str
    Accession: str


class StatusRecordBody(BaseModel):
    """The report status record."""

    model_config = example(RECORD)

    reportId: str
    status: str
    userEmail: str
    unsignUntil: int | None
    clinicalInfo: list[OrderKeyBody]
    hasContent: bool
    addendumUnsignUntil: int | None


class ContentResponse(BaseModel):
    """The report's plain text."""

    model_config = example({"content": "The lungs are clear."})

    content: str


class HtmlResponse(BaseModel):
    """The report as a self-contained HTML document."""

    model_config = example({"html": "<!doctype html><html lang='en-US'>…</html>"})

    html: str


class WaitingBody(BaseModel):
    """A report that waits for review since `prelimAt`."""

    reportId: str
    clinicalInfo: list[OrderKeyBody]
    userEmail: str
    prelimAt: str


class PrelimsResponse(BaseModel):
    """The longest-waiting match, and a page of the matches; the last page has no `next`."""

    model_config = example(
        {
            **_WAITING,
            "reports": [{**_WAITING, "prelimAt": "2027-01-15T07:55:00.000Z"}],
            "next": "1800000000000.42",
        }
    )

    reportId: str | None
    clinicalInfo: list[OrderKeyBody]
    userEmail: str | None
    reports: list[WaitingBody]
    next: str | None = Field(default=None)


class WorklistResponse(BaseModel):
    """A page of the worklist; `next` is null on the last one."""

    model_config = example(
        {
            "items": [
                {
                    **RECORD,
                    "ownerName": "Example Person",
                    "priority": "S",
                    "orderedAt": "2027-01-15T07:43:19.000Z",
                    "orders": [TAGS],
                    "createdAt": "2027-01-15T07:43:19.000Z",
                    "updatedAt": "2027-01-15T08:00:00.000Z",
                    "signedAt": "2027-01-15T08:00:00.000Z",
                }
            ],
            "next": "WyItdXBkYXRlZCIsMTgwMDAwMDAwMDAwMCw0Ml0",
        }
    )

    items: list[dict[str, Any]]
    next: str | None = Field(default=None)


_MEANINGS = {
    400: "The request is malformed or breaks a rule; `code` names the rule",
    401: "No valid access token",
    403: "The caller lacks the permission",
    404: "The site or the report does not exist",
    409: "Conflicts with the current state; `changed` may be retried",
    413: "The request is too large",
    429: "Too many requests; see Retry-After",
    500: "A business rule for which the interface reference defines 500 (X-Error-Class: business)",
    501: "A PDF writer, or a font for the text of this report, is not installed",
    503: "The database is not available at the moment",
}

Responses = dict[int | str, dict[str, Any]]


def problems(*statuses: int) -> Responses:
    """Return the OpenAPI error responses of a route: the usual statuses and these."""
    usual = (400, 401, 403, 404, 409, 413, 429, 503)
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    return {
        status: {"description": _MEANINGS[status], "content": content}
        for status in sorted({*usual, *statuses})
    }


NO_BODY: Responses = {200: {"description": "Done; no body", "content": {}}}
WARNINGS: Responses = {
    200: {
        **NO_BODY[200],
        "headers": {
            "X-Warnings": {
                "description": "Warnings; absent if there are none",
                "schema": {"type": "string"},
            }
        },
    }
}
PAGE_LEFT: Responses = {204: {"description": "Done; the user has left the page"}}


class ReleaseBody(BaseModel):
    """A release: its kind and number."""

    kind: str
    sequence: int


class SignerBody(BaseModel):
    """The signer."""

    name: str
    email: str


class SignedTextBody(BaseModel):
    """The text of a report or an addendum, as in its export."""

    content: str
    signedAt: str | None
    signedBy: SignerBody | None


class ReleasedTextBody(BaseModel):
    """The text of a release: the report and its signed addenda in order."""

    reportInfo: SignedTextBody
    addendumInfo: list[SignedTextBody]


class StatusAnswerBody(StatusRecordBody):
    """A record of `POST /api/report/status`."""

    text: ReleasedTextBody | None = Field(
        default=None,
        description="With `texts`, for a signed report, if the export quota is sufficient and "
        "the texts of the response have at most 16,000,000 characters together",
    )


class ChangeBody(BaseModel):
    """One change of one report."""

    cursor: int
    at: str
    event: str
    reportId: str
    record: StatusRecordBody
    orders: list[dict[str, Any]]
    release: ReleaseBody | None
    addenda: int | None = Field(
        default=None, description="Place of a released addendum among those of the export"
    )
    cancelled: bool | None = Field(
        default=None, description="For a deleted report: whether its order is cancelled for good"
    )
    text: ReleasedTextBody | None = Field(
        default=None,
        description="With `texts`, if the export quota is sufficient and the texts of the response "
        "have at most 16,000,000 characters together",
    )


class ChangesResponse(BaseModel):
    """Changes in commit order; continue after `cursor`."""

    model_config = example(
        {
            "changes": [
                {
                    "cursor": 4711,
                    "at": "2027-01-15T08:00:00.000Z",
                    "event": "report_finalized",
                    "reportId": RECORD["reportId"],
                    "record": RECORD,
                    "orders": [TAGS],
                    "release": {"kind": "final", "sequence": 1},
                }
            ],
            "cursor": 4503599936107239,
        }
    )

    changes: list[ChangeBody]
    cursor: int = Field(
        description="The value of `after` for the next request. It is opaque, grows, and has at"
        " most 53 bits. It identifies the feed: it is refused after the database was restored"
    )
