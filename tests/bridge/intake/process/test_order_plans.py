"""Plans of messages with many orders, and the changes of the worklist that follow."""

from dataclasses import replace

import pytest

from bridge.contract import OrderKey, ReportStatus
from bridge.contract.responses import StatusRecordBody
from bridge.intake.process.worklist import GroupMember, group_to_link, has_lost_links
from bridge.orders.order import Link, Order
from bridge.orders.plans import OrderTask, merge_events, plan
from bridge.orders.rules import SourceMessage
from bridge.orders.times import MessageTime, Resolution, clock
from bridge.orders.values import as_moved_away
from mappings.inbound.events import OrderEvent
from tests.calls import counted
from tests.mappings.definitions import DEFAULTS, inbound_mapping, message

ORDERS = inbound_mapping("orders")


def procedures(count: int, control: str = "NW") -> list[OrderEvent]:
    groups = [
        segment
        for number in range(count)
        for segment in (
            f"ORC|{control}|P{number}",
            f"OBR|1|P{number}||X^Test {number}" + "|" * 14 + "A1",
        )
    ]
    return ORDERS.apply(message(*groups), DEFAULTS)


def ordered_and_changed(count: int) -> tuple[OrderTask, int]:
    """Plan an order with many procedures and a change of it; return the last task and the calls."""
    new, changed = procedures(count), procedures(count, "XO")

    def work() -> OrderTask:
        (task,) = plan(new, {}, SourceMessage(1, None))
        (task,) = plan(changed, {task.after.key: task.after}, SourceMessage(2, None))
        return task

    return counted(work)


def test_the_procedures_of_an_accession_cost_their_number() -> None:
    """Twice the procedures are twice the work: a frame may have 1,000, planned on the loop."""
    _, few = ordered_and_changed(100)
    task, many = ordered_and_changed(200)
    assert [line[:9] for line in task.after.echo if line.startswith("ORC")] == [
        f"ORC|XO|P{number}"[:9] for number in range(200)
    ]
    assert many < 3 * few


def planned(
    control: str,
    name: str,
    source: int,
    before: OrderTask | Order | None = None,
    sent: int | None = None,
) -> OrderTask:
    order = f"OBR|1|P1||X^{name}" + "|" * 14 + "A1"
    events = ORDERS.apply(message(f"ORC|{control}|P1", order), DEFAULTS)
    row = before.after if isinstance(before, OrderTask) else before
    sent_at = None if sent is None else MessageTime(sent, clock(1, Resolution.MILLISECOND))
    (task,) = plan(events, {row.key: row} if row else {}, SourceMessage(source, sent_at))
    return task


def test_a_cancellation_keeps_the_segments_of_its_order() -> None:
    """A report that was begun stays, and its result repeats the order, not the cancellation."""
    ordered = planned("NW", "Ordered", 1)
    assert planned("CA", "Other", 2, ordered).after.echo == ordered.after.echo


def test_changes_of_a_cancelled_order_overtake_each_other() -> None:
    """The change that was sent last gives the values of a new order that arrives later."""
    row = planned("CA", "Old", 2, planned("NW", "Old", 1, sent=1), sent=2)
    for source, (name, sent) in enumerate([("Newest", 5), ("Older", 4)], start=3):
        row = planned("XO", name, source, row, sent=sent)
    ordered = planned("NW", "Late", 5, row, sent=3).after
    assert (ordered.state, ordered.tags["StudyDescription"]) == ("ordered", "Newest")


def test_a_change_does_not_reach_the_row_of_an_order_that_moved_away() -> None:
    """The row that remains with the former patient keeps its values."""
    cancelled = planned("CA", "Old", 2, planned("NW", "Old", 1, sent=1), sent=2)
    left = as_moved_away(cancelled.after)
    assert planned("XO", "New", 3, left, sent=3).after.tags == left.tags


def test_a_message_that_is_tried_again_undoes_no_newer_one() -> None:
    """Without times the order of arrival decides: of values, and of a cancellation."""
    newer = planned("XO", "New", 2)
    names = [
        planned("XO", "Other", number, newer).after.tags["StudyDescription"] for number in (1, 3)
    ]
    assert names == ["New", "Other"]
    cancelled = planned("CA", "New", 2, newer)
    states = [planned("NW", "New", number, cancelled).after.state for number in (1, 3)]
    assert states == ["cancelled", "ordered"]


def test_an_accession_of_two_patients_is_two_orders() -> None:
    """Events are merged only if they are about the same patient."""
    events = procedures(2)
    assert len(merge_events([*events, *(replace(event, mrn="M2") for event in events)])) == 2


Ordered, Draft = ReportStatus.ORDERED, ReportStatus.DRAFT


def key(name: str) -> OrderKey:
    return OrderKey("S", "M", name)


def report(
    *names: str, status: ReportStatus = Ordered, content: bool | None = False
) -> StatusRecordBody:
    """Return a report of these orders, anchor first."""
    return StatusRecordBody(
        report_id=f"r{names[0]}",
        status=status,
        user_email="",
        unsign_until=None,
        orders=tuple(map(key, names)),
        has_content=content,
        addendum_unsign_until=None,
    )


def members(names: str) -> list[GroupMember]:
    """Return orders in their order of arrival."""
    return [GroupMember(key(name), (rank, 0)) for rank, name in enumerate(names)]


CASES = {
    "two orders": ("B", "AB", [report("A"), report("B")], "AB"),
    "the first is the anchor for each order": ("A", "AB", [report("B"), report("A")], "AB"),
    "already linked": ("B", "AB", [report("A", "B")], ""),
    "a group is named by its anchor": ("C", "BC", [report("A", "B"), report("C")], "AC"),
    "a draft may be the anchor": ("B", "AB", [report("A", status=Draft), report("B")], "AB"),
    "a draft may not join": ("B", "AB", [report("A"), report("B", status=Draft)], ""),
    "the anchor is signed": ("B", "AB", [report("A", status=ReportStatus.FINAL), report("B")], ""),
    "the signed report is not linked": (
        "C",
        "ABC",
        [report("A", status=ReportStatus.FINAL), report("B"), report("C")],
        "BC",
    ),
    "an unassigned report with content": ("B", "AB", [report("A", content=True), report("B")], ""),
    "a service without the anchor": ("B", "AB", [report("A", content=None), report("B")], "AB"),
    "the order has no report": ("B", "AB", [report("A")], ""),
}


@pytest.mark.parametrize(("order", "known", "records", "expected"), CASES.values(), ids=CASES)
def test_group_to_link(
    order: str, known: str, records: list[StatusRecordBody], expected: str
) -> None:
    """The anchor is first. The group is empty if nothing is to be linked."""
    chosen = group_to_link(key(order), members(known), records)
    assert "".join(order_key.accession for order_key in chosen) == expected


@pytest.mark.parametrize(
    ("before", "after", "others", "left"),
    [
        ({1}, {2}, [{1}], True),
        ({1}, {1}, [{1}], False),
        ({1, 2}, {2}, [{2}], False),
        ({1}, set(), [{1}], True),
        ({1}, {2}, [{3}], False),
        ({1}, {2}, [], False),
    ],
)
def test_has_left(before: set[int], after: set[int], others: list[set[int]], *, left: bool) -> None:
    """The order shared a signal and shares none now. Manual groups stay."""
    assert has_lost_links(links(before), links(after), [links(other) for other in others]) is left


def links(values: set[int]) -> frozenset[Link]:
    return frozenset(Link("study-uid", value) for value in values)
