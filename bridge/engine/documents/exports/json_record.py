"""
The JSON export record (interface reference, JSON export record).

Values are unformatted, times are in UTC.
"""

from base64 import b64encode
from datetime import UTC, datetime

from bridge.contract.responses import (
    AddendumInfo,
    ClinicalInfoOut,
    ExportRecord,
    PersonOut,
    PrelimInfo,
    PrelimTagOut,
    ReportInfo,
    SiteInfo,
)
from bridge.engine.documents.exports.model import (
    ExportedImage,
    ExportedReport,
    ExportedUser,
    PrelimEntry,
)
from bridge.engine.rules.text.plain_text import plain_text


def export_record(exported: ExportedReport) -> ExportRecord:
    """Return the record; unset values are empty in clinicalInfo and null elsewhere."""
    header, signer = exported.site.header_image, exported.signed_by
    return ExportRecord(
        siteInfo=SiteInfo(
            headerImgType=header.media_type if header else None,
            headerImg=b64encode(header.data).decode("ascii") if header else None,
            footerImg=data_uri(exported.site.footer_image),
        ),
        clinicalInfo=[
            # The other tags, such as Metadata, are sent by HL7 only.
            ClinicalInfoOut(**{tag: tags.get(tag) or "" for tag in ClinicalInfoOut.model_fields})
            for tags in exported.orders
        ],
        addendumInfo=[
            AddendumInfo(
                content=plain_text(addendum.body),
                signedAt=timestamp(addendum.signed_at),
                signedBy=_person(addendum.signed_by),
            )
            for addendum in exported.addenda
        ],
        prelimInfo=[_prelim(prelim) for prelim in exported.prelims],
        reportInfo=ReportInfo(
            content=plain_text(exported.body),
            signedAt=exported.signed_at and timestamp(exported.signed_at),
            signedBy=signer and _person(signer),
        ),
    )


def timestamp(moment: datetime) -> str:
    """Return an ISO 8601 timestamp in UTC with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def data_uri(image: ExportedImage | None) -> str | None:
    if image is None:
        return None
    return f"data:{image.media_type};base64,{b64encode(image.data).decode('ascii')}"


def _person(person: ExportedUser) -> PersonOut:
    return PersonOut(name=person.name, email=person.email, signature=data_uri(person.signature))


def _prelim(prelim: PrelimEntry) -> PrelimInfo:
    return PrelimInfo(
        prelimTag=PrelimTagOut(name=prelim.tag_name, group=prelim.tag_group),
        prelimAt=timestamp(prelim.at),
        prelimBy=_person(prelim.by),
        reviewedAt=prelim.reviewed_at and timestamp(prelim.reviewed_at),
        reviewedBy=prelim.reviewed_by and _person(prelim.reviewed_by),
    )
