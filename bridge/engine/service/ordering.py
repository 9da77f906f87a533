"""
Register orders (DESIGN chapter 6, registerOrder): empty, unassigned Ordered reports.

Many at a time, with as few statements as there are kinds of rows. Registering a known order
again changes the tags of an unsigned report, and nothing of a signed one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import insert

from bridge.engine.records.tables import Report, ReportOrder, metadata
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.status import SIGNED, Origin, Status
from bridge.engine.rules.tags import merged_tags, search_text
from bridge.engine.service.creation import OrderInput, update_order
from bridge.engine.service.finding import Found, follow_pointers, lock_orders
from bridge.engine.service.reading import StatusRecord
from bridge.engine.service.work import ChangeEvent, Work

REPORTS = metadata.tables[str(Report.__tablename__)]
ORDERS = metadata.tables[str(ReportOrder.__tablename__)]


class Registration(StrEnum):
    """What registering an order came to."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    SIGNED = "signed"  # the report is signed: nothing was changed


@dataclass(frozen=True, slots=True)
class Registered:
    """The outcome for one order, and where its report stands."""

    report_id: str
    status: Status
    outcome: Registration


def register(work: Work, site_id: str, order: OrderInput) -> Registered:
    """Register one order; raise Conflict (from the database) when another node was faster."""
    return register_many(work, site_id, [order])[0]


def register_many(work: Work, site_id: str, orders: Sequence[OrderInput]) -> list[Registered]:
    """Register orders of one site in their order; all of them or none."""
    pointers = follow_pointers(work.connection, site_id, (order.mrn for order in orders))
    triples = [
        Triple(site_id, pointers.get(order.mrn, order.mrn), order.accession) for order in orders
    ]
    done: dict[int, Registered] = {}
    for turn in _turns(triples):
        found = lock_orders(work, [triples[index] for index in turn], current=True)
        known = {index: each for index, each in zip(turn, found, strict=True) if each}
        done |= {index: _again(work, each, orders[index]) for index, each in known.items()}
        new = [index for index in turn if index not in known]
        created = _create(work, [triples[index] for index in new], [orders[i] for i in new])
        done |= dict(zip(new, created, strict=True))
    return [done[index] for index in range(len(orders))]


def _turns(triples: Sequence[Triple]) -> list[list[int]]:
    """Split into turns in which no order occurs twice; a repeat waits for the next turn."""
    turns: list[list[int]] = []
    seen: dict[Triple, int] = {}
    for index, triple in enumerate(triples):
        turn = seen.get(triple, 0)
        seen[triple] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(index)
    return turns


def _again(work: Work, found: Found, order: OrderInput) -> Registered:
    report = found.report
    if report.status in SIGNED:
        return Registered(report.report_id, report.status, Registration.SIGNED)
    changed = update_order(work, report, found.order, order, clears=True)
    outcome = Registration.UPDATED if changed else Registration.UNCHANGED
    return Registered(report.report_id, report.status, outcome)


def _create(
    work: Work, triples: Sequence[Triple], orders: Sequence[OrderInput]
) -> list[Registered]:
    if not triples:
        return []
    ids = [work.new_id() for _ in triples]
    reports = [
        _report_values(work, triple.site_id, report_id, order)
        for triple, report_id, order in zip(triples, ids, orders, strict=True)
    ]
    stored = work.connection.execute(
        insert(REPORTS).returning(REPORTS.c.report_id, REPORTS.c.pk), reports
    )
    keys = {row.report_id: row.pk for row in stored}
    rows = [
        _order_values(work, triple, order, keys[report_id])
        for triple, report_id, order in zip(triples, ids, orders, strict=True)
    ]
    work.connection.execute(insert(ORDERS), rows)
    for report_id, triple, row in zip(ids, triples, rows, strict=True):
        work.announce(
            triple.site_id, report_id, ChangeEvent.ORDER_REGISTERED, _body(report_id, triple, row)
        )
    return [Registered(each, Status.ORDERED, Registration.CREATED) for each in ids]


def _report_values(work: Work, site_id: str, report_id: str, order: OrderInput) -> dict[str, Any]:
    return {
        "report_id": report_id,
        "site_id": site_id,
        "status": Status.ORDERED,
        "origin": Origin.ORDER,
        "content_text": "",
        "key_findings": "",
        "reporting": dict(order.reporting),
        "version": 1,
        "created_at": work.now,
        "updated_at": work.now,
    }


def _order_values(work: Work, triple: Triple, order: OrderInput, report_pk: int) -> dict[str, Any]:
    tags = merged_tags({}, order.tags, clears=True)
    return {
        "report_pk": report_pk,
        "position": 0,
        "site_id": triple.site_id,
        "mrn": triple.mrn,
        "accession": triple.accession,
        "location": order.location,
        "tags": tags,
        "order_metadata": dict(order.metadata),
        "search": search_text(triple.mrn, triple.accession, tags),
        "created_at": work.now,
        "updated_at": work.now,
    }


def _body(report_id: str, triple: Triple, row: dict[str, Any]) -> dict[str, Any]:
    """Say what `feed.describe` would read back, without reading it back."""
    record = StatusRecord(report_id, Status.ORDERED, "", None, (triple,), False, None)
    order = {
        **row["tags"],
        "SiteID": triple.site_id,
        "SiteLocation": row["location"],
        "PatientMRN": triple.mrn,
        "Accession": triple.accession,
        "Metadata": row["order_metadata"],
    }
    return {"record": record.as_json(), "orders": [order], "release": None}
