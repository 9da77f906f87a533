"""
Orders that another system has reported: the mark, and what it hides.

A report is hidden from the list of unread reports while it is Ordered and empty and all its orders
have the mark. A report that was begun is not changed; its page shows the mark. The mark is removed
by a later message or by a person. A message that is not newer than the last one changes nothing, so
that a repetition does not undo what a person did.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, and_, exists, func
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from bridge.contract import SIGNED, OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Report, ReportOrder
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import (
    key_of,
    lock_report,
    mark_updated,
    orders_of,
)
from bridge.engine.service.work import ChangeEvent, Work

_ORDER, _SIBLING = aliased(ReportOrder), aliased(ReportOrder)
_WITH_UNMARKED: Final = exists().where(
    col(_SIBLING.report_pk) == col(_ORDER.report_pk), col(_SIBLING.elsewhere_since).is_(None)
)
_MARKED: Final = select(_ORDER.report_pk).where(
    col(_ORDER.elsewhere_since).is_not(None), ~_WITH_UNMARKED
)


def is_hidden() -> ColumnElement[bool]:
    """Return the condition for reports that the list of unread reports leaves out."""
    return and_(
        col(Report.status) == ReportStatus.ORDERED,
        col(Report.template_number).is_(None),
        func.trim(col(Report.content_text)) == "",
        col(Report.pk).in_(_MARKED),
    )


def marks_of(orders: Iterable[ReportOrder | Row[Any]]) -> list[dict[str, Any]]:
    """Return the marks of a report's orders: accession, at, sender and status of each."""
    return [
        {"accession": order.accession, **(order.elsewhere or {})}
        for order in orders
        if order.elsewhere_since is not None
    ]


def mark_order(work: Work, identity: OrderKey, message: Mapping[str, Any]) -> Report:
    """
    Mark an order as reported elsewhere; `message` is {at, sender, status}.

    A signed report has no mark: the message may repeat its own result. Raise `report_not_found`,
    and `returned_to_unread` if a mark was removed whose message was not earlier.
    """
    found = lock_report(work, identity)
    report, order = found.report, found.order
    if report.status in SIGNED:
        return report
    known = order.elsewhere or {}
    at = int(message["at"])
    if known and at <= int(known["at"]):
        if order.elsewhere_since is None:
            raise EngineError(ErrorCode.RETURNED_TO_UNREAD)
        return report
    order.elsewhere_since, order.elsewhere = at, dict(message)
    _store(work, report, [order])
    change_feed.announce_order_update(work, report)
    return report


def unmark_order(work: Work, identity: OrderKey) -> Report:
    """Remove the mark of an order; raise `report_not_found`."""
    found = lock_report(work, identity)
    if found.order.elsewhere_since is not None:
        found.order.elsewhere_since = None
        _store(work, found.report, [found.order])
        change_feed.announce_order_update(work, found.report)
    return found.report


def unmark_report(work: Work, report: Report) -> None:
    """
    Remove the marks of all orders of a locked report, for a person.

    The change has the time of each removed mark, so that a reader of the feed knows a later one.
    """
    marked = {
        order.accession: order
        for order in orders_of(work.session, key_of(report))
        if order.elsewhere_since is not None
    }
    removed = {accession: order.elsewhere_since for accession, order in marked.items()}
    for order in marked.values():
        order.elsewhere_since = None
    if marked:
        _store(work, report, marked.values())
        change_feed.announce(work, report, ChangeEvent.ORDER_RETURNED, returned=removed)


def _store(work: Work, report: Report, orders: Iterable[ReportOrder]) -> None:
    for order in orders:
        order.updated_at = work.now
        work.session.add(order)
    mark_updated(work, report)
