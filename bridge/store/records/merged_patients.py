"""
Merged patient identifiers.

A row points from a merged identifier to the surviving one. Pointers never chain: if a survivor is
merged, all pointers to it are moved.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter

from sqlalchemy import Connection, text

from bridge.store.statements import execute_keys, key_statement

Patient = tuple[str, str]
"""SiteID, PatientMRN."""

Survivors = Mapping[Patient, str]
"""Merged patients, and the surviving MRN of each."""

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
    "INSERT INTO merged_patient (site, prior_mrn, mrn) VALUES (:site, :prior_mrn, :mrn) "
    "ON CONFLICT (site, prior_mrn) DO UPDATE SET mrn = :mrn"
)


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
    """Return these patients with all identifiers that were merged into theirs."""
    found = set(patients)
    for site, own in groupby(sorted(found), key=itemgetter(0)):
        rows = execute_keys(connection, _PRIORS, [mrn for _, mrn in own], site=site)
        found |= {(site, row.prior_mrn) for row in rows}
    return found


def merge(connection: Connection, site: str, prior_mrn: str, mrn: str) -> str:
    """
    Merge a prior identifier, and all that were merged into it; return the surviving MRN.

    If `mrn` was merged before, its own survivor is used. If that is `prior_mrn`, nothing changes.
    """
    target = survivors(connection, [(site, mrn)]).get((site, mrn), mrn)
    if target != prior_mrn:
        row = {"site": site, "prior_mrn": prior_mrn, "mrn": target}
        connection.execute(_MOVE_POINTERS, row)
        connection.execute(_ADD_POINTER, row)
    return target
