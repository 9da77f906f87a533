"""Order tracking: what became of an order, from its messages to its deliveries, in time.

Reads the order index, the index of numbers and the outbox. Blocking.

Pure. Times in ms, None where none is kept; words are codes that the app puts into sentences.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select, text

from bridge.queue.listing_rows import DeliveryRow, MessageRow
from bridge.queue.queries import listed_delivery
from bridge.queue.statements import DELIVERY
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.records import merged_patients

_MOST = 100
_NEXT_SITE = text("SELECT min(site) FROM bridge_order WHERE site > :site")
_TOLD = """
    SELECT o.site, o.mrn, o.accession, o.state, o.placer, o.filler, o.report_id AS ordered_in,
           o.first_message, o.last_message, o.closed_at,
           s.report_id AS seen_in, s.status, s.addenda, s.changed_at
    FROM bridge_order o LEFT JOIN report_seen s
        ON s.site = o.site AND s.accession = o.accession AND s.mrn = o.mrn
"""
_ORDERS = text(f"{_TOLD} WHERE o.site = :site AND o.accession = :accession LIMIT :most")
_OF_PATIENT = text(
    f"{_TOLD} WHERE o.site = :site AND o.mrn = :mrn ORDER BY o.last_message DESC LIMIT :most"
)


def find_orders(
    database: Database, accessions: Collection[str], reach: Collection[str] | None = None
) -> list[dict[str, Any]]:
    """
    Give the orders with one of these accessions; `report_id` '' where none is.

    Of the sites within `reach`; None: of all.
    """
    with database.read() as connection:
        return [
            _told(row)
            for site in (_sites(connection) if reach is None else sorted(reach))
            for accession in sorted(accessions)
            for row in connection.execute(
                _ORDERS, {"site": site, "accession": accession, "most": _MOST}
            ).mappings()
        ]


def find_orders_of_patient(
    database: Database, mrn: str, reach: Collection[str] | None = None
) -> list[dict[str, Any]]:
    """Give a patient's orders, the last told of first; of whoever a merged patient is now."""
    with database.read() as connection:
        sites = _sites(connection) if reach is None else sorted(reach)
        now = merged_patients.survivors(connection, {(site, mrn) for site in sites})
        return [
            _told(row)
            for site in sites
            for own in sorted({mrn, now.get((site, mrn), mrn)})
            for row in connection.execute(
                _OF_PATIENT, {"site": site, "mrn": own, "most": _MOST}
            ).mappings()
        ]


def report_deliveries(database: Database, reports: Collection[str]) -> list[DeliveryRow]:
    """Give what was delivered, or is to be, of these reports: oldest first."""
    columns = [DELIVERY.c[name] for name in DeliveryRow.__slots__]
    statement = select(*columns).where(DELIVERY.c.report_id.in_(sorted(reports)))
    with database.read() as connection:
        rows = connection.execute(statement.order_by(DELIVERY.c.id).limit(_MOST)).mappings()
        return [listed_delivery(row) for row in rows]


def _sites(connection: Connection) -> Sequence[str]:
    """Step from site to site on the index: there are few, and many orders of each."""
    found: list[str] = []
    site = connection.execute(_NEXT_SITE, {"site": ""}).scalar()
    while site is not None:
        found.append(site)
        site = connection.execute(_NEXT_SITE, {"site": site}).scalar()
    return found


def _told(row: Any) -> dict[str, Any]:
    told = dict(row)
    seen, ordered = told.pop("seen_in"), told.pop("ordered_in")
    return {**told, "report_id": seen or ordered or ""}


Orders = Sequence[Mapping[str, Any]]
_OPEN = frozenset({QueueState.QUEUED, QueueState.CLAIMED})


def message_timeline(
    row: MessageRow,
    orders: Orders,
    sent: Iterable[DeliveryRow],
    edits: Iterable[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """Give the steps in the order in which they follow from each other."""
    return [
        *_made_of(row, edits),
        *_taken(row),
        *_made_into(row, edits),
        *_reported(orders),
        *(step for each in sent for step in _delivered(each)),
    ]


def order_timeline(
    messages: Iterable[MessageRow], orders: Orders, sent: Iterable[DeliveryRow]
) -> list[dict[str, Any]]:
    """Give the steps of all messages of an order, of its reports and deliveries, as they were."""
    steps = [
        *(step for each in messages for step in _taken(each)),
        *_reported(orders),
        *(step for each in sent for step in _delivered(each)),
    ]
    return sorted(steps, key=lambda step: (step["at"] is None, step["at"] or 0))


def _taken(row: MessageRow) -> Iterator[dict[str, Any]]:
    about = {"message": row.id}
    yield _step("received", row.received_at, name=row.listener, code=row.message_type, **about)
    told = {"name": row.acknowledgment.value, "code": row.ack_code}
    yield _step("acknowledged", row.received_at, **told, **about)
    yield _step(row.state.value, row.settled_at, code=row.code, count=row.attempts, **about)


def _made_of(row: MessageRow, edits: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in edits:
        if each["message_id"] == row.id:
            yield _step("edited", each["at"], name=each["email"], message=each["origin_id"])


def _made_into(row: MessageRow, edits: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in edits:
        if each["origin_id"] == row.id:
            yield _step("sent_again", each["at"], name=each["email"], message=each["message_id"])


def _reported(orders: Orders) -> Iterator[dict[str, Any]]:
    reports = {each["report_id"]: each for each in orders if each["report_id"]}
    for report, each in reports.items():
        yield _step("report", each["changed_at"], name=report, code=each["status"] or "")


def _delivered(row: DeliveryRow) -> Iterator[dict[str, Any]]:
    about = {"name": row.destination, "delivery": row.id}
    yield _step("composed", row.created_at, code=row.event, **about)
    if row.sent_at is not None:
        yield _step("sent", row.sent_at, count=row.attempts, **about)
    if row.acknowledged_at is not None:
        yield _step("accepted", row.acknowledged_at, **about)
    elif row.state not in _OPEN:
        yield _step(row.state.value, row.settled_at, code=row.code, **about)


def _step(kind: str, at: int | None, **about: Any) -> dict[str, Any]:
    step = {"kind": kind, "at": at, "name": "", "code": "", "count": 0}
    return {**step, "delivery": None, "message": None, **about}
