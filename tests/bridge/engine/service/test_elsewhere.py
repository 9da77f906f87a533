"""Orders that are reported elsewhere: what the lists leave out, and what a person returns."""

from typing import Any

import pytest

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.service.reports.elsewhere import mark_order, unmark_order, unmark_report
from bridge.engine.service.reports.order_links import link_orders
from bridge.engine.service.reports.patients import merge_patients
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.worklist import (
    ElsewhereFilter,
    RowsQuery,
    WorklistQuery,
    read_rows,
    read_worklist,
)
from tests.bridge.engine.service.harness import SITE, ServiceHarness


def mark(harness: ServiceHarness, order: OrderKey, at: int = 5) -> None:
    harness.do(mark_order, order, {"at": at, "sender": "ris", "status": "F"})


def listed(harness: ServiceHarness, **filters: Any) -> set[str]:
    """Return the accessions of the API's list; the application has the same rows."""
    with harness.work() as work:
        items = read_worklist(work.session, WorklistQuery(SITE, **filters), harness.now).items
        rows = read_rows(work.session, RowsQuery(SITE, **filters), 1, harness.now)
    found = {order["Accession"] for item in items for order in item["orders"]}
    assert {order["Accession"] for item in rows.items for order in item["orders"]} == found
    assert rows.total == len(items)
    return found


def test_the_filter(harness: ServiceHarness) -> None:
    mark(harness, harness.order("A1"))
    harness.order("A2")
    assert listed(harness) == {"A2"}
    assert listed(harness, elsewhere=ElsewhereFilter.ONLY) == {"A1"}
    assert listed(harness, elsewhere=ElsewhereFilter.INCLUDED) == {"A1", "A2"}
    assert listed(harness, text="A1") == {"A1"}


def test_a_repetition_does_not_undo_what_a_person_did(harness: ServiceHarness) -> None:
    order = harness.order("A1")
    mark(harness, order, 5)
    harness.on_report(order, unmark_report)
    assert listed(harness) == {"A1"}
    for at in (5, 4):
        with pytest.raises(EngineError) as refused:
            mark(harness, order, at)
        assert refused.value.code is ErrorCode.RETURNED_TO_UNREAD
    assert listed(harness) == {"A1"}
    mark(harness, order, 6)
    assert listed(harness) == set()
    harness.do(unmark_order, order)
    harness.do(unmark_order, order)
    assert listed(harness) == {"A1"}


def test_a_report_with_text_or_a_reader_stays_listed(harness: ServiceHarness) -> None:
    mark(harness, harness.draft("A1"))
    assert listed(harness) == {"A1"}


def test_a_signed_report_gets_no_mark(harness: ServiceHarness) -> None:
    order = harness.draft("A1")
    harness.do(sign, order)
    mark(harness, order)
    with harness.work() as work:
        (item,) = read_worklist(work.session, WorklistQuery(SITE), harness.now).items
    assert item["reportedElsewhere"] == []


def test_a_report_of_two_orders_is_hidden_when_both_have_the_mark(harness: ServiceHarness) -> None:
    one, other = harness.order("A1"), harness.order("A2")
    harness.do(link_orders, [one, other])
    mark(harness, one)
    assert listed(harness) == {"A1", "A2"}
    mark(harness, other)
    assert listed(harness) == set()
    harness.on_report(one, unmark_report)
    assert listed(harness) == {"A1", "A2"}


def test_the_mark_moves_with_a_merge(harness: ServiceHarness) -> None:
    mark(harness, harness.order("A1", "M2"))
    harness.order("A2", "M1")
    harness.do(merge_patients, SITE, "M1", "M2")
    assert listed(harness) == {"A2"}
    assert listed(harness, text="M1") == {"A1", "A2"}
