"""A report that is read and written past the ORM is the one that the ORM knows."""

from typing import Any

from bridge.engine.records.tables import Report
from bridge.engine.rules.identity import OrderId
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.reports.patients import merge_patients
from bridge.engine.service.signing.detached_report import lock_detached
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.work import Work
from tests.bridge.engine.service.ward import SITE, Ward

OWN = {"pk", "report_id", "content_hash"}
"""What is each report's own."""


def test_a_signature_leaves_the_row_that_the_orm_would_leave(ward: Ward) -> None:
    """Signed by its own patient, and by one who was merged since, which goes by the ORM."""
    direct, merged = ward.draft("A1"), ward.draft("A2", mrn="M2")
    ward.do(merge_patients, SITE, "M1", "M2")
    ward.later(1)

    assert ward.do(lambda work: lock_detached(work, merged)) is None
    ward.do(sign, direct, time_zone="Europe/Zurich")
    ward.do(sign, merged, time_zone="Europe/Zurich")

    assert row(ward, direct) == row(ward, merged)
    assert row(ward, direct)["signed_by"]["email"] == "ann@example.org"
    assert row(ward, direct)["updated_at"] == ward.now


def test_every_column_is_read_and_what_was_changed_is_written(ward: Ward) -> None:
    """Also values in JSON, and those that become nothing; what stays is not written."""
    order = ward.draft("A1")

    def change(work: Work) -> None:
        lone = lock_detached(work, order)
        assert lone is not None
        assert lone.update_statements(work.connection) == []
        lone.report.reporting = {"Überweiser": ["a", None]}
        lone.report.document, lone.report.owner_id = None, None
        work.final_statements += lone.update_statements(work.connection)

    before = row(ward, order)
    ward.do(change)
    changed = {"reporting": {"Überweiser": ["a", None]}, "document": None, "owner_id": None}
    assert row(ward, order) == before | changed


def row(ward: Ward, order: OrderId) -> dict[str, Any]:
    """A report as the ORM reads it, and as it is read past it: all but what is its own."""
    with ward.work() as work:
        report = lock_report(work, OrderId(order.site_id, "M1", order.accession)).report
        found = {name: getattr(report, name) for name in Report.model_fields}
        lone = lock_detached(work, OrderId(order.site_id, "M1", order.accession))
        assert lone is not None
        assert {name: getattr(lone.report, name) for name in Report.model_fields} == found
    return {name: value for name, value in found.items() if name not in OWN}
