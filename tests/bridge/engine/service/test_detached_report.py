"""A detached report has the same values as a report that the ORM reads and writes."""

from typing import Any

from bridge.engine.records.tables import Report
from bridge.engine.rules.order import OrderId
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.reports.patients import merge_patients
from bridge.engine.service.signing.sign import lock_detached, sign
from bridge.engine.service.work import Work
from tests.bridge.engine.service.harness import SITE, ServiceHarness

OWN = {"pk", "report_id", "content_hash"}
"""Members that differ for each report."""


def test_signing_writes_the_same_row_as_the_orm(harness: ServiceHarness) -> None:
    """Signing a detached report and signing through the ORM (merged patient) give equal rows."""
    detached, merged = harness.draft("A1"), harness.draft("A2", mrn="M2")
    harness.do(merge_patients, SITE, "M1", "M2")
    harness.later(1)

    assert harness.do(lambda work: lock_detached(work, merged)) is None
    harness.do(sign, detached, time_zone="Europe/Zurich")
    harness.do(sign, merged, time_zone="Europe/Zurich")

    assert row(harness, detached) == row(harness, merged)
    assert row(harness, detached)["signed_by"]["email"] == "ann@example.org"
    assert row(harness, detached)["updated_at"] == harness.now


def test_changed_columns_are_written(harness: ServiceHarness) -> None:
    """Including JSON and NULL; other columns keep their values."""
    order = harness.draft("A1")

    def change(work: Work) -> None:
        detached = lock_detached(work, order)
        assert detached is not None
        assert detached.update_statements(work.connection) == []
        detached.report.reporting = {"Überweiser": ["a", None]}
        detached.report.document, detached.report.owner_id = None, None
        work.final_statements += detached.update_statements(work.connection)

    before = row(harness, order)
    harness.do(change)
    changed = {"reporting": {"Überweiser": ["a", None]}, "document": None, "owner_id": None}
    assert row(harness, order) == before | changed


def row(harness: ServiceHarness, order: OrderId) -> dict[str, Any]:
    """Return a report's values without `OWN`, after a check that both ways of reading agree."""
    with harness.work() as work:
        report = lock_report(work, OrderId(order.site_id, "M1", order.accession)).report
        found = {name: getattr(report, name) for name in Report.model_fields}
        detached = lock_detached(work, OrderId(order.site_id, "M1", order.accession))
        assert detached is not None
        assert {name: getattr(detached.report, name) for name in Report.model_fields} == found
    return {name: value for name, value in found.items() if name not in OWN}
