"""
Bodies of the endpoints that work on existing reports and orders.

Endpoints of a single report accept the identity nested in `clinicalInfo` or flat.
"""

# ruff: noqa: N815  # the spelling of the interface reference

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictBool, model_validator
from pydantic.config import JsonDict

from bridge.engine.http.models.fields import (
    Body,
    Flag,
    Identifier,
    OptionalIdentifier,
    Tag,
    flatten_identity,
    nest_identity,
    null_as,
)
from bridge.engine.http.models.launch import StructuredReportFile
from bridge.engine.service.reports.files import UpdateMode

IDENTITY = ("SiteID", "SiteLocation", "PatientMRN", "Accession")
_SITE = ("SiteID", "SiteLocation")
_EXAMPLE: JsonDict = {"SiteID": "SITE1", "PatientMRN": "MRN-1001", "Accession": "ACC-2001"}
_ONE: JsonDict = {"clinicalInfo": _EXAMPLE}

_YEAR_9999 = 253_402_300_799_999  # its last millisecond


class OrderIdentity(Body):
    """The key of an order: site, MRN and accession, with the location of sites that have any."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

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


class StatusBody(Body):
    """`POST /api/report/status`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"clinicalInfo": [_EXAMPLE]}]})

    clinicalInfo: list[OrderIdentity] = Field(min_length=1)
    texts: Flag = False


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


class RtfBody(ExportBody):
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
        if any(each.SiteID not in ("", self.SiteID) for each in self.clinicalInfo):
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
