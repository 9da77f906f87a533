"""
Compose one message: the report's export, the order's numbers and segments, the mapping.

Asks the report service, unless it has said it all before, and the order index; sends nothing.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any, Protocol

from sqlalchemy import Connection

from bridge.delivery.announcing import key_of
from bridge.delivery.destinations import Destination, control_id
from bridge.delivery.errors import Gone, NeverTold, NothingToSay, NotSigned, Unsettled
from bridge.delivery.history import Told, as_told, document_names, since_cancelled, told_before
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import Export, ExportedText, OrderKey, Person, Said
from bridge.queue.deliveries import ClaimedDelivery
from bridge.store import order_index
from bridge.store.database import Database
from bridge.store.order_index import IndexedOrder, Key
from mappings.outbound import OutboundMapping
from mappings.procedures import procedures_of
from mappings.results import (
    WITHDRAWALS,
    Addendum,
    Format,
    ResultContext,
    ResultEvent,
    ResultOrder,
    Signer,
)

SILENT = frozenset({ResultEvent.RECALL, ResultEvent.ORDER_STATUS})
"""Events whose messages carry no text of the report."""

SIGNED = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM, ResultEvent.CORRECTION})
"""Events that must not be sent when the report turns out not to be signed."""

WITHDRAWN = "This report has been withdrawn."
"""Stands for the text of a retracted report: what is in the editor by now is a draft."""

NO_REPORT = "report_not_found"
"""What the report service says of a report that is not there (any more)."""

_LOOKS = 3
"""How often a report is read until nothing changes between its text and its files."""


class Exporter(Protocol):
    """What is needed of the engine's client."""

    async def export_json(self, order: OrderKey) -> Export:
        """Export a report."""

    async def export_pdf(
        self, order: OrderKey, time_zone: str | None = None, *, addenda: int | None = None
    ) -> bytes:
        """Export a report with its first addenda as PDF."""

    async def export_rtf(
        self,
        order: OrderKey,
        time_zone: str | None = None,
        *,
        content_only: bool = False,
        addenda: int | None = None,
    ) -> bytes:
        """Export a report with its first addenda as RTF."""


class Owed(Protocol):
    """A delivery, queued or not: a `Release` or a `ClaimedDelivery`."""

    @property
    def report_id(self) -> str:
        """Whose report."""

    @property
    def release_key(self) -> str:
        """Its name within its destination."""

    @property
    def event(self) -> str:
        """What happened."""

    @property
    def orders(self) -> Any:
        """The orders with their tags, the status, and how many addenda are out."""


@dataclass(frozen=True, slots=True)
class Known:
    """
    What our own database knows: the orders as they came in, and what was told before.

    An order is found by accession alone where a merge has changed the MRN.
    """

    orders: list[IndexedOrder | None]
    told: list[Told]


class Composer:
    """Composes for all destinations."""

    def __init__(
        self, exporter: Exporter, database: Database, clock: Callable[[], datetime]
    ) -> None:
        """Take the report service, the bridge's database, and a clock with its zone."""
        self._exporter = exporter
        self._database = database
        self._clock = clock

    def look_up(self, deliveries: Sequence[ClaimedDelivery]) -> dict[int, Known]:
        """Read what is known for deliveries, by their ids. Blocking; raises StoreError."""
        with self._database.read() as connection:
            return {
                each.delivery_id: Known(orders, told_before(connection, each))
                for each, orders in zip(deliveries, indexed(connection, deliveries), strict=True)
            }

    async def compose(
        self, delivery: ClaimedDelivery, known: Known, destination: Destination
    ) -> tuple[bytes, str]:
        """
        Give the message and its control id; `known` is what `look_up` found.

        Raises EngineFailure and CompositionError.
        """
        now, mapping = _due(delivery, known, destination)
        export, files = await self._export(
            key_of(delivery.orders["orders"][0]),
            now.event,
            destination,
            mapping.manner.formats,
            int(delivery.orders["addenda"]),
        )
        return self._written(delivery, known, destination, export, files)

    def write(
        self, owed: Owed, known: Known, destination: Destination, said: Said
    ) -> tuple[bytes, str]:
        """As `compose`, of a text that is at hand; raises CompositionError."""
        now, mapping = _due(owed, known, destination)
        if mapping.manner.formats:
            raise Unsettled  # text and files must say the same: they are read together
        if now.event in SIGNED and said.report.signed_at is None:
            raise NotSigned
        return self._written(owed, known, destination, said, {})

    def _written(
        self,
        owed: Owed,
        known: Known,
        destination: Destination,
        said: Export | Said | None,
        files: Mapping[Format, bytes],
    ) -> tuple[bytes, str]:
        now, mapping = _due(owed, known, destination)
        orders = owed.orders["orders"]
        name = control_id(destination.name, owed.release_key)
        context = ResultContext(
            event=now.event,
            control_id=name,
            now=self._clock(),
            site=str(orders[0].get("SiteID", "")),
            orders=tuple(chain.from_iterable(map(_orders, orders, known.orders))),
            destination=dict(destination.fields),
            report_status=str(owed.orders["status"]),
            time_zone=destination.time_zone,
            earlier=since_cancelled(known.told),
            files=files,
            document=document_names(owed.report_id, owed.release_key, [*known.told, now]),
            **_texts(now.event, said, int(owed.orders["addenda"])),
        )
        return mapping.render(context), name

    async def _export(
        self,
        order: OrderKey,
        event: ResultEvent,
        destination: Destination,
        formats: Collection[Format],
        addenda: int,
    ) -> tuple[Export | None, dict[Format, bytes]]:
        """Read the report, and its files such that they say the same."""
        if event in SILENT or event in WITHDRAWALS:
            return None, {}
        export = await self._read(order, event)
        for _ in range(_LOOKS):
            files = {
                each: await self._file(order, each, destination.time_zone, addenda)
                for each in formats
            }
            before, export = export, await self._read(order, event) if files else export
            if before == export:
                return export, files
        raise Unsettled

    async def _read(self, order: OrderKey, event: ResultEvent) -> Export:
        try:
            export = await self._exporter.export_json(order)
        except EngineFailure as failure:
            if event is ResultEvent.PRELIMINARY and failure.code == NO_REPORT:
                raise Gone from None
            raise
        if event in SIGNED and export.report.signed_at is None:
            raise NotSigned
        return export

    async def _file(self, order: OrderKey, wanted: Format, zone: str, addenda: int) -> bytes:
        if wanted is Format.PDF:
            return await self._exporter.export_pdf(order, zone, addenda=addenda)
        return await self._exporter.export_rtf(order, zone, addenda=addenda)


def indexed(connection: Connection, owed: Sequence[Owed]) -> list[list[IndexedOrder | None]]:
    """Read the orders of what is owed as they came in, for each; None where none did."""
    keys = [
        [Key(key.site, key.mrn, key.accession) for key in map(key_of, each.orders["orders"])]
        for each in owed
    ]
    found = order_index.find(connection, chain.from_iterable(keys))
    return [
        [
            found.get(key) or order_index.find_by_accession(connection, key.site, key.accession)
            for key in some
        ]
        for some in keys
    ]


def _due(owed: Owed, known: Known, destination: Destination) -> tuple[Told, OutboundMapping]:
    """Say what it is to this receiver now, and by which definition; raise CompositionError."""
    now = as_told(known.told, ResultEvent(owed.event), owed.release_key)
    mapping = destination.mapping_for(now.event)
    if mapping is None or not owed.orders["orders"]:
        raise NothingToSay(owed.event)
    told = since_cancelled(known.told)
    if now.event is ResultEvent.CANCELLATION and ResultEvent.PRELIMINARY not in told:
        raise NeverTold
    return now, mapping


def _orders(tags: Mapping[str, Any], index: IndexedOrder | None) -> list[ResultOrder]:
    """
    Join what the service says of an order with what its sender said; the service is newer.

    An order of several procedures answers for each of them.
    """
    said = dict(index.tags) if index else {}
    merged = {**said, **{tag: value for tag, value in tags.items() if value not in ("", None)}}
    metadata = merged.pop("Metadata", None) or {}
    order = ResultOrder(
        tags={tag: str(value) for tag, value in merged.items()},
        metadata=metadata,
        placer=index.placer if index else "",
        filler=index.filler if index else "",
        echo=index.echo if index else (),
    )
    head, parts = procedures_of(order.echo, "")
    if not parts:
        return [order]
    first, *others = [replace(order, echo=(*head, *each.lines)) for each in parts]
    return [first, *(replace(each, placer="", filler="") for each in others)]


def _texts(event: ResultEvent, export: Export | Said | None, addenda: int) -> dict[str, Any]:
    if event in WITHDRAWALS:
        return {"report_text": WITHDRAWN, "addenda": (Addendum(WITHDRAWN),) * addenda}
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
