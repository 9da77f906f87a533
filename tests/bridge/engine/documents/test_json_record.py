"""The members of the JSON export record (interface document, JSON export record)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from bridge.engine.documents.exports.json_record import CLINICAL_TAGS, export_record
from bridge.engine.documents.exports.model import ExportedReport, ExportedUser, PrelimEntry

Make = Callable[..., ExportedReport]


def test_sixteen_tags(make: Make) -> None:
    """Exactly the 16 tags of the document, '' if unset; no Metadata and no other tags."""
    tags = {"SiteID": "S1", "Metadata": "no", "Race": "no", "KeyFindings": "no"}
    (record,) = export_record(replace(make("x"), orders=(tags,)))["clinicalInfo"]
    assert len(CLINICAL_TAGS) == 16
    assert record == dict.fromkeys(CLINICAL_TAGS, "") | {"SiteID": "S1"}


def test_report_info(make: Make) -> None:
    """The content is plain text; signer and time are null before signing."""
    assert export_record(make("a\nb", signed=False))["reportInfo"] == {
        "content": "a\nb",
        "signedAt": None,
        "signedBy": None,
    }
    signed = export_record(make("a"))["reportInfo"]
    assert signed["signedAt"] == "2025-03-04T15:30:00.000Z"
    assert set(signed["signedBy"]) == {"name", "email", "signature"}
    assert signed["signedBy"]["signature"].startswith("data:image/png;base64,")


def test_site_info(make: Make) -> None:
    """The header image has a separate type, the footer is a data URI; both may be null."""
    site = export_record(make("x"))["siteInfo"]
    assert site["headerImgType"] == "image/png"
    assert not site["headerImg"].startswith("data:")
    assert site["footerImg"].startswith("data:image/png;base64,")
    bare = make("x")
    bare = replace(bare, site=replace(bare.site, header_image=None, footer_image=None))
    assert export_record(bare)["siteInfo"] == {
        "headerImgType": None,
        "headerImg": None,
        "footerImg": None,
    }


def test_addenda_and_prelims(make: Make) -> None:
    """Addenda and preliminary reads keep their order; an unreviewed read has nulls."""
    at = datetime(2025, 3, 4, 12, 0, tzinfo=UTC)
    read = PrelimEntry("urgent", "night", at, ExportedUser("Resident", "r@hospital.example"))
    record = export_record(replace(make("x", addenda=("one", "two")), prelims=(read,)))
    assert [addendum["content"] for addendum in record["addendumInfo"]] == ["one", "two"]
    assert record["prelimInfo"] == [
        {
            "prelimTag": {"name": "urgent", "group": "night"},
            "prelimAt": "2025-03-04T12:00:00.000Z",
            "prelimBy": {"name": "Resident", "email": "r@hospital.example", "signature": None},
            "reviewedAt": None,
            "reviewedBy": None,
        }
    ]
