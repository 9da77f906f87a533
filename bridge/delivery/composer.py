"""
Compose one message: what our database knows of its orders, the report's text, the mapping.

Reads the order index and the deliveries. `report_texts` reads the report service; nothing is sent.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection

from bridge.delivery.destinations import Destination, control_id
from bridge.delivery.errors import NeverTold, NothingToSay, UnknownCode
from bridge.delivery.history import (
    Told,
    as_told,
    document_names,
    shown_before,
    since_cancelled,
    told_before,
)
from bridge.delivery.news import key_of
from bridge.engine_client.models import Export, ExportedText, Person
from bridge.queue.deliveries import ClaimedDelivery
from bridge.store.database import Database
from bridge.store.records import merged_patients, order_index
from bridge.store.records.order_index import IndexedOrder, OrderIndexKey
from mappings.inbound.procedures import split_procedures
from mappings.language.code_tables import UnmappedCode
from mappings.language.errors import CodeRefused
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import (
    WITHDRAWALS,
    FileFormat,
    ResultContext,
    ResultEvent,
    ResultOrder,
    SentSection,
    SignedAddendum,
    Signer,
)

SILENT = frozenset({ResultEvent.RECALL, ResultEvent.ORDER_STATUS})
"""Events whose messages carry no text of the report."""

TAKES_BACK: Mapping[ResultEvent, frozenset[ResultEvent]] = MappingProxyType(
    {
        ResultEvent.CANCELLATION: frozenset({ResultEvent.PRELIMINARY}),
        ResultEvent.RETRACTION: frozenset(
            {ResultEvent.FINAL, ResultEvent.ADDENDUM, ResultEvent.CORRECTION}
        ),
    }
)
"""What a receiver must have been told of before it is told that it does not stand."""

IDENTITY = ("PatientName", "PatientBirthDate", "PatientSex", "PatientAge", "Race", "Ethnicity")
"""What a merge says anew of a patient, beside the MRN."""

WITHDRAWN = "This report has been withdrawn."
"""Stands for the text of a retracted report: what is in the editor by now is a draft."""

Missing = Callable[[str, str, Collection[UnmappedCode]], None]
"""Told of the codes of one message that a definition (its name, its version) has not."""


def unmoved(_name: str, _version: str, _missed: Collection[UnmappedCode]) -> None:
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
    shown: tuple[SentSection, ...] = ()
    survivors: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to be: its delivery, its event for this receiver, and the definition to use."""

    delivery: ClaimedDelivery
    known: Known
    now: Told
    mapping: OutboundMapping
    destination: Destination

    @property
    def event(self) -> ResultEvent:
        """The event as this receiver is told of it."""
        return self.now.event

    @property
    def addenda(self) -> int:
        """How many addenda were out with this release."""
        return int(self.delivery.orders["addenda"])

    @property
    def time_zone(self) -> str:
        """The IANA zone of the receiver's times."""
        return self.destination.time_zone


class Composer:
    """Composes for all destinations."""

    def __init__(
        self, database: Database, clock: Callable[[], datetime], missing: Missing = unmoved
    ) -> None:
        """
        Take the bridge's database, and a clock with its zone.

        `missing` is told of codes that a definition's tables have not.
        """
        self._database = database
        self._clock = clock
        self._missing = missing

    def look_up(
        self, deliveries: Sequence[ClaimedDelivery], destination: Destination
    ) -> dict[int, Known]:
        """Read what is known for deliveries, by their ids. Blocking; raises StoreError."""
        found: dict[int, Known] = {}
        with self._database.read_committed() as connection:
            told_of = told_before(connection, deliveries, destination.name)
            for each, orders in zip(deliveries, indexed(connection, deliveries), strict=True):
                told = told_of[each.delivery_id]
                asks = told and in_sections(destination, ResultEvent(each.event))
                shown = shown_before(connection, each) if asks else ()
                survivors = _survivors(connection, each, orders)
                found[each.delivery_id] = Known(orders, told, shown, survivors)
        return found

    def write(
        self, draft: Draft, export: Export | None, files: Mapping[FileFormat, bytes]
    ) -> tuple[bytes, str]:
        """Give the message and its control id. Blocking; raises CompositionError."""
        delivery, known, destination = draft.delivery, draft.known, draft.destination
        orders = delivery.orders["orders"]
        name = control_id(destination.name, delivery.release_key)
        told = [*known.told, draft.now]
        missed: list[UnmappedCode] = []
        context = ResultContext(
            event=draft.event,
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
            document=document_names(delivery.report_id, delivery.release_key, told),
            missed=missed,
            **texts_of(draft.event, export, draft.addenda),
        )
        try:
            return draft.mapping.render(context), name
        except CodeRefused as refused:
            raise UnknownCode(str(refused)) from None
        finally:
            if missed:
                self._missing(*draft.mapping.identity, missed)


def draft_of(delivery: ClaimedDelivery, known: Known, destination: Destination) -> Draft:
    """Say what a delivery is to its receiver now, and by which definition; CompositionError."""
    now = as_told(known.told, ResultEvent(delivery.event), delivery.release_key)
    mapping = destination.mapping_for(now.event)
    if mapping is None or not delivery.orders["orders"]:
        raise NothingToSay(delivery.event)
    told = since_cancelled(known.told)
    if now.event in TAKES_BACK and TAKES_BACK[now.event].isdisjoint(told):
        raise NeverTold
    return Draft(delivery, known, now, mapping, destination)


def in_sections(destination: Destination, event: ResultEvent) -> bool:
    """Whether a receiver gets the text of an event in sections of their own."""
    mapping = None if event in SILENT else destination.mapping_for(event)
    return mapping is not None and bool(mapping.style.layout.sections.codes)


def indexed(
    connection: Connection, deliveries: Sequence[ClaimedDelivery]
) -> list[list[IndexedOrder | None]]:
    """Read the orders of what is owed as they came in, for each; None where none did."""
    keys = [
        [
            OrderIndexKey(key.site, key.mrn, key.accession)
            for key in map(key_of, each.orders["orders"])
        ]
        for each in deliveries
    ]
    found = order_index.find_for_delivery(connection, chain.from_iterable(keys))
    return [[found.get(key) for key in some] for some in keys]


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


def orders_of(
    tags: Mapping[str, Any], index: IndexedOrder | None, survivor: str = ""
) -> list[ResultOrder]:
    """
    Join what the service says of an order with what its sender said; the service is newer.

    But for who the patient is, where she was merged since: `survivor` is her MRN then. An order of
    several procedures answers for each of them.
    """
    said = dict(index.tags) if index else {}
    joined = {**said, **{tag: value for tag, value in tags.items() if value not in ("", None)}}
    if survivor:
        joined |= {tag: said[tag] for tag in IDENTITY if said.get(tag)} | {"PatientMRN": survivor}
    metadata = joined.pop("Metadata", None) or {}
    order = ResultOrder(
        tags={tag: str(value) for tag, value in joined.items()},
        metadata=metadata,
        placer=index.placer if index else "",
        filler=index.filler if index else "",
        echo=index.echo if index else (),
    )
    head, parts = split_procedures(order.echo, "")
    if not parts:
        return [order]
    first, *others = [replace(order, echo=(*head, *each.lines)) for each in parts]
    return [first, *(replace(each, placer="", filler="") for each in others)]


def texts_of(event: ResultEvent, export: Export | None, addenda: int) -> dict[str, Any]:
    """Give the text, its signer and so many of its addenda; of a withdrawal what it says."""
    if event in WITHDRAWALS:
        return {"report_text": WITHDRAWN, "addenda": (SignedAddendum(WITHDRAWN),) * addenda}
    if export is None:
        return {}
    return {
        "report_text": export.report.content,
        "signed_at": _moment(export.report.signed_at),
        "signed_by": _signer(export.report.signed_by),
        "addenda": tuple(_addendum(each) for each in export.addenda[:addenda]),
    }


def _addendum(text: ExportedText) -> SignedAddendum:
    return SignedAddendum(text.content, _moment(text.signed_at), _signer(text.signed_by))


def _signer(person: Person | None) -> Signer:
    return Signer(person.name, person.email) if person else Signer()


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else None
