"""Concurrent actions on one report: a valid state, one success, no deadlock."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from bridge.engine.errors import EngineError
from bridge.engine.service.launch.report_updates import assign_report
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.reports.deletion import delete_report
from bridge.engine.service.reports.order_links import link_orders, unlink_orders
from bridge.engine.service.signing.releases import release_due
from bridge.engine.service.signing.sign import sign, unsign
from bridge.store.errors import Busy, Conflict
from tests.bridge.engine.service.harness import ServiceHarness
from tests.eventually import PATIENCE


def together(*actions: Callable[[], Any]) -> Counter[str]:
    """Run all actions concurrently; count `ok` and the codes of the refusals."""
    gate = Barrier(len(actions))

    def attempt(action: Callable[[], Any]) -> str:
        gate.wait(PATIENCE)
        try:
            action()
        except EngineError as refusal:
            return refusal.code
        except (Conflict, Busy) as lost:
            return type(lost).__name__
        return "ok"

    with ThreadPoolExecutor(len(actions)) as pool:
        return Counter(pool.map(attempt, actions))


def test_sign_of_an_order_that_is_unlinked_meanwhile(harness: ServiceHarness) -> None:
    """After the lock is free, the action applies to the new report of the order."""
    anchor, other = harness.order("A1"), harness.order("B1")
    harness.do(link_orders, [anchor, other])
    with ThreadPoolExecutor(1) as pool:
        with harness.work() as work:
            unlink_orders(work, [other])
            assign_report(
                work, lock_report(work, anchor).report, harness.ann
            ).content_text = "Clear lungs."
            signing = pool.submit(harness.do, sign, other)
            harness.await_lock(signing)
        with pytest.raises(EngineError):  # the new report is Ordered and has no owner
            signing.result(PATIENCE)
    assert harness.status(anchor) == "Draft"


def test_two_links_of_one_order(harness: ServiceHarness) -> None:
    """Two anchors, one order: the order is in exactly one group."""
    for number in range(6):
        one, two = harness.draft(f"A{number}"), harness.draft(f"B{number}")
        shared = harness.order(f"C{number}")

        outcome = together(
            lambda one=one, shared=shared: harness.do(link_orders, [one, shared]),  # type: ignore[misc]
            lambda two=two, shared=shared: harness.do(link_orders, [two, shared]),  # type: ignore[misc]
        )

        assert outcome["ok"] == 1
        groups = [len(harness.record(item).orders) for item in (one, two)]
        assert sorted(groups) == [1, 2]


def test_concurrent_link_and_unlink(harness: ServiceHarness) -> None:
    """Overlapping requests for the same orders: each order is in one report."""
    orders = [harness.order(f"A{number}") for number in range(4)]

    together(
        lambda: harness.do(link_orders, orders),
        lambda: harness.do(link_orders, orders[::-1]),
        lambda: harness.do(link_orders, orders[1:3]),
        lambda: harness.do(unlink_orders, orders[::-1]),
        lambda: harness.do(unlink_orders, orders[:2]),
    )

    for order in orders:
        record = harness.record(order)
        assert record.status == "Ordered"
        assert harness.group(order).count(order) == 1


def test_delete_against_sign(harness: ServiceHarness) -> None:
    """The report is deleted or signed, never both."""
    for number in range(6):
        order = harness.draft(f"A{number}")

        outcome = together(
            lambda order=order: harness.do(sign, order),  # type: ignore[misc]
            lambda order=order: harness.do(delete_report, order),  # type: ignore[misc]
        )

        refusals = outcome - Counter(ok=1)
        assert refusals <= Counter(ok=1, report_signed=1, report_not_found=1, changed=1)
        assert outcome["ok"] == 1 or harness.events()[-1] == "report_deleted"


def test_release_against_recall(harness: ServiceHarness) -> None:
    """The report is recalled and never released, or released and not recallable."""
    harness.delay(60)
    order = harness.draft("A1")
    harness.do(sign, order)

    outcome = together(
        lambda: harness.do(unsign, order),
        lambda: harness.do(sign, order, ignore_delay=True),
        lambda: release_due(harness.database, harness.now + 60_000),
        lambda: release_due(harness.database, harness.now + 60_000),
    )

    releases = harness.releases()
    assert len(releases) <= 1
    assert harness.status(order) == ("Final" if releases else "Draft")
    assert outcome - Counter(ok=4) <= Counter(cooling_elapsed=1, already_signed=1)


def test_a_report_that_is_being_recalled_is_not_released(harness: ServiceHarness) -> None:
    """The release does not wait for a locked report, and does not use what it read before."""
    harness.delay(60)
    order = harness.draft("A1")
    harness.do(sign, order)
    with ThreadPoolExecutor(1) as pool:
        with harness.work() as work:
            unsign(work, order)
            releasing = pool.submit(release_due, harness.database, harness.now + 60_000)
            harness.await_lock(releasing)
        assert releasing.result(PATIENCE) == 0
    assert harness.releases() == []
    assert harness.status(order) == "Draft"
