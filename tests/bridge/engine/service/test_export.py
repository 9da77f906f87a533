"""The content of exports: the report, its users and its site, as at the time of signing."""

from bridge.engine.documents.exports.model import PageSize
from bridge.engine.launch import Attachment
from bridge.engine.records.tables import Site, SiteMembership
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.report_status import read_report
from bridge.engine.service.reports.export import IMAGES, export_printed, export_report
from bridge.engine.service.reports.files import attach
from bridge.engine.service.signing.sign import sign
from tests.bridge.engine.service.harness import SITE, ServiceHarness


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
