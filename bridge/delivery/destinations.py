"""
Destinations with their compiled mappings, and what a change of a report means for each. Pure.

The release keys and the control ids of messages are deterministic, so processing a change twice
queues nothing twice.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from bridge.contract import OrderKey, ReportStatus
from bridge.contract.responses import ChangeBody
from bridge.delivery.dicom_objects import DicomDocuments
from bridge.queue.deliveries import DeliveryRequest
from bridge.queue.states import RetryPolicy
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultEvent

EVERY_SITE = "*"

SUBSCRIBED_WITH: Mapping[ResultEvent, ResultEvent] = {
    ResultEvent.CORRECTION: ResultEvent.FINAL,
    ResultEvent.CANCELLATION: ResultEvent.PRELIMINARY,
    ResultEvent.RETRACTION: ResultEvent.ADDENDUM,
}
"""Events without a separate setting: a receiver of the second event also gets the first one."""

_CONTROL_ID_BYTES = 12  # 96 bits: 20 characters of base 32, the longest MSH-10 of HL7 v2.5.1


@dataclass(frozen=True, slots=True)
class CompiledDestination:
    """
    One receiver of results. The first of `mappings` that has a message for an event is used.

    `replies` overrides the default reply policy. `fields` are the values of `$destination.…` in
    the mapping. `retry` is the back-off of one result, and of the circuit breaker, which opens
    after `breaker_after` attempts in a row without a reply (0: never). `address` is for people.
    `documents` are the objects that a PACS gets, with the text of its mapping; None for HL7.
    """

    name: str
    mappings: tuple[OutboundMapping, ...]
    sites: frozenset[str] = frozenset({EVERY_SITE})
    events: frozenset[ResultEvent] = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM})
    replies: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    time_zone: str = "UTC"
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    breaker_after: int = 5
    address: str = ""
    documents: DicomDocuments | None = None

    def wants(self, site: str, event: ResultEvent) -> bool:
        has_site = EVERY_SITE in self.sites or site in self.sites
        return has_site and SUBSCRIBED_WITH.get(event, event) in self.events

    @property
    def combines_orders(self) -> bool:
        """Whether some message is about all orders of a report."""
        return any(mapping.combined for mapping in self.mappings)

    def mapping_for(self, event: ResultEvent) -> OutboundMapping | None:
        """Return the first mapping that has a message for an event."""
        return next((mapping for mapping in self.mappings if event in mapping.events), None)


def control_id(destination: str, release_key: str) -> str:
    """Derive MSH-10 from receiver and release, so that every repetition has the same one."""
    digest = blake2b(
        f"{destination}\x1f{release_key}".encode(), digest_size=_CONTROL_ID_BYTES
    ).digest()
    return base64.b32encode(digest).decode().rstrip("=")


RELEASE_EVENTS: Mapping[str, ResultEvent] = MappingProxyType(
    {
        "final": ResultEvent.FINAL,
        "addendum": ResultEvent.ADDENDUM,
        "retraction": ResultEvent.RETRACTION,
    }
)
"""Events by the kind of a release in the change feed."""

DELETED = "report_deleted"
RECALLED = "report_unsigned"
PRELIM_WITHDRAWN = "report_prelim_withdrawn"
CANCELLED = "Cancelled"
"""The key of a deleted report in the code tables of statuses."""
RESTORED = "restored"
"""The kind in the name of a preliminary event after a recall: a read that is valid again."""

PROGRESS_EVENTS: Mapping[str, tuple[ResultEvent, ...]] = MappingProxyType(
    {
        "report_prelimed": (ResultEvent.PRELIMINARY, ResultEvent.ORDER_STATUS),
        PRELIM_WITHDRAWN: (ResultEvent.CANCELLATION, ResultEvent.ORDER_STATUS),
        RECALLED: (ResultEvent.RECALL, ResultEvent.ORDER_STATUS),
        "report_created": (ResultEvent.ORDER_STATUS,),
        "report_opened": (ResultEvent.ORDER_STATUS,),
        "report_reset": (ResultEvent.CANCELLATION, ResultEvent.ORDER_STATUS),
        "report_unassigned": (ResultEvent.ORDER_STATUS,),
        "report_discarded": (ResultEvent.CANCELLATION, ResultEvent.ORDER_STATUS),
        DELETED: (ResultEvent.CANCELLATION, ResultEvent.ORDER_STATUS),
        "addendum_unsigned": (ResultEvent.ORDER_STATUS,),
    }
)
"""
Events by the changes in the feed that are not releases.

A signature has no event: it can be recalled during the sign delay. Its release follows.
"""


@dataclass(frozen=True, slots=True)
class ReportEvent:
    """
    An event of a report that destinations may receive.

    `name` is unique within the report. `addenda` is the number of released addenda. `orders` are
    the tags of its orders with Metadata, the anchor first. `at` is in ms. A destination that
    receives the event `implied_by` does not need this one.
    """

    event: ResultEvent
    report_id: str
    name: str
    status: str
    orders: Sequence[Mapping[str, Any]]
    addenda: int
    at: int
    implied_by: ResultEvent | None = None


def orders_of_change(change: ChangeBody) -> Sequence[Mapping[str, Any]]:
    """Return the tags of a change's orders, the anchor first: all tags if the change has them."""
    return change.orders or [key.tags() for key in change.record.orders]


def events_of_change(change: ChangeBody, addenda: int) -> list[ReportEvent]:
    """Return the events of a change; `addenda` is the number of addenda released before it."""
    orders = orders_of_change(change)
    report_id = change.record.report_id
    status = change.record.status.value
    if change.release is not None:
        event = RELEASE_EVENTS.get(change.release.kind)
        if event is None:
            return []
        released = _released_addenda(event, change.release.sequence, change.addenda, addenda)
        name = f"{change.release.kind}:{change.release.sequence}"
        return with_status_event(
            ReportEvent(event, report_id, name, status, orders, released, change.at)
        )
    status = _status_after(change)
    return [
        ReportEvent(event, report_id, name, status, orders, addenda, change.at)
        for event, name in named_progress(_progress(change), change.cursor)
        if status or event is not ResultEvent.ORDER_STATUS
    ]


def _progress(change: ChangeBody) -> tuple[ResultEvent, ...]:
    earlier_read = change.record.status is ReportStatus.PRELIMINARY
    if change.event == PRELIM_WITHDRAWN and earlier_read:
        return PROGRESS_EVENTS["report_prelimed"]  # an earlier read replaces the withdrawn one
    if change.event == RECALLED and earlier_read:
        return (*PROGRESS_EVENTS[RECALLED], ResultEvent.PRELIMINARY)
    return PROGRESS_EVENTS.get(change.event, ())


def named_progress(events: Sequence[ResultEvent], number: int) -> Iterator[tuple[ResultEvent, str]]:
    """Return the events of one change that is not a release, with their names."""
    for event in events:
        is_restored = event is ResultEvent.PRELIMINARY and ResultEvent.RECALL in events
        yield event, f"{RESTORED if is_restored else event}:{number}"


def _released_addenda(event: ResultEvent, sequence: int, position: int | None, before: int) -> int:
    """
    Return the number of released addenda after a release or a retraction.

    `position` is `ChangeBody.addenda`, if the feed has it.
    """
    if event is ResultEvent.ADDENDUM:
        return max(before, sequence if position is None else position)
    return position if event is ResultEvent.RETRACTION and position is not None else before


def _status_after(change: ChangeBody) -> str:
    """
    Return a report's status after a change; '' if no status follows from it.

    For a deleted report the feed has the record before the deletion. If the report had been begun,
    its order was cancelled. If not, the order may be on hold or moved, unless `cancelled` is set.
    """
    status = change.record.status
    if change.event != DELETED:
        return status.value
    begun = status is not ReportStatus.ORDERED
    return CANCELLED if begun or change.cancelled else ""


def with_status_event(report_event: ReportEvent) -> list[ReportEvent]:
    progress = replace(
        report_event,
        event=ResultEvent.ORDER_STATUS,
        name=f"{ResultEvent.ORDER_STATUS}:{report_event.name}",
        implied_by=report_event.event,
    )
    return [report_event, progress]


def plan_deliveries(
    events: Iterable[ReportEvent], destinations: Sequence[CompiledDestination]
) -> list[DeliveryRequest]:
    """Return the deliveries of events, in order: one per order unless the mapping combines them."""
    return [
        _delivery_request(event, destination, orders)
        for event in events
        for destination in destinations
        if _is_meant_for(event, destination)
        for orders in _split(event, destination)
    ]


def _is_meant_for(report_event: ReportEvent, destination: CompiledDestination) -> bool:
    if not report_event.orders:
        return False
    site = str(report_event.orders[0].get("SiteID", ""))
    implied = report_event.implied_by is not None and destination.wants(
        site, report_event.implied_by
    )
    return destination.wants(site, report_event.event) and not implied


def _split(
    report_event: ReportEvent, destination: CompiledDestination
) -> list[list[Mapping[str, Any]]]:
    mapping = destination.mapping_for(report_event.event)
    if mapping is None:
        return []
    if mapping.combined:
        return [list(report_event.orders)]
    return [[order] for order in report_event.orders]


def _delivery_request(
    report_event: ReportEvent, destination: CompiledDestination, orders: Sequence[Mapping[str, Any]]
) -> DeliveryRequest:
    content = {
        "orders": [dict(order) for order in orders],
        "status": report_event.status,
        "addenda": report_event.addenda,
    }
    fingerprint = _fingerprint(orders[0])
    orders_part = "all" if len(orders) > 1 else fingerprint
    return DeliveryRequest(
        order="" if destination.combines_orders else fingerprint,
        destination=destination.name,
        report_id=report_event.report_id,
        release_key=f"{report_event.report_id}:{report_event.name}:{orders_part}",
        event=report_event.event.value,
        release_at=report_event.at,
        orders=content,
    )


def _fingerprint(order: Mapping[str, Any]) -> str:
    """Identify an order of a report without its accession; independent of the MRN (merges)."""
    named = f"{order.get('SiteID', '')}\x1f{order.get('Accession', '')}".encode()
    return blake2b(named, digest_size=6).hexdigest()


def key_of(order: Mapping[str, Any]) -> OrderKey:
    return OrderKey(*(str(order.get(tag, "")) for tag in ("SiteID", "PatientMRN", "Accession")))
