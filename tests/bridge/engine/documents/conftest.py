"""Shared fixtures: a report of an invented patient, and an image."""

from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO

import PIL.Image
import pytest

from bridge.engine.documents.exports.model import (
    ExportedAddendum,
    ExportedImage,
    ExportedReport,
    ExportedSite,
    ExportedUser,
)
from bridge.engine.rules.text.document import Document, from_text

SIGNED_AT = datetime(2025, 3, 4, 15, 30, tzinfo=UTC)

Make = Callable[..., ExportedReport]


@pytest.fixture
def picture() -> ExportedImage:
    buffer = BytesIO()
    PIL.Image.new("RGB", (60, 20), "navy").save(buffer, "PNG")
    return ExportedImage("image/png", buffer.getvalue())


@pytest.fixture
def make(picture: ExportedImage) -> Make:
    def make(
        body: str | Document = "",
        language: str = "en-US",
        *,
        signed: bool = True,
        addenda: tuple[str, ...] = (),
    ) -> ExportedReport:
        signer = ExportedUser("Dr. Vera Invented", "vera@hospital.example", picture)
        return ExportedReport(
            site=ExportedSite("Invented Clinic", picture, picture, "Europe/Berlin"),
            orders=({"SiteID": "S1", "PatientName": "MADE^UP", "PatientMRN": "M1"},),
            status="Final" if signed else "Draft",
            body=body if isinstance(body, Document) else from_text(body),
            signed_at=SIGNED_AT if signed else None,
            signed_by=signer if signed else None,
            addenda=tuple(ExportedAddendum(from_text(t), SIGNED_AT, signer) for t in addenda),
            language=language,
        )

    return make
