"""Bodies of exports: the JSON export record, and exports as files.

`addenda` limits the number of addenda: one within its sign delay must not be sent with another.
"""

# ruff: noqa: N815  # the spelling of the interface document
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from bridge.engine.http.models.reports import ExportBody, RtfBody

# FastAPI omits nulls from examples, so every member has a value.
_IMAGE = "data:image/png;base64,iVBORw0KGgo="
_PERSON: JsonDict = {
    "name": "Example Person",
    "email": "person@hospital.example",
    "signature": _IMAGE,
}
_EXAMPLE: JsonDict = {
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

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    siteInfo: SiteInfo
    clinicalInfo: list[ClinicalInfoOut]
    addendumInfo: list[AddendumInfo]
    prelimInfo: list[PrelimInfo]
    reportInfo: ReportInfo


_Count = Annotated[int, Field(strict=True, ge=0, le=10_000)]


class PdfBody(ExportBody):
    """`POST /api/report/export/pdf`."""

    addenda: _Count | None = None


class RtfFileBody(RtfBody):
    """`POST /api/report/export/rtf`."""

    addenda: _Count | None = None
