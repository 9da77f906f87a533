"""
The JSON export record (interface reference, JSON export record).

Values are unformatted, times are in UTC.
"""

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

from bridge.engine.documents.exports.model import (
    ExportedImage,
    ExportedReport,
    ExportedUser,
    PrelimEntry,
)
from bridge.engine.rules.text.plain_text import plain_text

CLINICAL_TAGS = (
    "SiteID",
    "Modality",
    "Accession",
    "StudyDate",
    "StudyTime",
    "PatientAge",
    "PatientMRN",
    "PatientSex",
    "PatientName",
    "ReasonForExam",
    "BodyPartExamined",
    "PatientBirthDate",
    "StudyDescription",
    "StudyInstanceUID",
    "ReferringPhysician",
    "ReportingPhysician",
)
"""The tags of the record; the other tags, such as Metadata, are sent by HL7 only."""


def export_record(exported: ExportedReport) -> dict[str, Any]:
    """Return the record; unset values are empty in clinicalInfo and null elsewhere."""
    header, footer = exported.site.header_image, exported.site.footer_image
    return {
        "siteInfo": {
            "headerImgType": header.media_type if header else None,
            "headerImg": b64encode(header.data).decode("ascii") if header else None,
            "footerImg": data_uri(footer),
        },
        "clinicalInfo": [
            {tag: tags.get(tag) or "" for tag in CLINICAL_TAGS} for tags in exported.orders
        ],
        "addendumInfo": [
            {
                "content": plain_text(addendum.body),
                "signedAt": timestamp(addendum.signed_at),
                "signedBy": _person(addendum.signed_by),
            }
            for addendum in exported.addenda
        ],
        "prelimInfo": [_prelim(prelim) for prelim in exported.prelims],
        "reportInfo": {
            "content": plain_text(exported.body),
            "signedAt": timestamp(exported.signed_at),
            "signedBy": _person(exported.signed_by),
        },
    }


def timestamp(moment: datetime | None) -> str | None:
    """Return an ISO 8601 timestamp in UTC with milliseconds."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def data_uri(image: ExportedImage | None) -> str | None:
    if image is None:
        return None
    return f"data:{image.media_type};base64,{b64encode(image.data).decode('ascii')}"


def _person(person: ExportedUser | None) -> dict[str, str | None] | None:
    if person is None:
        return None
    return {"name": person.name, "email": person.email, "signature": data_uri(person.signature)}


def _prelim(prelim: PrelimEntry) -> dict[str, Any]:
    return {
        "prelimTag": {"name": prelim.tag_name, "group": prelim.tag_group},
        "prelimAt": timestamp(prelim.at),
        "prelimBy": _person(prelim.by),
        "reviewedAt": timestamp(prelim.reviewed_at),
        "reviewedBy": _person(prelim.reviewed_by),
    }
