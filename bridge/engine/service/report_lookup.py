"""
Find reports by their orders, and lock them.

Reports are locked in the order of their primary keys, independent of the order of the request. Two
requests for the same reports can therefore never deadlock.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import ARRAY, BindParameter, Connection, Text, bindparam, func
from sqlalchemy import select as select_columns
from sqlmodel import Session, col, select

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import PatientPointer, Report, ReportOrder, metadata
from bridge.engine.service.work import Work
from bridge.store.columns import one_of
from bridge.store.errors import Busy

SITES = metadata.tables["engine_site"]
ATTEMPTS = 3
"""
How often orders are looked up again that moved to another report before their locks were granted.
"""

REFUSE_MERGED = "refuseMergedIdentifiers"
"""Site setting: if true, requests with a merged patient identifier are refused."""

# Built once: building a statement costs more than executing it.
_SITE_ID: Final[BindParameter[str]] = bindparam("site_id")
_POINTERS: Final = select_columns(col(PatientPointer.prior_mrn), col(PatientPointer.mrn)).where(
    col(PatientPointer.site_id) == _SITE_ID, one_of(col(PatientPointer.prior_mrn), "mrns")
)
# SQLite scans the whole table for `(a, b, c) IN (VALUES …)` with several rows, and tries each
# patient with each accession for two INs on indexed columns. `accession || ''` is not indexed.
_WANTED: Final = (
    col(ReportOrder.site_id) == _SITE_ID,
    one_of(col(ReportOrder.mrn), "mrns"),
    one_of(col(ReportOrder.accession).concat(""), "accessions"),
)
_REPORT_KEYS: Final = select_columns(
    col(ReportOrder.mrn), col(ReportOrder.accession), col(ReportOrder.report_pk)
).where(*_WANTED)
_ORDERS: Final = select(ReportOrder).where(*_WANTED).execution_options(populate_existing=True)
# The inner query orders the locks by key: transactions over several patients never deadlock.
_LOCK_KEYS: Final = (
    select_columns(
        func.hashtextextended(
            func.unnest(bindparam("patients", type_=ARRAY(Text))).column_valued("patient"), 0
        ).label("key")
    )
    .order_by("key")
    .subquery()
)
_LOCK_PATIENTS: Final = select_columns(func.pg_advisory_xact_lock(_LOCK_KEYS.c.key))
_LOCK_ORDERS: Final = (
    select(ReportOrder, Report)
    .join(Report, col(Report.pk) == col(ReportOrder.report_pk))
    .where(*_WANTED)
    .order_by(col(Report.pk))
    .with_for_update(of=Report)
    .execution_options(populate_existing=True)
)
_LOCK_REPORTS: Final = (
    select(Report)
    .where(one_of(col(Report.pk), "keys"))
    .order_by(col(Report.pk))
    .with_for_update()
    .execution_options(populate_existing=True)
)
_ONE_WRITER = "sqlite"
"""This dialect serializes write transactions: what was read stays valid until the commit."""


@dataclass(frozen=True, slots=True)
class LockedOrder:
    order: ReportOrder
    report: Report


def key_of(report: Report) -> int:
    if report.pk is None:
        raise ValueError("the report has not been stored yet")
    return report.pk


def follow_pointers(connection: Connection, site_id: str, mrns: Iterable[str]) -> Mapping[str, str]:
    """
    Map merged patient identifiers to the identifiers that replaced them.

    Identifiers that were not merged are absent. Raise EngineError if the site refuses merged
    identifiers.
    """
    found = _read_pointers(connection, site_id, set(mrns))
    if found and _refuses_merged(connection, site_id):
        raise EngineError(ErrorCode.IDENTIFIER_MERGED, pointer="/clinicalInfo/PatientMRN")
    return found


def _read_pointers(connection: Connection, site_id: str, mrns: Collection[str]) -> dict[str, str]:
    rows = connection.execute(_POINTERS, {"site_id": site_id, "mrns": mrns})
    return {row.prior_mrn: row.mrn for row in rows}


def lock_patients(work: Work, site_id: str, mrns: Iterable[str]) -> None:
    """
    Keep other transactions from launching, merging or updating these patients until the commit.

    Call it before reading anything about the patients and before locking any report. Raise Busy if
    one of them was merged while this transaction waited for the lock; the caller then repeats the
    whole transaction.
    """
    connection, wanted = work.connection, sorted(set(mrns))
    if connection.dialect.name == _ONE_WRITER or not wanted:
        return
    pointers = _read_pointers(connection, site_id, wanted)
    patients = {pointers.get(mrn, mrn) for mrn in wanted}
    names = [f"patient\x1f{site_id}\x1f{patient}" for patient in patients]
    connection.execute(_LOCK_PATIENTS, {"patients": names})
    pointers = _read_pointers(connection, site_id, wanted)
    if not {pointers.get(mrn, mrn) for mrn in wanted} <= patients:
        raise Busy("a patient was merged before it was locked")


def _refuses_merged(connection: Connection, site_id: str) -> bool:
    query = select(SITES.c.settings).where(SITES.c.site_id == site_id)
    settings = connection.execute(query).scalar_one_or_none() or {}
    return settings.get(REFUSE_MERGED) is True


def current_identity(connection: Connection, identity: OrderKey) -> OrderKey:
    """Return the order's identity under the current identifier of its patient."""
    pointers = follow_pointers(connection, identity.site, [identity.mrn])
    return OrderKey(identity.site, pointers.get(identity.mrn, identity.mrn), identity.accession)


def find_orders(session: Session, identities: Sequence[OrderKey]) -> dict[OrderKey, ReportOrder]:
    """
    Return the stored orders with these identities, without a lock.

    Merged patient identifiers are followed.
    """
    followed = current_identities(session.connection(), identities)
    stored = _stored(session, sorted(set(followed.values())))
    found = {identity: stored[valid] for identity, valid in followed.items() if valid in stored}
    missing = [identity for identity in followed if identity not in found]
    moved = _merged_since(session.connection(), missing, followed)
    return found | find_orders(session, moved) if moved else found


def current_identities(
    connection: Connection, identities: Sequence[OrderKey]
) -> dict[OrderKey, OrderKey]:
    """Map each order identity to the one under the current identifier of its patient."""
    found: dict[OrderKey, OrderKey] = {}
    for site_id in {identity.site for identity in identities}:
        own = [identity for identity in identities if identity.site == site_id]
        pointers = follow_pointers(connection, site_id, (identity.mrn for identity in own))
        for identity in own:
            found[identity] = OrderKey(
                site_id, pointers.get(identity.mrn, identity.mrn), identity.accession
            )
    return found


def find_report_keys(connection: Connection, identities: Sequence[OrderKey]) -> dict[OrderKey, int]:
    """Return the primary keys of the orders' reports. Merged patient identifiers are followed."""
    followed = current_identities(connection, identities)
    keys = current_report_keys(connection, followed.values())
    found = {identity: keys[valid] for identity, valid in followed.items() if valid in keys}
    missing = [identity for identity in followed if identity not in found]
    moved = _merged_since(connection, missing, followed)
    return found | find_report_keys(connection, moved) if moved else found


def _merged_since(
    connection: Connection, missing: Sequence[OrderKey], followed: Mapping[OrderKey, OrderKey]
) -> list[OrderKey]:
    """Return the missing orders whose patients were merged since `followed` was read."""
    if not missing or connection.dialect.name == _ONE_WRITER:
        return []
    later = current_identities(connection, missing)
    return [identity for identity in missing if later[identity] != followed[identity]]


def current_report_keys(
    connection: Connection, identities: Iterable[OrderKey]
) -> dict[OrderKey, int]:
    found: dict[OrderKey, int] = {}
    wanted = set(identities)
    for some in _parameters(wanted):
        for mrn, accession, key in connection.execute(_REPORT_KEYS, some):
            found[OrderKey(some["site_id"], mrn, accession)] = key
    return {identity: found[identity] for identity in wanted if identity in found}


def _stored(session: Session, identities: Sequence[OrderKey]) -> dict[OrderKey, ReportOrder]:
    found: dict[OrderKey, ReportOrder] = {}
    for some in _parameters(identities):
        rows = session.exec(_ORDERS, params=some)
        found.update((OrderKey(row.site_id, row.mrn, row.accession), row) for row in rows)
    return {identity: found[identity] for identity in identities if identity in found}


def _parameters(identities: Iterable[OrderKey]) -> Iterator[dict[str, Any]]:
    """
    Return the statement parameters of each site.

    A statement may also find orders that were not requested.
    """
    for site_id, own in groupby(sorted(identities), key=attrgetter("site")):
        here = list(own)
        yield {
            "site_id": site_id,
            "mrns": {order.mrn for order in here},
            "accessions": {order.accession for order in here},
        }


def lock_reports(work: Work, keys: Iterable[int]) -> dict[int, Report]:
    """Lock reports by primary key, and return those that still exist with their current values."""
    rows = work.session.exec(_LOCK_REPORTS, params={"keys": sorted(set(keys))})
    return {key_of(row): row for row in rows}


def lock_orders(
    work: Work, identities: Sequence[OrderKey], *, current: bool = False
) -> list[LockedOrder | None]:
    """
    Find orders and lock their reports. Return both in the order of the request, None for unknown
    orders.

    Orders that move or appear while this transaction waits for a lock are looked up again. Raise
    `changed` if they still change after `ATTEMPTS` attempts. `current`: the caller has followed
    merged patient identifiers already.
    """
    if current and not current_report_keys(work.connection, identities):
        return [None] * len(identities)  # the usual case of a registration
    for _ in range(ATTEMPTS):
        followed = (
            {identity: identity for identity in identities}
            if current
            else current_identities(work.connection, identities)
        )
        locked = _lock(work, set(followed.values()))
        found = {identity: locked[valid] for identity, valid in followed.items() if valid in locked}
        if work.connection.dialect.name == _ONE_WRITER:
            break
        # An order may have changed or moved before the locks; they prevent it until the commit.
        places = {identity: key_of(place.report) for identity, place in found.items()}
        again = find_orders(work.session, identities)
        if places == {identity: order.report_pk for identity, order in again.items()}:
            break
        current = False
    else:
        raise EngineError(ErrorCode.CHANGED)
    return [found.get(identity) for identity in identities]


def _lock(work: Work, identities: Iterable[OrderKey]) -> dict[OrderKey, LockedOrder]:
    """Lock the reports of orders under current identities."""
    found: dict[OrderKey, LockedOrder] = {}
    for some in _parameters(identities):
        for order, report in work.session.exec(_LOCK_ORDERS, params=some):
            identity = OrderKey(order.site_id, order.mrn, order.accession)
            found[identity] = LockedOrder(order, report)
    return found


def lock_report(work: Work, identity: OrderKey) -> LockedOrder:
    """Find and lock one report by one of its orders; raise `report_not_found`."""
    found = lock_orders(work, [identity])[0]
    if found is None:
        raise EngineError(ErrorCode.REPORT_NOT_FOUND)
    return found


def lock_report_by_id(work: Work, report_id: str) -> Report:
    """Find and lock one report by its public id; raise `report_not_found`."""
    found = work.session.exec(
        select(Report)
        .where(Report.report_id == report_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).first()
    if found is None:
        raise EngineError(ErrorCode.REPORT_NOT_FOUND)
    return found


def orders_of(session: Session, report_pk: int) -> list[ReportOrder]:
    """Return a report's orders: the anchor first, then in linking order."""
    return list(
        session.exec(
            select(ReportOrder)
            .where(ReportOrder.report_pk == report_pk)
            .order_by(col(ReportOrder.position), col(ReportOrder.pk))
        )
    )


def bump_version(work: Work, report: Report) -> None:
    """Count a change of content or status: open pages must load the report again."""
    report.version += 1
    mark_updated(work, report)


def mark_updated(work: Work, report: Report) -> None:
    """
    Set the time of the last change, for example of an order's tags.

    The version stays, so open pages may continue to write.
    """
    report.updated_at = work.now
