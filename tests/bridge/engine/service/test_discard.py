"""Discarding a Draft: a launched report is deleted, a registered order stays."""

from collections.abc import Callable

import pytest

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.engine.service.launch.report_updates import open_for, unassign
from bridge.engine.service.reports.deletion import discard
from bridge.engine.service.reports.order_links import link_orders
from bridge.engine.service.reports.patients import merge_patients
from bridge.engine.service.signing.sign import sign, unsign
from tests.bridge.engine.refusals import refused
from tests.bridge.engine.service.harness import SITE, ServiceHarness


def test_discard(harness: ServiceHarness) -> None:
    """A launched Draft is deleted, a Draft from an order is reset to Ordered."""
    launched, ordered = harness.draft("A1"), harness.order("A2")
    harness.on_report(ordered, open_for, harness.ann)

    harness.on_report(launched, discard)
    harness.on_report(ordered, discard)

    assert harness.status(ordered) == "Ordered"
    with refused(ErrorCode.REPORT_NOT_FOUND):
        harness.status(launched)
    assert harness.events()[-2:] == ["report_discarded", "report_discarded"]


def register_again(harness: ServiceHarness, launched: OrderKey) -> list[OrderKey]:
    """Register the order of a launched Draft, with the tags that it has."""
    return [harness.order(launched.accession)]


def register_while_signed(harness: ServiceHarness, launched: OrderKey) -> list[OrderKey]:
    """Register the order while its report is signed, and recall the signature."""
    harness.delay(60)
    harness.do(sign, launched)
    order = harness.order(launched.accession)
    harness.do(unsign, launched)
    return [order]


def link_another(harness: ServiceHarness, launched: OrderKey) -> list[OrderKey]:
    """Link a registered order to a launched Draft."""
    orders = [launched, harness.order("A2")]
    harness.do(link_orders, orders)
    return orders


def merge_another(harness: ServiceHarness, launched: OrderKey) -> list[OrderKey]:
    harness.order(launched.accession, mrn="OLD")
    harness.do(merge_patients, SITE, launched.mrn, "OLD")
    return [launched]


@pytest.mark.parametrize(
    "arrive", [register_again, register_while_signed, link_another, merge_another]
)
def test_a_registered_order_stays_when_a_launched_draft_is_discarded(
    harness: ServiceHarness, arrive: Callable[[ServiceHarness, OrderKey], list[OrderKey]]
) -> None:
    """The report becomes an empty, unassigned order with all its orders."""
    launched = harness.draft("A1")
    orders = arrive(harness, launched)

    harness.on_report(launched, discard)

    record = harness.record(launched)
    assert (record.status, record.user_email, record.has_content) == ("Ordered", "", False)
    assert harness.group(launched) == orders


def test_linked_launched_drafts_are_deleted(harness: ServiceHarness) -> None:
    """A group without a registered order is no order: discarding its Draft deletes it."""
    launched = harness.draft("A1")
    other = harness.draft("A2", text="")
    harness.do(unassign, other)
    harness.do(link_orders, [launched, other])

    harness.on_report(launched, discard)

    with refused(ErrorCode.REPORT_NOT_FOUND):
        harness.status(launched)
