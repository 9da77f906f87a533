"""A detached report has the same values as one that the ORM reads and writes."""

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


def test_a_signature_leaves_the_row_that_the_orm_would_leave(harness: ServiceHarness) -> None:
    """Signing through the detached report and through the ORM (merged patient) gives equal rows."""
    handle_with_callback, merged = harness.draft("A1"), harness.draft("A2", mrn="M2")
    harness.do(merge_patients, SITE, "M1", "M2")
    harness.later(1)

    assert harness.do(lambda work: lock_detached(work, merged)) is None
    harness.do(sign, handle_with_callback, time_zone="Europe/Zurich")
    harness.do(sign, merged, time_zone="Europe/Zurich")

    assert row(harness, handle_with_callback) == row(harness, merged)
    assert row(harness, handle_with_callback)["signed_by"]["email"] == "ann@example.org"
    assert row(harness, handle_with_callback)["updated_at"] == harness.now


def test_every_column_is_read_and_what_was_changed_is_written(harness: ServiceHarness) -> None:
    """Changed columns are written, including JSON and NULL; others are not."""
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
