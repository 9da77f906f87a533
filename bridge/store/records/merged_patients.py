"""
Merged patient identifiers.

A row points from a merged identifier to the surviving one. Pointers never chain: if a survivor is
merged, all pointers to it are moved. Each row keeps the identifier that its merge named, so that a
merge can be undone.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, text

from bridge.orders.order import Patient
from bridge.orders.patients import MergePointer
from bridge.store.merge_chains import merged_through
from bridge.store.statements import execute_keys, key_statement

_SURVIVORS = key_statement(
    "SELECT prior_mrn, mrn FROM merged_patient WHERE site = :site AND prior_mrn IN :mrns",
    "mrns",
    "text",
)
_PRIORS = key_statement(
    "SELECT prior_mrn FROM merged_patient WHERE site = :site AND mrn IN :mrns", "mrns", "text"
)
_MOVE_POINTERS = text(
    "UPDATE merged_patient SET mrn = :mrn WHERE site = :site AND mrn = :prior_mrn"
)
_ADD_POINTER = text(
    "INSERT INTO merged_patient (site, prior_mrn, mrn, merged_into, merged_at, identity) "
    "VALUES (:site, :prior_mrn, :mrn, :merged_into, :merged_at, :identity) "
    "ON CONFLICT (site, prior_mrn) DO UPDATE SET mrn = :mrn, merged_into = :merged_into, "
    "merged_at = :merged_at, identity = :identity"
)
_POINTERS = key_statement(
    "SELECT prior_mrn, mrn, merged_into, merged_at, identity FROM merged_patient"
    " WHERE site = :site AND prior_mrn IN :mrns",
    "mrns",
    "text",
)
_LIST = text(
    "SELECT site, prior_mrn, mrn, merged_into, merged_at FROM merged_patient"
    " WHERE (:site = '' OR site = :site) AND (:number = '' OR :number IN (prior_mrn, mrn))"
    " ORDER BY coalesce(merged_at, 0) DESC, site, prior_mrn LIMIT :limit"
)
_OF_SURVIVOR = text(
    "SELECT prior_mrn, merged_into FROM merged_patient WHERE site = :site AND mrn = :mrn"
)
_FREE = text("UPDATE merged_patient SET mrn = :mrn WHERE site = :site AND prior_mrn = :prior_mrn")
_REMOVE = text("DELETE FROM merged_patient WHERE site = :site AND prior_mrn = :prior_mrn")


def survivors(connection: Connection, patients: Iterable[Patient]) -> dict[Patient, str]:
    """Return the surviving MRN of each merged patient; others are absent."""
    found: dict[Patient, str] = {}
    for site, own in groupby(sorted(set(patients)), key=itemgetter(0)):
        rows = execute_keys(connection, _SURVIVORS, [mrn for _, mrn in own], site=site)
        found |= {(site, row.prior_mrn): row.mrn for row in rows}
    return found


def current_identifiers(connection: Connection, patients: Iterable[Patient]) -> dict[Patient, str]:
    """Return the MRN that each patient has now: its own one if it was not merged."""
    own = {(site, mrn): mrn for site, mrn in patients}
    return own | survivors(connection, own)


def identifiers(connection: Connection, patients: Iterable[Patient]) -> set[Patient]:
    found = set(patients)
    for site, own in groupby(sorted(found), key=itemgetter(0)):
        rows = execute_keys(connection, _PRIORS, [mrn for _, mrn in own], site=site)
        found |= {(site, row.prior_mrn) for row in rows}
    return found


def merge(
    connection: Connection,
    site: str,
    prior_mrn: str,
    mrn: str,
    identity: Mapping[str, Any] | None = None,
    now: int | None = None,
) -> str:
    """
    Merge a prior identifier, and all that were merged into it; return the surviving MRN.

    If `mrn` was merged before, its own survivor is used. If that is `prior_mrn`, nothing changes.
    `identity` are the survivor's demographics in the merge; `now` in ms.
    """
    target = survivors(connection, [(site, mrn)]).get((site, mrn), mrn)
    if target != prior_mrn:
        row = {"site": site, "prior_mrn": prior_mrn, "mrn": target}
        connection.execute(_MOVE_POINTERS, row)
        named = json.dumps(dict(identity or {}))
        more = {"merged_into": mrn, "merged_at": now, "identity": named}
        connection.execute(_ADD_POINTER, row | more)
    return target


def pointers(connection: Connection, patients: Iterable[Patient]) -> dict[Patient, MergePointer]:
    """Return the pointers of these merged patients; others are absent."""
    found: dict[Patient, MergePointer] = {}
    for site, own in groupby(sorted(set(patients)), key=itemgetter(0)):
        for row in execute_keys(connection, _POINTERS, [mrn for _, mrn in own], site=site):
            found[site, row.prior_mrn] = MergePointer(
                site,
                row.prior_mrn,
                row.mrn,
                row.merged_into or row.mrn,
                row.merged_at,
                json.loads(row.identity or "{}"),
            )
    return found


def list_pointers(
    connection: Connection, site: str, number: str, limit: int
) -> Sequence[MergePointer]:
    """List pointers, newest first; of one site or one number, unless that is ''."""
    rows = connection.execute(_LIST, {"site": site, "number": number, "limit": limit})
    return [
        MergePointer(row.site, row.prior_mrn, row.mrn, row.merged_into or row.mrn, row.merged_at)
        for row in rows
    ]


def undo(connection: Connection, site: str, prior_mrn: str) -> str | None:
    """
    Remove the pointer of an identifier; return the survivor to which it led, None without one.

    Identifiers that were merged into this one belong to it again. Orders are not moved.
    """
    survivor = survivors(connection, [(site, prior_mrn)]).get((site, prior_mrn))
    if survivor is None:
        return None
    rows = connection.execute(_OF_SURVIVOR, {"site": site, "mrn": survivor})
    merged_into = {row.prior_mrn: row.merged_into or survivor for row in rows}
    for other in merged_through(prior_mrn, merged_into):
        connection.execute(_FREE, {"site": site, "mrn": prior_mrn, "prior_mrn": other})
    connection.execute(_REMOVE, {"site": site, "prior_mrn": prior_mrn})
    return survivor
