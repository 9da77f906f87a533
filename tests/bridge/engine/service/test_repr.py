"""Representations for logs and stack traces contain no patient data."""

from bridge.contract import OrderKey, ReportStatus
from bridge.engine.records.tables import Report, ReportOrder
from bridge.engine.rules.lifecycle import ReportOrigin
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.report_lookup import lock_report
from tests.bridge.engine.service.harness import ServiceHarness

CANARY = "CANARY"


def test_representations_hide_values(harness: ServiceHarness) -> None:
    """Rows, inputs, identities, records and the unit of work do not show their values."""
    identity = harness.order(f"{CANARY}1", mrn=f"{CANARY}2", PatientName=CANARY)
    with harness.work() as work:
        found = lock_report(work, identity)
        shown = [repr(found), str(found.order), repr(found.report), repr(work), repr(identity)]
    shown += [
        repr(harness.record(identity)),
        repr(OrderInput(CANARY, CANARY, tags={"Notes": CANARY}, metadata={"x": CANARY})),
        repr(OrderKey("SITE1", CANARY, CANARY)),
        repr(ReportOrder(report_pk=1, site_id="S", mrn=CANARY, accession=CANARY)),
        str(
            Report(
                report_id="r",
                site_id="S",
                status=ReportStatus.DRAFT,
                origin=ReportOrigin.LAUNCH,
                content_text=CANARY,
            )
        ),
    ]

    assert not [item for item in shown if CANARY in item]
