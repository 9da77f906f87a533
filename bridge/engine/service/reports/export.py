"""
Collects the data of an export: the report, its site, its people (interface reference, export).

`bridge.engine.documents` makes the formats.
"""

import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func
from sqlalchemy import select as select_columns
from sqlmodel import Session, col, select

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.exports import model
from bridge.engine.documents.uploads.images import EncodedImage
from bridge.engine.errors import EngineError
from bridge.engine.launch import DEFAULT_LANGUAGE
from bridge.engine.records.tables import Addendum, PrelimRead, Report, ReportFile, Site, metadata
from bridge.engine.rules.lifecycle import AddendumState, FileKind
from bridge.engine.rules.text.document import Document, from_text, restore
from bridge.engine.service.report_lookup import key_of, orders_of
from bridge.engine.service.sites.site_settings import read_preferences

IMAGES, IMAGE_BYTES = 50, 32 * 2**20
"""The maximum number of printed key images, and their maximum total size in bytes."""

FILES = metadata.tables[str(ReportFile.__tablename__)]
SIZE = func.length(FILES.c.data).label("size")


def export_report(session: Session, report: Report) -> model.ExportedReport:
    """Return a report for an export, with signed addenda and active reads, oldest first."""
    site = session.get(Site, report.site_id)
    return model.ExportedReport(
        site=_site(site, report.signed_zone) if site else model.ExportedSite(report.site_id),
        orders=tuple(_tags(order) for order in orders_of(session, key_of(report))),
        status=report.status.value,
        body=_document(report.document, report.content_text),
        signed_at=utc_time(report.signed_at),
        signed_by=_person(report.signed_by),
        addenda=_addenda(session, report),
        prelims=_prelims(session, report),
        language=_language(report, site),
        report_id=report.report_id,
    )


def export_printed(session: Session, report: Report) -> model.ExportedReport:
    """Return a report for printing, with key images up to `IMAGES` and `IMAGE_BYTES`."""
    rows = session.execute(
        select_columns(FILES.c.pk, FILES.c.sha256, FILES.c.media_type, FILES.c.details, SIZE)
        .where(FILES.c.report_pk == key_of(report), FILES.c.kind == FileKind.KEY_IMAGE)
        .order_by(FILES.c.pk)
    ).all()
    chosen: list[Any] = []
    left = IMAGE_BYTES
    for row in rows:
        if row.size > left or len(chosen) == IMAGES:
            break
        left -= row.size
        chosen.append(row)
    images = tuple(
        EncodedImage(
            row.media_type,
            session.execute(select_columns(FILES.c.data).where(FILES.c.pk == row.pk)).scalar_one(),
            row.sha256,
            int(row.details["width"]),
            int(row.details["height"]),
        )
        for row in chosen
    )
    exported = export_report(session, report)
    return replace(exported, key_images=images, images_left_out=len(rows) - len(images))


def read_prelim_text(session: Session, report: Report, until: int) -> Document:
    """
    Return the text of a report's latest active preliminary read up to a moment (ms).

    Raise `prelim_read_not_found` if there is none.
    """
    read = session.exec(
        select(PrelimRead)
        .where(
            PrelimRead.report_pk == key_of(report),
            col(PrelimRead.withdrawn_at).is_(None),
            PrelimRead.read_at <= until,
        )
        .order_by(col(PrelimRead.read_at).desc(), col(PrelimRead.pk).desc())
        .limit(1)
    ).first()
    if read is None:
        raise EngineError(ErrorCode.PRELIM_READ_NOT_FOUND)
    return _document(read.document, read.content_text)


def utc_time(milliseconds: int | None) -> datetime | None:
    """Convert milliseconds since the epoch to an aware UTC time."""
    if milliseconds is None:
        return None
    seconds, rest = divmod(milliseconds, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)


def _site(site: Site, signed_zone: str | None) -> model.ExportedSite:
    """Return the site; the time zone of the signing takes precedence over the site's."""
    header = None
    if site.header_img and site.header_img_type:
        header = _image(f"data:{site.header_img_type};base64,{site.header_img}")
    zone = signed_zone or site.time_zone
    paper = read_preferences(site.settings).pageSize
    return model.ExportedSite(
        site.name or site.site_id, header, _image(site.footer_img), zone, paper
    )


def _language(report: Report, site: Site | None) -> str:
    chosen = report.reporting.get("app_language") or report.reporting.get("AppLanguage")
    default = (site.settings.get("AppLanguage") if site else None) or DEFAULT_LANGUAGE
    return str(chosen or default)


def _tags(order: Any) -> Mapping[str, str]:
    identity = {
        "SiteID": order.site_id,
        "SiteLocation": order.location,
        "PatientMRN": order.mrn,
        "Accession": order.accession,
    }
    return {**{name: str(value) for name, value in order.tags.items()}, **identity}


def _document(stored: dict[str, Any] | None, text: str) -> Document:
    return restore(stored) if stored is not None else from_text(text)


def _image(data_uri: str | None) -> model.ExportedImage | None:
    """Parse a stored data URI; None if it is invalid."""
    if not data_uri:
        return None
    head, _, data = data_uri.partition(";base64,")
    try:
        return model.ExportedImage(
            head.removeprefix("data:"), base64.b64decode(data, validate=True)
        )
    except ValueError:  # not base64, or not even ASCII
        return None


def _person(stored: Mapping[str, Any] | None) -> model.ExportedUser | None:
    if not stored:
        return None
    return model.ExportedUser(
        str(stored.get("name", "")),
        str(stored.get("email", "")),
        _image(stored.get("signature")),
        str(stored.get("text", "")),
    )


def _nobody() -> model.ExportedUser:
    return model.ExportedUser("", "")


def _addenda(session: Session, report: Report) -> tuple[model.ExportedAddendum, ...]:
    rows = session.exec(
        select(Addendum)
        .where(Addendum.report_pk == key_of(report), Addendum.state == AddendumState.SIGNED)
        .order_by(col(Addendum.signed_at), col(Addendum.number))
    )
    return tuple(
        model.ExportedAddendum(
            _document(row.document, row.content_text),
            signed_at,
            _person(row.signed_by) or _nobody(),
        )
        for row in rows
        if (signed_at := utc_time(row.signed_at)) is not None
    )


def _prelims(session: Session, report: Report) -> tuple[model.PrelimEntry, ...]:
    rows = session.exec(
        select(PrelimRead)
        .where(PrelimRead.report_pk == key_of(report), col(PrelimRead.withdrawn_at).is_(None))
        .order_by(col(PrelimRead.read_at), col(PrelimRead.pk))
    )
    return tuple(
        model.PrelimEntry(
            row.tag_name,
            row.group_name,
            read_at,
            _person(row.read_by) or _nobody(),
            utc_time(row.reviewed_at),
            _person(row.reviewed_by),
        )
        for row in rows
        if (read_at := utc_time(row.read_at)) is not None
    )
