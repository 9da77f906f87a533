"""
Visits that moved to another patient or got another number.

Later orders may name the former visit. A row points from it to the current visit. Pointers never
chain.
"""

import json
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from sqlalchemy import Connection, text

from bridge.orders.order import Patient
from bridge.orders.visits import VisitReference, VisitTransfer
from bridge.store.database import Database
from bridge.store.statements import execute_keys, key_statement

# One statement for both, because each batch of messages needs them.
_FIND = key_statement(
    "SELECT prior_mrn, mrn, '' AS visit_key, '' AS prior_number, '' AS number, 0 AS sent_at,"
    " 0 AS clock, '' AS tags, '' AS echo FROM merged_patient"
    " WHERE site = :site AND prior_mrn IN :mrns"
    " UNION ALL SELECT prior_mrn, mrn, visit_key, prior_number, number, sent_at,"
    " clock, tags, echo FROM visit_transfer WHERE site = :site AND prior_mrn IN :mrns",
    "mrns",
    "text",
)
_MOVE_POINTERS = text(
    "UPDATE visit_transfer SET mrn = :mrn, number = :number, sent_at = :sent_at,"
    " clock = :clock, tags = :tags, echo = :echo WHERE site = :site AND mrn = :prior_mrn"
    " AND visit_key = :visit_key AND number = :prior_number"
    " AND (clock = 0 OR clock / 4 <> :clock / 4 OR sent_at <= :sent_at)"
)
_ADD_POINTER = text(
    "INSERT INTO visit_transfer"
    " (site, prior_mrn, visit_key, prior_number, mrn, number, sent_at, clock, tags, echo)"
    " VALUES (:site, :prior_mrn, :visit_key, :prior_number, :mrn, :number, :sent_at, :clock,"
    " :tags, :echo)"
    " ON CONFLICT (site, prior_mrn, visit_key, prior_number) DO UPDATE SET mrn = :mrn,"
    " number = :number, sent_at = :sent_at, clock = :clock, tags = :tags, echo = :echo"
    " WHERE visit_transfer.clock = 0 OR visit_transfer.clock / 4 <> :clock / 4"
    " OR visit_transfer.sent_at <= :sent_at"
)
_DELETE_SELF_POINTERS = text(
    "DELETE FROM visit_transfer WHERE site = :site AND prior_mrn = :mrn AND mrn = :mrn"
    " AND prior_number = number"
)
_MERGE_PATIENT = text(
    "UPDATE visit_transfer SET mrn = :mrn WHERE site = :site AND mrn = :prior_mrn"
)
_COPY_TO_SURVIVOR = text(
    "INSERT INTO visit_transfer"
    " (site, prior_mrn, visit_key, prior_number, mrn, number, sent_at, clock, tags, echo)"
    " SELECT site, :mrn, visit_key, prior_number, mrn, number, sent_at, clock, tags, echo"
    " FROM visit_transfer WHERE site = :site AND prior_mrn = :prior_mrn ON CONFLICT DO NOTHING"
)
_DELETE_OLD = text(
    "DELETE FROM visit_transfer WHERE sent_at < :before AND NOT EXISTS (SELECT 1 FROM bridge_order"
    " AS o WHERE o.site = visit_transfer.site AND o.mrn = visit_transfer.mrn)"
)


def find_merges_and_transfers(
    connection: Connection, patients: Iterable[Patient]
) -> tuple[dict[Patient, str], dict[VisitReference, VisitTransfer]]:
    survivors: dict[Patient, str] = {}
    moves: dict[VisitReference, VisitTransfer] = {}
    for site, own in groupby(sorted(set(patients)), key=itemgetter(0)):
        for row in execute_keys(connection, _FIND, [mrn for _, mrn in own], site=site):
            if not row.visit_key:
                survivors[site, row.prior_mrn] = row.mrn
                continue
            moves[VisitReference(site, row.prior_mrn, row.visit_key, row.prior_number)] = (
                VisitTransfer(
                    VisitReference(site, row.mrn, row.visit_key, row.number),
                    row.sent_at,
                    json.loads(row.tags),
                    tuple(json.loads(row.echo)),
                    row.clock,
                )
            )
    return survivors, moves


def add(connection: Connection, prior: VisitReference, transfer: VisitTransfer) -> None:
    """
    Add a transfer, and move all pointers to the prior visit.

    A visit that returns to where it was before loses its pointer. Of two transfers of one visit,
    the one that was sent later is stored if one clock timed both, else the one that arrived last.
    """
    if prior == transfer.now:
        return
    row = {
        "site": prior.site,
        "prior_mrn": prior.mrn,
        "visit_key": prior.key,
        "prior_number": prior.number,
        "mrn": transfer.now.mrn,
        "number": transfer.now.number,
        "sent_at": transfer.sent_at,
        "clock": transfer.clock,
        "tags": json.dumps(dict(transfer.tags)),
        "echo": json.dumps(transfer.echo),
    }
    connection.execute(_MOVE_POINTERS, row)
    connection.execute(_ADD_POINTER, row)
    connection.execute(_DELETE_SELF_POINTERS, {"site": prior.site, "mrn": transfer.now.mrn})


def merge(connection: Connection, site: str, prior_mrn: str, mrn: str) -> None:
    """Move the visits of a merged patient, and the pointers to them, to the survivor."""
    row = {"site": site, "prior_mrn": prior_mrn, "mrn": mrn}
    connection.execute(_MERGE_PATIENT, row)
    connection.execute(_COPY_TO_SURVIVOR, row)
    connection.execute(_DELETE_SELF_POINTERS, {"site": site, "mrn": mrn})


def delete_old(database: Database, before: int) -> None:
    """Delete transfers before a time (ms) of patients without orders."""
    with database.delete_without_sync() as connection:
        connection.execute(_DELETE_OLD, {"before": before})
