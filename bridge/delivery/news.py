"""
What a change of a report means for each destination: which deliveries, under which names.

Pure. The names are deterministic, so that processing a change twice queues nothing twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from bridge.contract import ReportStatus
from bridge.delivery.destinations import Destination
from bridge.engine_client.models import Change, OrderKey
from bridge.queue.deliveries import DeliveryRequest
from mappings.outbound.results import ResultEvent

KINDS: Mapping[str, ResultEvent] = MappingProxyType(
    {
        "final": ResultEvent.FINAL,
        "addendum": ResultEvent.ADDENDUM,
        "retraction": ResultEvent.RETRACTION,
    }
)
"""Releases of the change feed."""

DELETED = "report_deleted"
PRELIM_WITHDRAWN = "report_prelim_withdrawn"
CANCELLED = "Cancelled"
"""What the code tables of statuses call a report that is gone."""

PROGRESS: Mapping[str, tuple[ResultEvent, ...]] = MappingProxyType(
    {
        "report_prelimed": (ResultEvent.PRELIMINARY, ResultEvent.ORDER_STATUS),
        PRELIM_WITHDRAWN: (ResultEvent.CANCELLATION, ResultEvent.ORDER_STATUS),
        "report_unsigned": (ResultEvent.RECALL, ResultEvent.ORDER_STATUS),
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
Events of the change feed that are progress and no release.

Signing is not among them: inside the sign delay nothing may sound final. Its release tells.
"""


@dataclass(frozen=True, slots=True)
class News:
    """
    Something to tell of a report.

    `name` is unique within the report; `addenda` says how many of its addenda are out by
    now; `orders` are all tags of its orders with Metadata, anchor first; `at` in ms.
    `unless` names the event whose own message makes this one superfluous.
    """

    event: ResultEvent
    report_id: str
    name: str
    status: str
    orders: Sequence[Mapping[str, Any]]
    addenda: int
    at: int
    unless: ResultEvent | None = None


def orders_of(change: Change) -> Sequence[Mapping[str, Any]]:
    """Give the tags of a change's orders, anchor first: all of them, where it says them."""
    return change.orders or [key.tags() for key in change.record.orders]


def news_of(change: Change, addenda: int) -> list[News]:
    """Read a change of the feed; `addenda` is how many were out before it."""
    orders = orders_of(change)
    common = (change.record.report_id,)
    status = change.record.status.value
    if change.release is not None:
        event = KINDS.get(change.release.kind)
        if event is None:
            return []
        out = _out(event, change.release.sequence, change.addenda, addenda)
        name = f"{change.release.kind}:{change.release.sequence}"
        return released(News(event, *common, name, status, orders, out, change.at))
    status = _status_after(change)
    return [
        News(event, *common, f"{event}:{change.cursor}", status, orders, addenda, change.at)
        for event in _progress(change)
        if status or event is not ResultEvent.ORDER_STATUS
    ]


def _progress(change: Change) -> tuple[ResultEvent, ...]:
    """Give the events of a change that is no release."""
    earlier_read = change.record.status is ReportStatus.PRELIMINARY
    if change.event == PRELIM_WITHDRAWN and earlier_read:
        return PROGRESS["report_prelimed"]  # its text replaces the text that was withdrawn
    return PROGRESS.get(change.event, ())


def _out(event: ResultEvent, sequence: int, place: int | None, before: int) -> int:
    """Say how many addenda are out: with the one released, or up to the one withdrawn."""
    if event is ResultEvent.ADDENDUM:
        return max(before, sequence if place is None else place)
    return place if event is ResultEvent.RETRACTION and place is not None else before


def _status_after(change: Change) -> str:
    """
    Give a report's status after a change; '' where there is nothing to say of it.

    The feed's record of a deleted report is of before. One that was begun was cancelled; one that
    nobody had opened may be held or have moved, so that the feed has to say so.
    """
    status = change.record.status
    if change.event != DELETED:
        return status.value
    begun = status is not ReportStatus.ORDERED
    return CANCELLED if begun or change.cancelled else ""


def released(news: News) -> list[News]:
    """Tell of a release, or at least of the status, whoever listens to that only."""
    progress = replace(
        news,
        event=ResultEvent.ORDER_STATUS,
        name=f"{ResultEvent.ORDER_STATUS}:{news.name}",
        unless=news.event,
    )
    return [news, progress]


def deliveries(news: Iterable[News], destinations: Sequence[Destination]) -> list[DeliveryRequest]:
    """Name what has to be delivered, in order: one an order, unless its mapping combines them."""
    return [
        _release(each, destination, orders)
        for each in news
        for destination in destinations
        if _concerns(each, destination)
        for orders in _split(each, destination)
    ]


def _concerns(news: News, destination: Destination) -> bool:
    if not news.orders:
        return False
    site = str(news.orders[0].get("SiteID", ""))
    told_anyway = news.unless is not None and destination.wants(site, news.unless)
    return destination.wants(site, news.event) and not told_anyway


def _split(news: News, destination: Destination) -> list[list[Mapping[str, Any]]]:
    mapping = destination.mapping_for(news.event)
    if mapping is None:
        return []
    if mapping.combined:
        return [list(news.orders)]
    return [[order] for order in news.orders]


def _release(
    news: News, destination: Destination, orders: Sequence[Mapping[str, Any]]
) -> DeliveryRequest:
    content = {
        "orders": [dict(order) for order in orders],
        "status": news.status,
        "addenda": news.addenda,
    }
    which = "all" if len(orders) > 1 else _fingerprint(orders[0])
    return DeliveryRequest(
        destination=destination.name,
        report_id=news.report_id,
        release_key=f"{news.report_id}:{news.name}:{which}",
        event=news.event.value,
        release_at=news.at,
        orders=content,
    )


def _fingerprint(order: Mapping[str, Any]) -> str:
    """Tell the orders of a report apart without naming them; a merge changes the MRN only."""
    named = f"{order.get('SiteID', '')}\x1f{order.get('Accession', '')}".encode()
    return blake2b(named, digest_size=6).hexdigest()


def key_of(order: Mapping[str, Any]) -> OrderKey:
    """Give the triple of an order's tags."""
    return OrderKey(*(str(order.get(tag, "")) for tag in ("SiteID", "PatientMRN", "Accession")))
