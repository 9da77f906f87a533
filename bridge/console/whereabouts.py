"""
"Where is it": what became of an order, from its messages to what was delivered of its report.

Reads the order index, the index of numbers and the outbox. Blocking.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, select, text

from bridge.queue.browse import listed_delivery
from bridge.queue.rows import DeliveryRow
from bridge.queue.tables import DELIVERY
from bridge.store import merged_patients
from bridge.store.database import Database

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


def orders(
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


def orders_of_patient(
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


def deliveries(database: Database, reports: Collection[str]) -> list[DeliveryRow]:
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
