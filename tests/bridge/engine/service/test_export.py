"""The content of exports: the report, its users and its site, as at the time of signing."""

from datetime import UTC, datetime

from bridge.engine.documents.exports.json_record import CLINICAL_TAGS, export_record
from bridge.engine.documents.exports.model import PageSize
from bridge.engine.launch import Attachment
from bridge.engine.records.tables import Site, SiteMembership
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.rules.text.document import from_text
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.report_status import read_report
from bridge.engine.service.reports.export import IMAGES, export_printed, export_report
from bridge.engine.service.reports.files import attach
from bridge.engine.service.reports.order_links import link_orders
from bridge.engine.service.signing import addenda
from bridge.engine.service.signing.prelims import prelim
from bridge.engine.service.signing.sign import sign
from tests.bridge.engine.service.harness import SITE, START, ServiceHarness

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def test_a_signed_report_with_everything(harness: ServiceHarness) -> None:
    """Orders, text, signer with signature, addendum, preliminary read, site images."""
    with harness.work() as work:
        site, ann = (
            work.session.get(Site, SITE),
            work.session.get(SiteMembership, (SITE, harness.ann)),
        )
        assert site is not None
        assert ann is not None
        site.header_img_type, site.header_img, site.footer_img = "image/png", "iVBORw0KGgo=", PIXEL
        ann.signature = PIXEL
    order, other = harness.draft("A1", Modality="CT", Race="X"), harness.order("A2")
    harness.do(link_orders, [order, other])
    harness.do(prelim, order, "Night", "CT")
    harness.later(1)
    harness.do(sign, order, time_zone="Europe/Berlin")
    harness.on_report(order, addenda.create_addendum, harness.bob)
    harness.on_report(order, addenda.save_addendum, from_text("More."))
    harness.on_report(order, addenda.sign_addendum, harness.bob)

    with harness.work() as work:
        exported = export_report(work.session, read_report(work.session, other))
        record = export_record(exported)

    assert [each["Accession"] for each in record["clinicalInfo"]] == ["A1", "A2"]
    assert set(record["clinicalInfo"][0]) == set(CLINICAL_TAGS)
    assert record["reportInfo"]["content"] == "Clear lungs."
    assert record["reportInfo"]["signedBy"] == {
        "name": "Ann",
        "email": "ann@example.org",
        "signature": PIXEL,
    }
    assert exported.signed_at == datetime.fromtimestamp(START / 1000 + 1, UTC)
    assert exported.site.time_zone == "Europe/Berlin"
    (addendum,) = record["addendumInfo"]
    assert (addendum["content"], addendum["signedBy"]["name"]) == ("More.", "Bob")
    (read,) = record["prelimInfo"]
    assert read["prelimTag"] == {"name": "CT", "group": "Night"}
    assert (read["reviewedAt"], read["reviewedBy"]) == (None, None)
    assert record["siteInfo"]["footerImg"] == PIXEL


def test_a_signature_keeps_the_name_of_the_signer(harness: ServiceHarness) -> None:
    """A later change of the account does not change the signature."""
    order = harness.draft("A1")
    harness.do(sign, order)

    with harness.work() as work:
        ann = work.session.get(SiteMembership, (SITE, harness.ann))
        assert ann is not None
        ann.name = "Ann Newname"
    with harness.work() as work:
        signer = export_report(work.session, read_report(work.session, order)).signed_by

    assert signer is not None
    assert signer.name == "Ann"


def test_a_printed_report_has_key_images(harness: ServiceHarness) -> None:
    """Printed reports have the site's paper size and key images; omitted images are counted."""
    order = harness.draft("A1")
    with harness.work() as work:
        site = work.session.get(Site, SITE)
        assert site is not None
        site.settings = {"pageSize": "Letter"}
        report = lock_report(work, order).report
        images = [
            Attachment(
                FileKind.KEY_IMAGE,
                str(number),
                b"png",
                "image/png",
                details={"width": 3, "height": 2},
            )
            for number in range(IMAGES + 2)
        ]
        attach(work, report, images, lock_report(work, order).order)

    with harness.work() as work:
        exported = export_printed(work.session, lock_report(work, order).report)

    assert exported.site.page_size is PageSize.LETTER
    assert len(exported.key_images) == IMAGES
    assert (exported.key_images[0].width, exported.key_images[0].data) == (3, b"png")
    assert exported.images_left_out == 2
