"""
Compose one message: the report's export, the order's numbers and segments, the mapping.

Asks the report service and the order index; sends nothing.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from types import MappingProxyType

from sqlalchemy import Connection

from bridge.delivery.content import orders_of, texts_of
from bridge.delivery.destinations import Destination, control_id
from bridge.delivery.errors import Gone, NeverTold, NothingToSay, NotSigned, UnknownCode, Unsettled
from bridge.delivery.history import (
    FINISHED,
    Told,
    as_told,
    document_names,
    shown_before,
    since_cancelled,
    told_before,
)
from bridge.delivery.news import key_of
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import Export
from bridge.executors import Threads
from bridge.queue.deliveries import ClaimedDelivery
from bridge.store.database import Database
from bridge.store.records import merged_patients, order_index
from bridge.store.records.order_index import IndexedOrder, Key
from mappings.language.code_tables import Missed
from mappings.language.errors import CodeRefused
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import WITHDRAWALS, Format, ResultContext, ResultEvent, Shown

SILENT = frozenset({ResultEvent.RECALL, ResultEvent.ORDER_STATUS})
"""Events whose messages carry no text of the report."""

SIGNED = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM, ResultEvent.CORRECTION})
"""Events that must not be sent when the report turns out not to be signed."""

TAKES_BACK: Mapping[ResultEvent, frozenset[ResultEvent]] = MappingProxyType(
    {
        ResultEvent.CANCELLATION: frozenset({ResultEvent.PRELIMINARY}),
        ResultEvent.RETRACTION: SIGNED,
    }
)
"""What a receiver must have been told of before it is told that it does not stand."""

NO_READ = frozenset({"report_not_found", "prelim_read_not_found"})
"""What the report service says where a preliminary report is not there (any more)."""

_LOOKS = 3
"""How often a report is read until nothing changes between its text and its files."""


Missing = Callable[[str, str, Collection[Missed]], None]
"""Told of the codes of one message that a definition (its name, its version) has not."""


def unmoved(_name: str, _version: str, _missed: Collection[Missed]) -> None:
    """Count no codes."""


@dataclass(frozen=True, slots=True)
class Known:
    """
    What our own database knows: the orders as they came in, and what was told before.

    An order is found by accession alone where a merge has changed the MRN; `survivors` are the
    MRNs of such orders, by place, where the merge is known to be newer than what is delivery.
    """

    orders: list[IndexedOrder | None]
    told: list[Told]
    shown: tuple[Shown, ...] = ()
    survivors: Mapping[int, str] = field(default_factory=dict)


class Composer:
    """Composes for all destinations."""

    def __init__(
        self,
        client: EngineClient,
        database: Database,
        clock: Callable[[], datetime],
        missing: Missing = unmoved,
    ) -> None:
        """
        Take the report service, the bridge's database, and a clock with its zone.

        `missing` is told of codes that a definition's tables have not.
        """
        self._client = client
        self._database = database
        self._clock = clock
        self._missing = missing

    def look_up(
        self, deliveries: Sequence[ClaimedDelivery], destination: Destination
    ) -> dict[int, Known]:
        """Read what is known for deliveries, by their ids. Blocking; raises StoreError."""
        found: dict[int, Known] = {}
        with self._database.read() as connection:
            for each, orders in zip(deliveries, indexed(connection, deliveries), strict=True):
                told = told_before(connection, each)
                asks = told and in_sections(destination, ResultEvent(each.event))
                shown = shown_before(connection, each) if asks else ()
                found[each.delivery_id] = Known(
                    orders, told, shown, _survivors(connection, each, orders)
                )
        return found

    async def compose(
        self, delivery: ClaimedDelivery, known: Known, destination: Destination
    ) -> tuple[bytes, str]:
        """
        Give the message and its control id; `known` is what `look_up` found.

        Raises EngineFailure and CompositionError.
        """
        now, mapping = _due(delivery, known, destination)
        try:
            export, files = await self._export(
                delivery, now.event, destination, mapping.manner.formats, known.told
            )
        except EngineFailure as failure:
            if now.event is ResultEvent.PRELIMINARY and failure.code in NO_READ:
                raise Gone from None
            raise
        threads = Threads.HOOKS if mapping.takes_long else Threads.DELIVERY
        return await threads.run(self._written, delivery, known, destination, export, files)

    def _written(
        self,
        delivery: ClaimedDelivery,
        known: Known,
        destination: Destination,
        export: Export | None,
        files: Mapping[Format, bytes],
    ) -> tuple[bytes, str]:
        now, mapping = _due(delivery, known, destination)
        orders = delivery.orders["orders"]
        name = control_id(destination.name, delivery.release_key)
        missed: list[Missed] = []
        context = ResultContext(
            event=now.event,
            control_id=name,
            now=self._clock(),
            site=str(orders[0].get("SiteID", "")),
            orders=tuple(
                chain.from_iterable(
                    orders_of(tags, index, known.survivors.get(place, ""))
                    for place, (tags, index) in enumerate(zip(orders, known.orders, strict=True))
                )
            ),
            destination=dict(destination.fields),
            report_status=str(delivery.orders["status"]),
            time_zone=destination.time_zone,
            earlier=since_cancelled(known.told),
            files=files,
            shown=known.shown,
            document=document_names(delivery.report_id, delivery.release_key, [*known.told, now]),
            missed=missed,
            **texts_of(now.event, export, int(delivery.orders["addenda"])),
        )
        try:
            return mapping.render(context), name
        except CodeRefused as refused:
            raise UnknownCode(str(refused)) from None
        finally:
            if missed:
                self._missing(*mapping.identity, missed)

    async def _export(
        self,
        delivery: ClaimedDelivery,
        event: ResultEvent,
        destination: Destination,
        formats: Collection[Format],
        told: Sequence[Told],
    ) -> tuple[Export | None, dict[Format, bytes]]:
        """Read the report, and its files such that they say the same; a read as it was then."""
        if event in SILENT or event in WITHDRAWALS:
            return None, {}
        order, addenda = key_of(delivery.orders["orders"][0]), int(delivery.orders["addenda"])
        until = delivery.release_at if event is ResultEvent.PRELIMINARY else None
        export = await self._client.export_json(order, prelim_until=until)
        _check_signed(delivery, event, export, told)
        for _ in range(_LOOKS):
            files = {
                each: await self._file(each)(
                    order, destination.time_zone, addenda=addenda, prelim_until=until
                )
                for each in formats
            }
            if not files:
                return export, files
            before, export = export, await self._client.export_json(order, prelim_until=until)
            _check_signed(delivery, event, export, told)
            if before == export:
                return export, files
        raise Unsettled

    def _file(self, wanted: Format) -> Callable[..., Awaitable[bytes]]:
        return {Format.PDF: self._client.export_pdf, Format.RTF: self._client.export_rtf}[wanted]


def in_sections(destination: Destination, event: ResultEvent) -> bool:
    """Whether a receiver gets the text of an event in sections of their own."""
    mapping = None if event in SILENT else destination.mapping_for(event)
    return mapping is not None and bool(mapping.manner.layout.sections.codes)


def indexed(
    connection: Connection, deliveries: Sequence[ClaimedDelivery]
) -> list[list[IndexedOrder | None]]:
    """Read the orders of what is owed as they came in, for each; None where none did."""
    keys = [
        [Key(key.site, key.mrn, key.accession) for key in map(key_of, each.orders["orders"])]
        for each in deliveries
    ]
    found = order_index.find_told(connection, chain.from_iterable(keys))
    return [[found.get(key) for key in some] for some in keys]


def _due(
    delivery: ClaimedDelivery, known: Known, destination: Destination
) -> tuple[Told, OutboundMapping]:
    """Say what it is to this receiver now, and by which definition; raise CompositionError."""
    now = as_told(known.told, ResultEvent(delivery.event), delivery.release_key)
    mapping = destination.mapping_for(now.event)
    if mapping is None or not delivery.orders["orders"]:
        raise NothingToSay(delivery.event)
    told = since_cancelled(known.told)
    if now.event in TAKES_BACK and TAKES_BACK[now.event].isdisjoint(told):
        raise NeverTold
    return now, mapping


def _check_signed(
    delivery: ClaimedDelivery, event: ResultEvent, export: Export, told: Sequence[Told]
) -> None:
    """
    Raise NotSigned, or Gone: an addendum that was out before its report was recalled with it.

    The report's next signature is a release again, and so are its addenda. A preliminary report
    that has been signed says by now what only its release may tell: Gone as well.
    """
    signed = export.report.signed_at is not None
    if event is ResultEvent.PRELIMINARY and signed:
        raise Gone
    if event is ResultEvent.ADDENDUM and FINISHED.isdisjoint(each.event for each in told):
        if not signed or len(export.addenda) < int(delivery.orders["addenda"]):
            raise Gone
    elif event in SIGNED and not signed:
        raise NotSigned


def _survivors(
    connection: Connection, delivery: ClaimedDelivery, orders: Sequence[IndexedOrder | None]
) -> dict[int, str]:
    """Give the surviving MRN, by place, of orders whose patient was merged meanwhile."""
    keys = [key_of(each) for each in delivery.orders["orders"]]
    moved = {
        place: (key.site, key.mrn)
        for place, (key, order) in enumerate(zip(keys, orders, strict=True))
        if order is not None and order.key.mrn != key.mrn
    }
    if not moved:
        return {}
    found = merged_patients.survivors(connection, moved.values())
    return {
        place: found[patient]
        for place, patient in moved.items()
        if (order := orders[place]) is not None and found.get(patient) == order.key.mrn
    }
