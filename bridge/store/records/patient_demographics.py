"""What was last said of a patient's demographics, and when it was sent: orders that were sent
before say no more about her than that. Orders may come later than what corrects them, so it is
kept of everybody; of who has no orders, until it is old.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from sqlalchemy import Connection, text

from bridge.store.database import Database
from bridge.store.records.merged_patients import Patient
from bridge.store.records.message_time import UNKNOWN, MessageTime, stored
from bridge.store.statements import execute_keys, key_statement


@dataclass(frozen=True, slots=True)
class DemographicsUpdate:
    """
    A correction: whose, when it was sent, the tags that it gave.

    `sent_at` is the time of arrival, and `clock` is 0, where MSH-7 is not to be trusted.
    """

    site: str
    mrn: str
    sent_at: int
    tags: Mapping[str, str]
    clock: int = UNKNOWN

    @property
    def sent(self) -> MessageTime | None:
        """When it was sent, as it may be compared."""
        return stored(self.sent_at, self.clock)


_WORDS = key_statement(
    "SELECT mrn, said_at, said_by, tags FROM patient_word WHERE site = :site AND mrn IN :mrns",
    "mrns",
    "text",
)
_SAY = text(
    "INSERT INTO patient_word (site, mrn, said_at, said_by, tags) "
    "VALUES (:site, :mrn, :said_at, :said_by, :tags) ON CONFLICT (site, mrn) DO UPDATE "
    "SET said_at = :said_at, said_by = :said_by, tags = :tags WHERE patient_word.said_by = 0 "
    "OR patient_word.said_by / 4 <> :said_by / 4 OR patient_word.said_at <= :said_at"
)

_OLD = text("""
    SELECT site, mrn FROM patient_word AS w WHERE said_at < :before AND NOT EXISTS
        (SELECT 1 FROM bridge_order AS o WHERE o.site = w.site AND o.mrn = w.mrn)
    LIMIT :limit
""")
_FORGET = text("DELETE FROM patient_word WHERE site = :site AND mrn = :mrn AND said_at < :before")
_BATCH = 1000


def find(connection: Connection, patients: Iterable[Patient]) -> dict[Patient, DemographicsUpdate]:
    """Read the last word on each of these patients; of most there is none."""
    found: dict[Patient, DemographicsUpdate] = {}
    for site, own in groupby(sorted(set(patients)), key=itemgetter(0)):
        for row in execute_keys(connection, _WORDS, [mrn for _, mrn in own], site=site):
            found[site, row.mrn] = DemographicsUpdate(
                site, row.mrn, row.said_at, json.loads(row.tags), row.said_by
            )
    return found


def save(connection: Connection, word: DemographicsUpdate) -> None:
    """Keep a correction, unless one is known that was sent later by the same clock."""
    row = {"site": word.site, "mrn": word.mrn, "said_at": word.sent_at, "said_by": word.clock}
    connection.execute(_SAY, {**row, "tags": json.dumps(dict(word.tags))})


def forget(database: Database, before: int) -> int:
    """Forget what was said before a moment (ms) of patients without orders; give of how many."""
    gone = 0
    while True:
        with database.delete_without_sync() as connection:
            rows = connection.execute(_OLD, {"before": before, "limit": _BATCH}).all()
            old = [{"site": row.site, "mrn": row.mrn, "before": before} for row in rows]
            if old:
                connection.execute(_FORGET, old)
        gone += len(old)
        if len(old) < _BATCH:
            return gone
