"""
Bring reports into being, and change the tags of their orders.

One order a report at first; linking comes later. Whether a launch may do so is the launch's to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge.engine.records.tables import Report, ReportOrder
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.status import Origin, Status
from bridge.engine.rules.tags import merged_tags, search_text
from bridge.engine.service import feed
from bridge.engine.service.drafting import first_text
from bridge.engine.service.finding import key_of, stamp
from bridge.engine.service.work import ChangeEvent, Work


@dataclass(frozen=True, slots=True)
class OrderInput:
    """An order as a launch or an order message gives it; `tags` without identity and Metadata."""

    mrn: str = field(repr=False)
    accession: str = field(repr=False)
    location: str = ""
    tags: Mapping[str, Any] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    reporting: Mapping[str, Any] = field(default_factory=dict)

    def triple(self, site_id: str) -> Triple:
        """Return the order's identity on a site."""
        return Triple(site_id, self.mrn, self.accession)


def create_draft(
    work: Work,
    site_id: str,
    order: OrderInput,
    owner_id: int,
    key_findings: str = "",
    *,
    email: str | None = None,
) -> Report:
    """
    Create a Draft for a user, as a launch does; key findings become its first text.

    `email` is the user's, where it is known already.
    """
    report = Report(
        report_id=work.new_id(),
        site_id=site_id,
        status=Status.DRAFT,
        origin=Origin.LAUNCH,
        owner_id=owner_id,
        reporting=dict(order.reporting),
        created_at=work.now,
        updated_at=work.now,
    )
    first_text(work, report, key_findings)
    work.session.add(report)
    work.session.flush()
    row = order_row(work, site_id, order, key_of(report))
    work.session.add(row)
    feed.announce_new(work, report, row, ChangeEvent.REPORT_CREATED, email)
    return report


def create_ordered(work: Work, site_id: str, origin: Origin) -> Report:
    """Create an empty, unassigned Ordered report that has no order yet."""
    report = Report(
        report_id=work.new_id(),
        site_id=site_id,
        status=Status.ORDERED,
        origin=origin,
        created_at=work.now,
        updated_at=work.now,
    )
    work.session.add(report)
    work.session.flush()
    return report


def order_row(work: Work, site_id: str, order: OrderInput, report_pk: int) -> ReportOrder:
    """Make the row of a new order: the anchor of its report."""
    tags = merged_tags({}, order.tags, clears=True)
    return ReportOrder(
        report_pk=report_pk,
        site_id=site_id,
        mrn=order.mrn,
        accession=order.accession,
        location=order.location,
        tags=tags,
        order_metadata=dict(order.metadata),
        search=search_text(order.mrn, order.accession, tags),
        created_at=work.now,
        updated_at=work.now,
    )


def update_order(
    work: Work, report: Report, row: ReportOrder, order: OrderInput, *, clears: bool = False
) -> bool:
    """
    Change the tags of a locked, unsigned report's order; tell whether anything changed.

    Values win, empty ones are passed over or, with `clears`, remove what was known; Metadata
    grows by the keys given.
    """
    tags = merged_tags(row.tags, order.tags, clears=clears)
    metadata = {**row.order_metadata, **order.metadata}
    location = order.location or row.location
    if (tags, metadata, location) == (row.tags, row.order_metadata, row.location):
        return False
    row.tags, row.order_metadata, row.location = tags, metadata, location
    row.search = search_text(row.mrn, row.accession, tags)
    row.updated_at = work.now
    work.session.add(row)
    stamp(work, report)
    feed.announce(work, report, ChangeEvent.ORDER_UPDATED)
    return True
