"""
Compose one message: the report's export, the order's numbers and segments, the mapping.

Asks the report service and the order index; sends nothing.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from bridge.delivery.announcing import key_of
from bridge.delivery.destinations import Destination, control_id
from bridge.delivery.errors import NothingToSay, NotSigned
from bridge.engine_client.models import Export, ExportedText, OrderKey, Person
from bridge.queue.deliveries import ClaimedDelivery
from bridge.store import order_index
from bridge.store.database import Database
from bridge.store.order_index import IndexedOrder, Key
from mappings.results import Addendum, ResultContext, ResultEvent, ResultOrder, Signer

SILENT = frozenset({ResultEvent.RECALL, ResultEvent.ORDER_STATUS})
"""Events whose messages carry no text of the report."""

SIGNED = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM, ResultEvent.CORRECTION})
"""Events that must not be sent when the report turns out not to be signed."""

WITHDRAWN = "This report has been withdrawn."
"""Stands for the text of a retracted report: what is in the editor by now is a draft."""


class Exporter(Protocol):
    """What is needed of the engine's client."""

    async def export_json(self, order: OrderKey) -> Export:
        """Export a report."""


class Composer:
    """Composes for all destinations."""

    def __init__(
        self, exporter: Exporter, database: Database, clock: Callable[[], datetime]
    ) -> None:
        """Take the report service, the bridge's database, and a clock with its zone."""
        self._exporter = exporter
        self._database = database
        self._clock = clock

    async def compose(
        self, delivery: ClaimedDelivery, destination: Destination
    ) -> tuple[bytes, str]:
        """
        Give the message and its control id.

        Raises EngineFailure, StoreError, NothingToSay and NotSigned.
        """
        event = ResultEvent(delivery.event)
        mapping = destination.mapping_for(event)
        orders = delivery.orders["orders"]
        if mapping is None or not orders:
            raise NothingToSay(delivery.event)
        export = None
        if event not in SILENT and event is not ResultEvent.RETRACTION:
            export = await self._exporter.export_json(key_of(orders[0]))
            if event in SIGNED and export.report.signed_at is None:
                raise NotSigned
        known = await asyncio.to_thread(self._known, orders)
        name = control_id(destination.name, delivery.release_key)
        context = ResultContext(
            event=event,
            control_id=name,
            now=self._clock(),
            site=str(orders[0].get("SiteID", "")),
            orders=tuple(_order(tags, index) for tags, index in zip(orders, known, strict=True)),
            destination=dict(destination.fields),
            report_status=str(delivery.orders["status"]),
            time_zone=destination.time_zone,
            **_texts(event, export, int(delivery.orders["addenda"])),
        )
        return mapping.render(context), name

    def _known(self, orders: Sequence[Mapping[str, Any]]) -> list[IndexedOrder | None]:
        """Find the orders as they came in; by accession alone where a merge changed the MRN."""
        keys = [Key(key.site, key.mrn, key.accession) for key in map(key_of, orders)]
        with self._database.read() as connection:
            found = order_index.find(connection, keys)
            return [
                found.get(key) or order_index.find_by_accession(connection, key.site, key.accession)
                for key in keys
            ]


def _order(tags: Mapping[str, Any], index: IndexedOrder | None) -> ResultOrder:
    """Join what the service says of an order with what its sender said; the service is newer."""
    said = dict(index.tags) if index else {}
    merged = {**said, **{tag: value for tag, value in tags.items() if value not in ("", None)}}
    metadata = merged.pop("Metadata", None) or {}
    return ResultOrder(
        tags={tag: str(value) for tag, value in merged.items()},
        metadata=metadata,
        placer=index.placer if index else "",
        filler=index.filler if index else "",
        echo=index.echo if index else (),
    )


def _texts(event: ResultEvent, export: Export | None, addenda: int) -> dict[str, Any]:
    if event is ResultEvent.RETRACTION:
        return {"report_text": WITHDRAWN}
    if export is None:
        return {}
    return {
        "report_text": export.report.content,
        "signed_at": _moment(export.report.signed_at),
        "signed_by": _signer(export.report.signed_by),
        "addenda": tuple(_addendum(each) for each in export.addenda[:addenda]),
    }


def _addendum(text: ExportedText) -> Addendum:
    return Addendum(text.content, _moment(text.signed_at), _signer(text.signed_by))


def _signer(person: Person | None) -> Signer:
    return Signer(person.name, person.email) if person else Signer()


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else None
