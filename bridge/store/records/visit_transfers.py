"""Which visits moved to another patient, or got another number: orders that come later may name
what they were before. Pointers never chain. Knows no orders.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from sqlalchemy import Connection, text

from bridge.store.database import Database
from bridge.store.records.merged_patients import Patient
from bridge.store.records.message_time import UNKNOWN, MessageTime, stored
from bridge.store.statements import execute_keys, key_statement


class VisitReference(NamedTuple):
    """A visit as orders name it: SiteID, PatientMRN, the key in Metadata, the number there."""

    site: str
    mrn: str
    key: str
    number: str


@dataclass(frozen=True, slots=True)
class VisitTransfer:
    """
    Where a visit is now, and when the move was sent.

    `tags` and `echo` are the demographics and the segments that said whose it is. `sent_at` is the
    time of arrival, and `clock` is 0, where MSH-7 is not to be trusted.
    """

    now: VisitReference
    sent_at: int
    tags: Mapping[str, str] = field(default_factory=dict)
    echo: tuple[str, ...] = ()
    clock: int = UNKNOWN

    @property
    def sent(self) -> MessageTime | None:
        """When the move was sent, as it may be compared."""
        return stored(self.sent_at, self.clock)


VisitTransfers = Mapping[VisitReference, VisitTransfer]

# One statement for both: every batch of messages asks for them.
_WHEREABOUTS = key_statement(
    "SELECT prior_mrn, mrn, '' AS visit_key, '' AS prior_number, '' AS number, 0 AS said_at,"
    " 0 AS said_by, '' AS tags, '' AS echo FROM merged_patient"
    " WHERE site = :site AND prior_mrn IN :mrns"
    " UNION ALL SELECT prior_mrn, mrn, visit_key, prior_number, number, said_at,"
    " said_by, tags, echo FROM moved_visit WHERE site = :site AND prior_mrn IN :mrns",
    "mrns",
    "text",
)
_FOLLOW = text(
    "UPDATE moved_visit SET mrn = :mrn, number = :number, said_at = :said_at,"
    " said_by = :said_by, tags = :tags, echo = :echo WHERE site = :site AND mrn = :prior_mrn"
    " AND visit_key = :visit_key AND number = :prior_number"
    " AND (said_by = 0 OR said_by / 4 <> :said_by / 4 OR said_at <= :said_at)"
)
_POINT = text(
    "INSERT INTO moved_visit"
    " (site, prior_mrn, visit_key, prior_number, mrn, number, said_at, said_by, tags, echo)"
    " VALUES (:site, :prior_mrn, :visit_key, :prior_number, :mrn, :number, :said_at, :said_by,"
    " :tags, :echo)"
    " ON CONFLICT (site, prior_mrn, visit_key, prior_number) DO UPDATE SET mrn = :mrn,"
    " number = :number, said_at = :said_at, said_by = :said_by, tags = :tags, echo = :echo"
    " WHERE moved_visit.said_by = 0 OR moved_visit.said_by / 4 <> :said_by / 4"
    " OR moved_visit.said_at <= :said_at"
)
_STAYS = text(
    "DELETE FROM moved_visit WHERE site = :site AND prior_mrn = :mrn AND mrn = :mrn"
    " AND prior_number = number"
)
_MERGE = text("UPDATE moved_visit SET mrn = :mrn WHERE site = :site AND mrn = :prior_mrn")
_INHERIT = text(
    "INSERT INTO moved_visit"
    " (site, prior_mrn, visit_key, prior_number, mrn, number, said_at, said_by, tags, echo)"
    " SELECT site, :mrn, visit_key, prior_number, mrn, number, said_at, said_by, tags, echo"
    " FROM moved_visit WHERE site = :site AND prior_mrn = :prior_mrn ON CONFLICT DO NOTHING"
)
_FORGET = text(
    "DELETE FROM moved_visit WHERE said_at < :before AND NOT EXISTS (SELECT 1 FROM bridge_order"
    " AS o WHERE o.site = moved_visit.site AND o.mrn = moved_visit.mrn)"
)


def find_merges_and_transfers(
    connection: Connection, patients: Iterable[Patient]
) -> tuple[dict[Patient, str], dict[VisitReference, VisitTransfer]]:
    """Give who of the patients was merged into whom, and which of their visits moved."""
    survivors: dict[Patient, str] = {}
    moves: dict[VisitReference, VisitTransfer] = {}
    for site, own in groupby(sorted(set(patients)), key=itemgetter(0)):
        for row in execute_keys(connection, _WHEREABOUTS, [mrn for _, mrn in own], site=site):
            if not row.visit_key:
                survivors[site, row.prior_mrn] = row.mrn
                continue
            moves[VisitReference(site, row.prior_mrn, row.visit_key, row.prior_number)] = (
                VisitTransfer(
                    VisitReference(site, row.mrn, row.visit_key, row.number),
                    row.said_at,
                    json.loads(row.tags),
                    tuple(json.loads(row.echo)),
                    row.said_by,
                )
            )
    return survivors, moves


def move(connection: Connection, prior: VisitReference, to: VisitTransfer) -> None:
    """Let a visit, and all that led to it, lead to where it is now; one that is back leads nowhere.

    Of two moves of one visit by one clock the later counts; of others, the one that arrived last.
    """
    if prior == to.now:
        return
    row = {
        "site": prior.site,
        "prior_mrn": prior.mrn,
        "visit_key": prior.key,
        "prior_number": prior.number,
        "mrn": to.now.mrn,
        "number": to.now.number,
        "said_at": to.sent_at,
        "said_by": to.clock,
        "tags": json.dumps(dict(to.tags)),
        "echo": json.dumps(to.echo),
    }
    connection.execute(_FOLLOW, row)
    connection.execute(_POINT, row)
    connection.execute(_STAYS, {"site": prior.site, "mrn": to.now.mrn})


def merge(connection: Connection, site: str, prior_mrn: str, mrn: str) -> None:
    """Let the visits of a merged patient, and what led to them, be the survivor's."""
    row = {"site": site, "prior_mrn": prior_mrn, "mrn": mrn}
    connection.execute(_MERGE, row)
    connection.execute(_INHERIT, row)
    connection.execute(_STAYS, {"site": site, "mrn": mrn})


def forget(database: Database, before: int) -> None:
    """Forget what was said before a moment (ms) of visits whose patients have no orders."""
    with database.delete_without_sync() as connection:
        connection.execute(_FORGET, {"before": before})
