"""Link and unlink orders: the feed, merged patients, anchors. tests/conformance has the rules."""

import pytest
from sqlmodel import select

from bridge.contract import MAX_REPORT_ORDERS, OrderKey
from bridge.contract.responses import StatusRecordBody
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import ReportFile
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.service.launch.registration import OrderInput, register_orders
from bridge.engine.service.report_lookup import key_of, lock_report
from bridge.engine.service.reports.order_links import link_orders, unlink_orders
from bridge.engine.service.reports.patients import merge_patients
from bridge.engine.service.signing.sign import sign
from tests.bridge.engine.registrations import register_many
from tests.bridge.engine.service.harness import PATIENT, SITE, ServiceHarness


def accessions(record: StatusRecordBody) -> list[str]:
    """Return the accessions of a record, anchor first."""
    return [order.accession for order in record.orders]


def refused(harness: ServiceHarness, *orders: OrderKey) -> tuple[str, str]:
    """Link and expect a refusal with 400 that changes nothing; return its code and place."""
    before = len(harness.changes())
    with pytest.raises(EngineError) as error:
        harness.do(link_orders, list(orders))
    assert error.value.status == 400
    assert len(harness.changes()) == before
    return error.value.code, error.value.pointer


def test_fewer_than_two_different_orders(harness: ServiceHarness) -> None:
    """Repeated orders, and two identifiers of a merged patient's order, count once."""
    one = harness.order("A1", mrn="OLD")
    harness.do(merge_patients, "SITE1", "M1", "OLD")

    assert refused(harness, one, one) == ("too_few_orders", "/clinicalInfo")
    assert refused(harness, one, harness.identity("A1")) == ("too_few_orders", "/clinicalInfo")


def group(harness: ServiceHarness, *names: str) -> list[OrderKey]:
    orders = [harness.order(name) for name in names]
    harness.do(link_orders, orders)
    return orders


def test_a_report_has_at_most_a_hundred_orders(harness: ServiceHarness) -> None:
    """Each change of a report has all its orders, so that their number is limited."""
    inputs = [
        OrderInput("M1", f"A{number}", tags=PATIENT) for number in range(MAX_REPORT_ORDERS + 1)
    ]
    harness.do(register_many, SITE, inputs)
    *most, last = [harness.identity(item.accession) for item in inputs]
    assert len(harness.do(link_orders, most)[0].orders) == MAX_REPORT_ORDERS
    assert refused(harness, most[0], last) == ("group_too_large", "/clinicalInfo")
    assert len(harness.do(link_orders, most[:2])[0].orders) == MAX_REPORT_ORDERS


def test_a_large_link_group_of_a_batch_gets_several_reports(harness: ServiceHarness) -> None:
    """A report of a link group has at most a hundred orders too."""
    identities = [harness.identity(f"A{number}") for number in range(MAX_REPORT_ORDERS + 1)]
    inputs = [OrderInput("M1", identity.accession, tags=PATIENT) for identity in identities]
    harness.do(register_orders, identities, inputs, ["one"] * len(inputs))
    assert len(harness.record(identities[0]).orders) == MAX_REPORT_ORDERS
    assert accessions(harness.record(identities[-1])) == [f"A{MAX_REPORT_ORDERS}"]


def test_unlinking_leaves_ungrouped_orders_untouched(harness: ServiceHarness) -> None:
    """Reports of requested orders that are in no group are returned in any status."""
    orders = group(harness, "A1", "A2", "A3")
    alone = harness.draft("A9")
    harness.do(sign, alone)

    records = harness.do(unlink_orders, [alone, orders[2], orders[1]])

    assert [accessions(record) for record in records] == [["A1"], ["A3"], ["A2"], ["A9"]]


def test_files_without_an_order_stay_with_the_anchor(harness: ServiceHarness) -> None:
    """If all orders are unlinked, the report of the former anchor gets these files."""
    orders = group(harness, "A1", "A2")
    with harness.work() as work:
        own = key_of(lock_report(work, orders[0]).report)
        kind = FileKind.KEY_IMAGE
        file = ReportFile(report_pk=own, kind=kind, sha256="x", data=b"x", created_at=1)
        work.session.add(file)

    harness.do(unlink_orders, [orders[1], orders[0]])

    with harness.work() as work:
        (file,) = work.session.exec(select(ReportFile))
        assert file.report_pk == key_of(lock_report(work, orders[0]).report)
