"""Which orders are linked, and when an order has left its group."""

import pytest

from bridge.contract import OrderKey, ReportStatus
from bridge.contract.responses import StatusRecordBody
from bridge.intake.process.worklist import GroupMember, group_to_link, has_lost_links
from bridge.orders.order import Link

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
    assert "".join(each.accession for each in chosen) == expected


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
