"""
Which orders are read together, and which no longer are.

Pure: given what the sender's signals say and what the report service says, decide the
call. Whether it is allowed in the end, the service's own linking rules decide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridge.contract import ReportStatus
from bridge.engine_client.models import OrderKey, StatusRecord

ANCHORS = frozenset({ReportStatus.ORDERED, ReportStatus.DRAFT})


@dataclass(frozen=True, slots=True)
class Member:
    """An order with its link signals; `rank` sorts by first message, then place in it."""

    key: OrderKey
    signals: frozenset[int]
    rank: tuple[int, int]


def _may_join(record: StatusRecord) -> bool:
    """Whether an order may be linked to another's report (interface document, rule 1)."""
    return record.status is ReportStatus.ORDERED and record.has_content is not True


def _may_anchor(record: StatusRecord) -> bool:
    if record.status is ReportStatus.ORDERED:
        return record.has_content is not True
    return record.status in ANCHORS


def group_to_link(
    order: OrderKey, members: Sequence[Member], records: Sequence[StatusRecord]
) -> tuple[OrderKey, ...]:
    """
    Choose whom to link `order` with, anchor first; empty when there is nothing to do.

    `members` share a signal with the order (it is one of them), `records` are the current
    reports of all. The anchor is the order that came first. Reports that can no longer be
    linked are left out; when the order's own cannot, it stands alone.
    """
    report_of = {key: record for record in records for key in record.orders}
    rank = {member.key: member.rank for member in members}
    own = report_of.get(order)
    if own is None:
        return ()
    reports = {
        report_of[member.key].report_id: report_of[member.key]
        for member in sorted(members, key=lambda each: each.rank)
        if member.key in report_of
    }
    ranked = sorted(reports.values(), key=lambda each: _first(each, rank))
    anchor = next((each for each in ranked if _may_anchor(each)), None)
    if anchor is None:
        return ()
    joining = [each for each in ranked if each is not anchor and _may_join(each)]
    chosen = [anchor, *joining]
    if own not in chosen or not joining:
        return ()
    return tuple(each.orders[0] for each in chosen)


def _first(record: StatusRecord, rank: Mapping[OrderKey, tuple[int, int]]) -> tuple[int, int]:
    """Rank a report by the earliest of its orders that we know."""
    return min(rank[key] for key in record.orders if key in rank)


def has_left(
    before: frozenset[int], after: frozenset[int], others: Sequence[frozenset[int]]
) -> bool:
    """
    Whether an order has lost what bound it to the others of its group.

    A group that no signal of ours made (a person linked it) is left alone.
    """
    bound_before = any(before & each for each in others)
    bound_now = any(after & each for each in others)
    return bound_before and not bound_now
