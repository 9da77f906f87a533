"""
Take an order off the worklist, or out of its group, without ever destroying what was dictated.

Asks the report service first; what cannot be undone there is kept, and the note says so.
"""

from collections.abc import Sequence
from typing import Protocol

from bridge.contract import ReportStatus
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import OrderKey, StatusRecord

BAD_REQUEST = 400
NOT_FOUND = 404
NOTHING = "nothing_to_withdraw"
"""The note of an order that has no report."""

MOST = 500
"""Orders in one status query: what our own engine takes."""
REFUSED = frozenset({BAD_REQUEST, NOT_FOUND})
"""Statuses by which the service says that a group cannot be changed (any more)."""


class ReportService(Protocol):
    """What is needed of the engine's client."""

    async def status(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Read the reports of orders."""

    async def unlink_orders(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Take orders out of their groups."""

    async def link_orders(self, orders: Sequence[OrderKey]) -> tuple[StatusRecord, ...]:
        """Make one report of several orders."""

    async def content(self, order: OrderKey) -> str:
        """Read a report's text."""

    async def delete(
        self, order: OrderKey, *, only_ordered: bool = False, set_aside: bool = False
    ) -> None:
        """Delete an unsigned report."""


async def reports_of(
    service: ReportService, orders: Sequence[OrderKey]
) -> tuple[StatusRecord, ...]:
    """Read the reports of orders, each once; those that do not exist are absent."""
    found: dict[str, StatusRecord] = {}
    for start in range(0, len(orders), MOST):
        try:
            records = await service.status(orders[start : start + MOST])
        except EngineFailure as failure:
            if failure.status == NOT_FOUND and not failure.is_unsupported:
                continue
            raise
        found |= {each.report_id: each for each in records}
    return tuple(found.values())


async def detach(service: ReportService, order: OrderKey) -> tuple[StatusRecord | None, str]:
    """
    Take an order out of its group, if it is in one.

    Gives its report as it is then (None: there is none) and a note ('' when nothing was to
    be done).
    """
    record = _holding(order, await reports_of(service, [order]))
    if record is None or len(record.orders) == 1:
        return record, ""
    try:
        records = await service.unlink_orders([order])
    except EngineFailure as failure:
        if failure.status not in REFUSED:
            raise
        return record, "still_linked"
    return _holding(order, records), "unlinked"


async def withdraw(
    service: ReportService, order: OrderKey, *, cancelled: bool = False
) -> list[str]:
    """
    Delete an order's report if it is Ordered and empty; give the notes.

    Receivers of status messages are told that it was `cancelled`; otherwise nothing.
    """
    record, note = await detach(service, order)
    notes = [note] if note else []
    if record is None:
        return [*notes, NOTHING]
    if len(record.orders) > 1 or not await _is_empty(service, order, record):
        return [*notes, "report_kept"]
    try:
        # It may have been opened meanwhile.
        await service.delete(order, only_ordered=True, set_aside=not cancelled)
    except EngineFailure as failure:
        if failure.status not in REFUSED:
            raise
        return [*notes, "report_kept" if failure.status == BAD_REQUEST else NOTHING]
    return [*notes, "withdrawn"]


async def _is_empty(service: ReportService, order: OrderKey, record: StatusRecord) -> bool:
    if record.status is not ReportStatus.ORDERED:
        return False
    if record.has_content is not None:
        return not record.has_content
    return not await service.content(order)  # a service that does not say has to be asked


def _holding(order: OrderKey, records: Sequence[StatusRecord]) -> StatusRecord | None:
    """Find the report that an order is in; the key may be resolved to a survivor's."""
    for record in records:
        if order in record.orders:
            return record
    accession = [r for r in records if any(k.accession == order.accession for k in r.orders)]
    return accession[0] if len(accession) == 1 else None
