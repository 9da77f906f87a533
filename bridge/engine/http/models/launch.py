"""
Bodies of the launch and init endpoints.

Interface document, "Endpoints: launch" and "init". Shape only: whether the values
make sense together is decided by `bridge.engine.launching`.
"""

# ruff: noqa: N815  # the spelling of the interface document

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool
from pydantic.config import JsonDict

from bridge.engine.documents.qr_options import QrMode, QrSize
from bridge.engine.http.models.fields import (
    Body,
    Flag,
    Identifier,
    OptionalIdentifier,
    ResponseType,
    Tag,
    Text,
    silent,
)

EXAMPLE: JsonDict = {
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
    """Every tag of a launch; an SR file may supply what is missing, except SiteID."""

    SiteID: Identifier
    SiteLocation: OptionalIdentifier = ""
    PatientMRN: OptionalIdentifier = ""
    Accession: OptionalIdentifier = ""
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
    """How the reporting app behaves for this launch."""

    AppLanguage: Tag | None = None
    SpeechLanguage: Tag | None = None
    ReturnFormat: Tag | None = None
    ApplyTemplate: OptionalIdentifier = ""  # a template number, or its digits
    SyncLaunch: StrictBool | None = None
    AutoComparePrior: StrictBool | None = None


class QrCodeOptions(Body):
    """Size and background of the QR code."""

    size: Annotated[QrSize, silent(QrSize.STANDARD)] = QrSize.STANDARD
    mode: Annotated[QrMode, silent(QrMode.LIGHT)] = QrMode.LIGHT


class ResponseOptions(Body):
    """Link, QR code or both. What stands in `qrCodeOptions` does not matter for a plain link."""

    type: ResponseType
    qrCodeOptions: dict[str, Any] | None = None


class UserInfo(Body):
    """For whom the report is launched, and on whose authority."""

    UserEmail: OptionalIdentifier = ""
    UserName: OptionalIdentifier = ""
    Auth: OptionalIdentifier = Field("", repr=False)
    forceOwnershipTransfer: Flag = False


class StructuredReportFile(Body):
    """One DICOM SR file, in base64."""

    fileData: str = Field(repr=False)


class KeyImageFile(Body):
    """One image that goes with the report, in base64."""

    imageData: str = Field(repr=False)
    contentType: str
    fileName: str | None = None


class LaunchBody(Body):
    """`POST /api/report/launch/clinical`."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    clinicalInfo: ClinicalInfo
    reportingApp: ReportingApp
    response: ResponseOptions
    userInfo: UserInfo | None = None
    lazyLaunch: Flag = False
    registerOrder: Flag = False
    forceUpdatePatientName: Flag = False
    dicomSR: list[StructuredReportFile] | None = None
    keyImages: list[KeyImageFile] | None = None


class InitClinicalInfo(Body):
    """Site and languages; patient and study members must be absent or empty."""

    model_config = ConfigDict(extra="allow")

    SiteID: Identifier
    SiteLocation: OptionalIdentifier = ""
    AppLanguage: Tag | None = None
    SpeechLanguage: Tag | None = None


class InitUserInfo(Body):
    """Who will work in the session."""

    UserName: Identifier
    UserEmail: Identifier
    Auth: OptionalIdentifier = Field("", repr=False)


class InitBody(Body):
    """`POST /api/report/init`."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [INIT_EXAMPLE]})

    clinicalInfo: InitClinicalInfo
    userInfo: InitUserInfo
    reportingApp: ReportingApp | None = None
