"""
The latest demographics of each patient, and when they were sent.

An order that was sent earlier must not overwrite them, and may arrive later than the correction. So
they are stored for all patients, and deleted after a time if a patient has no orders.
"""

import json
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from sqlalchemy import Connection, text

from bridge.orders.order import Patient
from bridge.orders.patients import DemographicsUpdate
from bridge.store.database import Database
from bridge.store.statements import execute_keys, key_statement

_FIND = key_statement(
    "SELECT mrn, sent_at, clock, tags FROM patient_demographics"
    " WHERE site = :site AND mrn IN :mrns",
    "mrns",
    "text",
)
_SAVE = text(
    "INSERT INTO patient_demographics (site, mrn, sent_at, clock, tags) "
    "VALUES (:site, :mrn, :sent_at, :clock, :tags) ON CONFLICT (site, mrn) DO UPDATE "
    "SET sent_at = :sent_at, clock = :clock, tags = :tags WHERE patient_demographics.clock = 0 "
    "OR patient_demographics.clock / 4 <> :clock / 4 OR patient_demographics.sent_at <= :sent_at"
)

_OLD = text("""
    SELECT site, mrn FROM patient_demographics AS w WHERE sent_at < :before AND NOT EXISTS
        (SELECT 1 FROM bridge_order AS o WHERE o.site = w.site AND o.mrn = w.mrn)
    LIMIT :limit
""")
_DELETE = text(
    "DELETE FROM patient_demographics WHERE site = :site AND mrn = :mrn AND sent_at < :before"
)
_BATCH = 1000


def find(connection: Connection, patients: Iterable[Patient]) -> dict[Patient, DemographicsUpdate]:
    """Return the latest update of each of these patients; most have none."""
    found: dict[Patient, DemographicsUpdate] = {}
    for site, own in groupby(sorted(set(patients)), key=itemgetter(0)):
        for row in execute_keys(connection, _FIND, [mrn for _, mrn in own], site=site):
            found[site, row.mrn] = DemographicsUpdate(
                site, row.mrn, row.sent_at, json.loads(row.tags), row.clock
            )
    return found


def save(connection: Connection, update: DemographicsUpdate) -> None:
    """Store an update unless one is stored that was sent later by the same clock."""
    row = {
        "site": update.site,
        "mrn": update.mrn,
        "sent_at": update.sent_at,
        "clock": update.clock,
    }
    connection.execute(_SAVE, {**row, "tags": json.dumps(dict(update.tags))})


def delete_old(database: Database, before: int) -> int:
    """Delete updates before a time (ms) of patients without orders; return the number."""
    deleted = 0
    while True:
        with database.delete_without_sync() as connection:
            rows = connection.execute(_OLD, {"before": before, "limit": _BATCH}).all()
            old = [{"site": row.site, "mrn": row.mrn, "before": before} for row in rows]
            if old:
                connection.execute(_DELETE, old)
        deleted += len(old)
        if len(old) < _BATCH:
            return deleted
