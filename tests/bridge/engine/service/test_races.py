"""Many at once on one report: a legal state, exactly one winner, nobody hangs."""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from bridge.engine.errors import EngineError
from bridge.engine.service.launch.creation import OrderInput
from bridge.engine.service.launch.registration import register
from bridge.engine.service.launch.report_updates import assign_report
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.reports.deletion import delete_report
from bridge.engine.service.reports.linking import link_orders, unlink_orders
from bridge.engine.service.signing.addenda import release_addendum
from bridge.engine.service.signing.prelims import prelim
from bridge.engine.service.signing.releases import release_due
from bridge.engine.service.signing.sign import sign, unsign
from bridge.engine.service.worklist.assignment import unassign
from bridge.store.errors import Busy, Conflict
from tests.bridge.engine.service.ward import SITE, Ward


def together(*audit_events: Callable[[], Any]) -> Counter[str]:
    """Do all at once; count `ok` and the codes of the refusals."""
    gate = Barrier(len(audit_events))

    def attempt(deed: Callable[[], Any]) -> str:
        gate.wait(30)
        try:
            deed()
        except EngineError as refusal:
            return refusal.code
        except (Conflict, Busy) as lost:
            return type(lost).__name__
        return "ok"

    with ThreadPoolExecutor(len(audit_events)) as pool:
        return Counter(pool.map(attempt, audit_events))


def test_sign_fifty_times_at_once(ward: Ward) -> None:
    """One signs, the others are told that it is signed; one release."""
    order = ward.draft("A1")

    outcome = together(*[lambda: ward.do(sign, order)] * 15)

    assert outcome == {"ok": 1, "already_signed": 14}
    assert ward.releases() == [("final", 1)]


def test_sign_against_link(ward: Ward) -> None:
    """The group is linked and then signed, or the signed anchor is refused; nothing between."""
    for number in range(6):
        anchor, other = ward.draft(f"A{number}"), ward.order(f"B{number}")

        outcome = together(
            lambda anchor=anchor: ward.do(sign, anchor),  # type: ignore[misc]
            lambda anchor=anchor, other=other: ward.do(link_orders, [anchor, other]),  # type: ignore[misc]
        )

        linked = len(ward.record(anchor).orders) == 2
        assert ward.status(anchor) == "Final"
        assert ward.status(other) == ("Final" if linked else "Ordered")
        assert outcome == ({"ok": 2} if linked else {"ok": 1, "report_signed": 1})


def test_sign_of_an_order_that_leaves_its_report(ward: Ward) -> None:
    """Whoever waited for the report's lock signs what the order belongs to by then."""
    anchor, other = ward.order("A1"), ward.order("B1")
    ward.do(link_orders, [anchor, other])
    with ThreadPoolExecutor(1) as pool:
        with ward.work() as work:
            unlink_orders(work, [other])
            assign_report(
                work, lock_report(work, anchor).report, ward.ann
            ).content_text = "Clear lungs."
            signing = pool.submit(ward.do, sign, other)
            time.sleep(0.3)  # it waits
        with pytest.raises(EngineError):  # it is Ordered again, and nobody's
            signing.result(30)
    assert ward.status(anchor) == "Draft"


def test_two_groups_want_one_order(ward: Ward) -> None:
    """Two anchors, one order: it ends in exactly one group."""
    for number in range(6):
        one, two = ward.draft(f"A{number}"), ward.draft(f"B{number}")
        wanted = ward.order(f"C{number}")

        outcome = together(
            lambda one=one, wanted=wanted: ward.do(link_orders, [one, wanted]),  # type: ignore[misc]
            lambda two=two, wanted=wanted: ward.do(link_orders, [two, wanted]),  # type: ignore[misc]
        )

        assert outcome["ok"] == 1
        groups = [len(ward.record(each).orders) for each in (one, two)]
        assert sorted(groups) == [1, 2]


def test_link_and_unlink_in_circles(ward: Ward) -> None:
    """Crossing requests over the same orders: every order is in one report at the end."""
    orders = [ward.order(f"A{number}") for number in range(4)]

    together(
        lambda: ward.do(link_orders, orders),
        lambda: ward.do(link_orders, orders[::-1]),
        lambda: ward.do(link_orders, orders[1:3]),
        lambda: ward.do(unlink_orders, orders[::-1]),
        lambda: ward.do(unlink_orders, orders[:2]),
    )

    for order in orders:
        record = ward.record(order)
        assert record.status == "Ordered"
        assert [each for each in record.orders if each == order] == [order]


def test_delete_against_sign(ward: Ward) -> None:
    """Deleted or signed, never both."""
    for number in range(6):
        order = ward.draft(f"A{number}")

        outcome = together(
            lambda order=order: ward.do(sign, order),  # type: ignore[misc]
            lambda order=order: ward.do(delete_report, order),  # type: ignore[misc]
        )

        refusals = outcome - Counter(ok=1)
        assert refusals <= Counter(ok=1, report_signed=1, report_not_found=1, changed=1)
        assert outcome["ok"] == 1 or ward.events()[-1] == "report_deleted"


def test_release_against_recall(ward: Ward) -> None:
    """At the last moment: recalled and never sent, or sent and not recallable."""
    ward.delay(60)
    order = ward.draft("A1")
    ward.do(sign, order)

    outcome = together(
        lambda: ward.do(unsign, order),
        lambda: ward.do(sign, order, ignore_delay=True),
        lambda: release_due(ward.database, ward.now + 60_000),
        lambda: release_due(ward.database, ward.now + 60_000),
    )

    releases = ward.releases()
    assert len(releases) <= 1
    assert ward.status(order) == ("Final" if releases else "Draft")
    assert outcome - Counter(ok=4) <= Counter(cooling_elapsed=1, already_signed=1)


def test_register_one_order_from_many_sides(ward: Ward) -> None:
    """One report comes to be; whoever lost the race may try again."""
    outcome = together(*[lambda: ward.do(register, SITE, OrderInput("M1", "A1"))] * 10)

    assert outcome["ok"] + outcome["Conflict"] == 10
    assert ward.events() == ["order_registered"]


def test_fifty_at_once_on_one_report(ward: Ward) -> None:
    """Everything at once: the report ends in a state of the table, and the feed tells how."""
    ward.delay(60)
    order = ward.draft("A1")
    audit_events: list[Callable[[], Any]] = [
        lambda: ward.do(sign, order),
        lambda: ward.do(unsign, order),
        lambda: ward.do(prelim, order, "G", "T"),
        lambda: ward.do(unassign, order),
        lambda: ward.do(release_addendum, order),
    ]

    outcome = together(*(audit_events * 3))

    assert "Busy" not in outcome
    assert ward.status(order) in {"Ordered", "Draft", "Preliminary", "Final"}
    assert ward.changes()[-1]["record"]["status"] == ward.status(order)
    cursors = [each["cursor"] for each in ward.changes()]
    assert cursors == sorted(cursors)
