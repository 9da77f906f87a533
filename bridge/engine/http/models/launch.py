"""
Bodies of the launch and init endpoints.

These models validate the shape only. `bridge.engine.launch_parser` validates the values together.
"""

# ruff: noqa: N815  # the spelling of the interface reference

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StrictBool,
    ValidationError,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import InitErrorDetails, PydanticCustomError

from bridge.engine.documents.qr import QrMode, QrSize
from bridge.engine.http.models.fields import (
    Body,
    Flag,
    Identifier,
    OptionalIdentifier,
    OptionalVisibleIdentifier,
    ResponseType,
    Tag,
    Text,
    null_as,
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

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

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
                    type=PydanticCustomError("invalid", "{message}", {"message": each["msg"]}),
                    loc=each["loc"],
                    input=None,
                )
                for each in error.errors(include_url=False, include_input=False)
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
