"""Patients that are known by an order, a correction, or a merge into them."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Final

from sqlalchemy import Connection

from bridge.orders.order import Patient
from bridge.store.statements import execute_keys, key_statement

_TABLES: Final = tuple(
    key_statement(
        f"SELECT DISTINCT mrn FROM {table} WHERE site = :site AND mrn IN :mrns",  # noqa: S608  # our own names
        "mrns",
        "text",
    )
    for table in ("bridge_order", "patient_demographics", "merged_patient")
)


def known_patients(connection: Connection, patients: Iterable[Patient]) -> set[Patient]:
    """Return which of these patients (site, MRN) are known. They must not be merged ones."""
    return {
        (site, row.mrn)
        for site, own in groupby(sorted(set(patients)), key=itemgetter(0))
        for mrns in [[mrn for _, mrn in own]]
        for table in _TABLES
        for row in execute_keys(connection, table, mrns, site=site)
    }
