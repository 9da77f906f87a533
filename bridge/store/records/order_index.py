"""
The order index: what the bridge stores of each order, for linking and for results.

Intake writes it, delivery reads it, the reconciler lists it. It is small: the report engine stores
the reports, the queue stores the messages.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    Connection,
    Row,
    Select,
    Text,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from bridge.contract import OrderKey
from bridge.index_key import signal_hash
from bridge.orders.order import (
    CLOSED_BY,
    MERGED_FROM,
    LaterEvent,
    Link,
    Order,
    OrderState,
    Patient,
    merged_hash,
)
from bridge.orders.times import MessageTime, comparable_time
from bridge.store.columns import one_of
from bridge.store.records import patient_records, scheduled_steps
from bridge.store.tables import ORDERS, SIGNALS, upsert
from mappings.inbound.events import CHILD_OF

_ORDER, _SIGNAL = ORDERS.c, SIGNALS.c


# Constants, because making a statement costs more than executing it.
_BY_ACCESSION: Final[Select[Any]] = select(ORDERS).where(
    _ORDER.site == bindparam("site"), one_of(_ORDER.accession, "accessions")
)
# By the numbers of patients and orders too, because some senders give all orders one accession.
_NAMED: Final = _BY_ACCESSION.where(
    or_(*(one_of(column, "names") for column in (_ORDER.mrn, _ORDER.placer, _ORDER.filler)))
)
_BY_ID: Final[Select[Any]] = select(ORDERS).where(one_of(_ORDER.id, "ids"))
_SIGNALS_OF: Final[Select[Any]] = select(SIGNALS).where(one_of(_SIGNAL.order_id, "ids"))
_WITH_SIGNAL: Final = select(_SIGNAL.order_id).where(one_of(_SIGNAL.signal, "signals"))
_INSERT_SIGNALS: Final = insert(SIGNALS)
_DELETE_SIGNALS: Final = delete(SIGNALS).where(one_of(_SIGNAL.order_id, "ids"))


def find(connection: Connection, keys: Iterable[OrderKey]) -> dict[OrderKey, Order]:
    """Read the orders of these keys; unknown ones are absent."""
    return {order.key: order for order in _with_signals(connection, rows_of(connection, keys))}


def find_with_others(
    connection: Connection, wanted: Mapping[OrderKey, Collection[str]]
) -> tuple[dict[OrderKey, Order], list[Order]]:
    """
    Read the orders of these keys, and orders of other patients with the accession and one of the
    placer or filler numbers that `wanted` has for a key.
    """
    found = _with_signals(connection, _rows_by_accession(connection, wanted))
    own = {order.key: order for order in found if order.key in wanted}
    return own, [order for order in found if order.key not in wanted]


def accessions_by_site(keys: Iterable[OrderKey]) -> Iterator[tuple[str, list[str]]]:
    """
    Group keys into a site and its accessions, as the statements need them.

    SQLite scans the whole table for `(a, b, c) IN (VALUES …)`. The caller removes other patients
    with the same accession.
    """
    wanted = sorted(dict.fromkeys(keys), key=attrgetter("site"))
    for site, own in groupby(wanted, key=attrgetter("site")):
        yield site, list(dict.fromkeys(key.accession for key in own))


def rows_of(connection: Connection, keys: Iterable[OrderKey]) -> list[Row[Any]]:
    wanted = set(keys)
    return [
        row
        for row in _rows_by_accession(connection, dict.fromkeys(wanted, ()))
        if OrderKey(row.site, row.mrn, row.accession) in wanted
    ]


def _rows_by_accession(
    connection: Connection, wanted: Mapping[OrderKey, Collection[str]]
) -> list[Row[Any]]:
    """Read the rows of `find_with_others`; others with the same accessions may be among them."""
    names: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for key, numbers in wanted.items():
        names[key.site, key.accession].update((key.mrn, *numbers))
    found: list[Row[Any]] = []
    for site, accessions in accessions_by_site(wanted):
        own = set().union(*(names[site, accession] for accession in accessions))
        criteria = {"site": site, "accessions": accessions, "names": list(own)}
        found += connection.execute(_NAMED, criteria).all()
    return found


def find_named(
    connection: Connection, sites: Collection[str], accession: str, study_uid: str
) -> list[Order]:
    """Read the orders of sites with an accession number; if there is none, those of a study."""
    rows: list[Row[Any]] = []
    for site in sites if accession else ():
        rows += connection.execute(_BY_ACCESSION, {"site": site, "accessions": [accession]}).all()
    if rows or not study_uid:
        return _with_signals(connection, rows)
    found = {order.key: order for order in find_by_signal(connection, [study_hash(study_uid)])}
    found |= find(connection, scheduled_steps.orders_of_study(connection, study_uid))
    return [order for order in found.values() if order.key.site in sites]


def study_hash(study_uid: str) -> int:
    """Return the signal by which the orders of a study are linked."""
    return signal_hash("study-uid", study_uid)


def find_for_delivery(
    connection: Connection, reports: Mapping[OrderKey, Collection[str]]
) -> dict[OrderKey, Order]:
    """
    Read orders for results, by keys with report ids: no signals, and one statement per site.

    If a merge changed the MRN, the order of the merged patient or of the same report is returned.
    """
    wanted = reports.keys()
    by_accession: defaultdict[tuple[str, str], list[Row[Any]]] = defaultdict(list)
    for site, accessions in accessions_by_site(wanted):
        criteria = {"site": site, "accessions": accessions}
        for row in connection.execute(_BY_ACCESSION, criteria):
            by_accession[site, row.accession].append(row)
    rows = {key: by_accession[key.site, key.accession] for key in wanted}
    own = {key: row for key in wanted for row in rows[key] if row.mrn == key.mrn}
    others = {key: rows[key] for key in wanted - own.keys() if rows[key]}
    found = own | _rows_of_merged_patients(connection, others, reports)
    return {key: _read(row, {}) for key, row in found.items()}


def _rows_of_merged_patients(
    connection: Connection,
    candidates: Mapping[OrderKey, Sequence[Row[Any]]],
    reports: Mapping[OrderKey, Collection[str]],
) -> dict[OrderKey, Row[Any]]:
    patients = {(key.site, key.mrn) for key in candidates}
    patients |= {(row.site, row.mrn) for rows in candidates.values() for row in rows}
    current = patient_records.current_identifiers(connection, patients)
    found: dict[OrderKey, Row[Any]] = {}
    for key, some in candidates.items():
        mrn, own = current[key.site, key.mrn], reports[key]
        same = [r for r in some if current[r.site, r.mrn] == mrn or r.report_id in own]
        if len(same) == 1:
            found[key] = same[0]
    return found


def find_by_number(
    connection: Connection, patients: Iterable[Patient], numbers: Iterable[str]
) -> list[Order]:
    """Read the orders of these patients with one of these numbers."""
    requested = set(numbers)
    if not requested:
        return []
    # Numbers only, because most orders of a patient do not match.
    rows = _of_patients(connection, _NUMBERS_BY_PATIENT, patients)
    ids = [row.id for row in rows if row.placer in requested or row.filler in requested]
    return _with_signals(connection, _rows_with(connection, ids))


def find_by_patient(connection: Connection, patients: Iterable[Patient]) -> list[Order]:
    """Read all orders of these patients."""
    return _with_signals(connection, _of_patients(connection, _BY_PATIENT, patients))


_PATIENTS: Final = (
    func.unnest(bindparam("mrns", type_=ARRAY(Text))).table_valued("mrn").render_derived()
)


def _by_patient(*columns: Any) -> dict[str, Select[Any]]:
    """Return the statements, by dialect, that read these columns of all orders of patients."""
    orders: Select[Any] = select(*columns).where(_ORDER.site == bindparam("site"))
    # LATERAL: for `mrn IN (…)` PostgreSQL reads all orders of the site in a table without
    # statistics.
    own = orders.where(_ORDER.mrn == _PATIENTS.c.mrn).offset(0).lateral()
    return {
        "sqlite": orders.where(one_of(_ORDER.mrn, "mrns")),
        "postgresql": select(own).select_from(_PATIENTS.join(own, true())),
    }


_BY_PATIENT: Final = _by_patient(ORDERS)
_NUMBERS_BY_PATIENT: Final = _by_patient(_ORDER.id, _ORDER.placer, _ORDER.filler)


def _of_patients(
    connection: Connection, statements: Mapping[str, Select[Any]], patients: Iterable[Patient]
) -> list[Row[Any]]:
    statement = statements[connection.dialect.name]
    return [
        row
        for site, mrns in patient_records.by_site(patients)
        for row in connection.execute(statement, {"site": site, "mrns": mrns})
    ]


def _rows_with(connection: Connection, ids: Collection[int]) -> Sequence[Row[Any]]:
    return connection.execute(_BY_ID, {"ids": ids}).all() if ids else ()


def find_by_signal(connection: Connection, signals: Iterable[int]) -> list[Order]:
    """Read the orders of all patients with one of these signals."""
    ids = set(connection.scalars(_WITH_SIGNAL, {"signals": set(signals)}))
    return _with_signals(connection, _rows_with(connection, sorted(ids)))


def ids_merged_from(
    connection: Connection, site: str, mrn: str, numbers: Iterable[str]
) -> list[int]:
    """Return the row ids of a patient's orders that merges moved from other numbers."""
    statement = (
        select(_ORDER.id)
        .join(SIGNALS, _SIGNAL.order_id == _ORDER.id)
        .where(_ORDER.site == site, _ORDER.mrn == mrn)
        .where(_SIGNAL.kind == MERGED_FROM, _SIGNAL.signal.in_(set(map(merged_hash, numbers))))
        .distinct()
    )
    return list(connection.scalars(statement))


def forget_numbers(connection: Connection, ids: Collection[int], numbers: Iterable[str]) -> None:
    """Let orders, by their row ids, not be known by these merged numbers any more."""
    marks = set(map(merged_hash, numbers))
    connection.execute(
        delete(SIGNALS).where(
            _SIGNAL.order_id.in_(ids), _SIGNAL.kind == MERGED_FROM, _SIGNAL.signal.in_(marks)
        )
    )


def find_related(
    connection: Connection, patients: Iterable[Patient], signals: Iterable[int]
) -> list[Order]:
    """
    Read the orders of these patients with one of these signals.

    Starts from the patients, because some senders give the orders of all patients the same signal,
    such as a constant parent number.
    """
    wanted = set(signals)
    ids = [row.id for row in _of_patients(connection, _NUMBERS_BY_PATIENT, patients)]
    with_signal = {row.order_id for row in _signals(connection, ids) if row.signal in wanted}
    return _with_signals(connection, _rows_with(connection, sorted(with_signal)))


def move_patient(connection: Connection, site: str, prior_mrn: str, mrn: str) -> None:
    """Move a patient's orders to the survivor; those that the survivor has too are deleted."""
    taken = select(_ORDER.accession).where(_ORDER.site == site, _ORDER.mrn == mrn)
    own = (_ORDER.site == site, _ORDER.mrn == prior_mrn)
    connection.execute(update(ORDERS).where(*own, _ORDER.accession.not_in(taken)).values(mrn=mrn))
    _delete(connection, list(connection.scalars(select(_ORDER.id).where(*own))))


def move(connection: Connection, orders: Iterable[tuple[OrderKey, Order]]) -> None:
    """Give orders of one key another patient; a row that remained there of the order goes."""
    moved = list(orders)
    delete_orders(connection, [after.key for _, after in moved])
    for before, after in moved:
        own = (_ORDER.site == before.site, _ORDER.mrn == before.mrn)
        connection.execute(
            update(ORDERS)
            .where(*own, _ORDER.accession == before.accession)
            .values(mrn=after.key.mrn)
        )
    save(connection, [after for _, after in moved])


def delete_orders(connection: Connection, keys: Iterable[OrderKey]) -> None:
    """Delete orders that were combined with another one."""
    _delete(connection, [row.id for row in rows_of(connection, keys)])


def _delete(connection: Connection, ids: Sequence[int]) -> None:
    if ids:
        connection.execute(delete(SIGNALS).where(_SIGNAL.order_id.in_(ids)))
        connection.execute(delete(ORDERS).where(_ORDER.id.in_(ids)))


# The kinds of signals that are no links. Those of marks have the hash of the accession as their
# value, those of later events the time in ms.
_NUMBER_ONLY, _REPLACED, _MOVED_AWAY = "unordered", "replaced", "moved"
_HELD_LATER, _OPENED_LATER = "held-later", "opened-later"
_OWN_KINDS: Final = frozenset(
    {CHILD_OF, CLOSED_BY, MERGED_FROM, _NUMBER_ONLY, _REPLACED, _MOVED_AWAY}
    | {_HELD_LATER, _OPENED_LATER}
)


def _with_signals(connection: Connection, rows: Sequence[Row[Any]]) -> list[Order]:
    signals: defaultdict[int, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in _signals(connection, [row.id for row in rows]):
        signals[row.order_id][row.kind].add(row.signal)
    return [_read(row, signals.get(row.id, {})) for row in rows]


def _signals(connection: Connection, ids: Collection[int]) -> Sequence[Row[Any]]:
    return connection.execute(_SIGNALS_OF, {"ids": ids}).all() if ids else ()


def _read(row: Row[Any] | SimpleNamespace, signals: Mapping[str, Collection[int]]) -> Order:
    """Return an order; `signals` are the values of each kind."""
    later = [
        *(LaterEvent(True, at) for at in signals.get(_HELD_LATER, ())),
        *(LaterEvent(False, at) for at in signals.get(_OPENED_LATER, ())),
    ]
    return Order(
        key=OrderKey(row.site, row.mrn, row.accession),
        state=OrderState(row.state),
        first_message=row.first_message,
        last_message=row.last_message,
        position=row.place,
        placer=row.placer,
        filler=row.filler,
        tags=json.loads(row.tags),
        echo=tuple(json.loads(row.echo)),
        report_id=row.report_id,
        state_changed_at=comparable_time(row.state_changed_at, row.state_clock),
        tags_sent_at=comparable_time(row.tags_sent_at, row.tags_clock),
        opened_at=comparable_time(row.opened_at, row.opened_clock),
        links=frozenset(
            Link(kind, value)
            for kind, values in signals.items()
            if kind not in _OWN_KINDS
            for value in values
        ),
        parents=frozenset(signals.get(CHILD_OF, ())),
        closed_by=frozenset(signals.get(CLOSED_BY, ())),
        merged_from=frozenset(signals.get(MERGED_FROM, ())),
        number_only=_NUMBER_ONLY in signals,
        replaced=_REPLACED in signals,
        moved_away=_MOVED_AWAY in signals,
        later_event=max(later, key=attrgetter("at"), default=None),
    )


def _signals_of(order: Order) -> Iterator[tuple[str, int]]:
    yield from order.links
    yield from ((CHILD_OF, value) for value in order.parents)
    yield from ((CLOSED_BY, value) for value in order.closed_by)
    yield from ((MERGED_FROM, value) for value in order.merged_from)
    marks = (
        (_NUMBER_ONLY, order.number_only),
        (_REPLACED, order.replaced),
        (_MOVED_AWAY, order.moved_away),
    )
    for kind, is_set in marks:
        if is_set:
            yield kind, signal_hash(kind, order.key.accession)
    if order.later_event is not None:
        kind = _HELD_LATER if order.later_event.is_hold else _OPENED_LATER
        yield kind, order.later_event.at


def states(connection: Connection, keys: Iterable[OrderKey]) -> dict[OrderKey, tuple[int, str]]:
    """Return the row id and state of the orders of these keys; unknown ones are absent."""
    return {
        OrderKey(row.site, row.mrn, row.accession): (row.id, row.state)
        for row in rows_of(connection, keys)
    }


def sites(connection: Connection) -> list[str]:
    """List the sites that have orders, with one index look-up for each."""
    found: list[str] = []
    next_site, site = select(func.min(_ORDER.site)), ""
    while (site := connection.scalar(next_site.where(_ORDER.site > site))) is not None:
        found.append(site)
    return found


def newest_id(connection: Connection) -> int:
    return connection.scalar(select(func.max(_ORDER.id))) or 0


def page_before(connection: Connection, before: int, limit: int) -> dict[int, Order]:
    """Return the orders with the highest row ids below one, without their signals."""
    query = select(ORDERS).where(_ORDER.id < before).order_by(_ORDER.id.desc()).limit(limit)
    return {row.id: _read(row, {}) for row in connection.execute(query)}


def lock(connection: Connection, ids: Collection[int]) -> list[Order]:
    """Read orders by row id; no other transaction changes them until the commit."""
    rows = connection.execute(_LOCK, {"ids": ids}).all() if ids else ()
    return _with_signals(connection, rows)


_LOCK: Final = _BY_ID.order_by(_ORDER.id).with_for_update()
_SET_TAGS: Final = (
    update(ORDERS)
    .where(_ORDER.site == bindparam("of_site"), _ORDER.mrn == bindparam("of_mrn"))
    .where(_ORDER.accession == bindparam("of_accession"))
    .values(tags=bindparam("new_tags"))
)


def set_tags(connection: Connection, tags: Mapping[OrderKey, Mapping[str, Any]]) -> None:
    """Store the tags of orders."""
    rows = [
        {
            "of_site": key.site,
            "of_mrn": key.mrn,
            "of_accession": key.accession,
            "new_tags": json.dumps(dict(own)),
        }
        for key, own in tags.items()
    ]
    if rows:
        connection.execute(_SET_TAGS, rows)


def ordered_page(connection: Connection, after: int, limit: int) -> list[tuple[int, OrderKey]]:
    """Return keys in state `ordered` by row id, for reading all of them in pages."""
    return _ordered_keys(connection, _ORDERED.where(_ORDER.id > after).limit(limit))


def ordered_keys(connection: Connection, ids: Iterable[int]) -> list[tuple[int, OrderKey]]:
    """Return the keys of these rows; rows in another state than `ordered` are left out."""
    return _ordered_keys(connection, _ORDERED.where(_ORDER.id.in_(list(ids))))


_ORDERED: Final[Select[Any]] = (
    select(_ORDER.id, _ORDER.site, _ORDER.mrn, _ORDER.accession)
    .where(_ORDER.state == OrderState.ORDERED.value)
    .order_by(_ORDER.id)
)


def _ordered_keys(connection: Connection, statement: Select[Any]) -> list[tuple[int, OrderKey]]:
    return [
        (row.id, OrderKey(row.site, row.mrn, row.accession))
        for row in connection.execute(statement)
    ]


_SAVED: Final = [
    column.name
    for column in ORDERS.c
    if column.name not in {"id", "site", "mrn", "accession", "first_message", "place"}
]
_SAVE: Final = upsert(ORDERS, *_SAVED, key=("site", "accession", "mrn")).returning(
    _ORDER.id, _ORDER.site, _ORDER.mrn, _ORDER.accession
)
_SET_REPORT: Final = (
    update(ORDERS)
    .where(_ORDER.site == bindparam("of_site"), _ORDER.mrn == bindparam("of_mrn"))
    .where(_ORDER.accession == bindparam("of_accession"))
    .where(_ORDER.report_id != bindparam("report"))
    .values(report_id=bindparam("report"))
)
_RETURN: Final = (
    update(ORDERS)
    .where(_ORDER.site == bindparam("of_site"), _ORDER.mrn == bindparam("of_mrn"))
    .where(_ORDER.accession == bindparam("of_accession"))
    .where(_ORDER.state == OrderState.REPORTED.value)
    .where(
        or_(_ORDER.state_changed_at.is_(None), _ORDER.state_changed_at <= bindparam("marked_at"))
    )
    .values(state=OrderState.ORDERED.value)
)


def save(connection: Connection, orders: Sequence[Order]) -> None:
    """Insert or replace orders with their signals; of several with one key, the last one."""
    if len({order.key for order in orders}) < len(orders):  # a merge can give two orders one key
        for order in orders:
            _save(connection, [order])
    elif orders:
        _save(connection, orders)


def _save(connection: Connection, orders: Sequence[Order]) -> None:
    stored = connection.execute(_SAVE, [_row_of(order) for order in orders])
    ids = {OrderKey(row.site, row.mrn, row.accession): row.id for row in stored}
    connection.execute(_DELETE_SIGNALS, {"ids": ids.values()})
    signals = [
        {"order_id": ids[order.key], "kind": kind, "signal": signal}
        for order in orders
        for kind, signal in _signals_of(order)
    ]
    if signals:
        connection.execute(_INSERT_SIGNALS, signals)


def set_reports(connection: Connection, reports: Mapping[OrderKey, str]) -> None:
    """Store the report of each order; unknown orders are ignored."""
    rows = [
        {"of_site": key.site, "of_mrn": key.mrn, "of_accession": key.accession, "report": report}
        for key, report in sorted(reports.items())
    ]
    if rows:
        connection.execute(_SET_REPORT, rows)


def return_to_unread(connection: Connection, orders: Mapping[OrderKey, int]) -> set[OrderKey]:
    """
    Return orders that are reported elsewhere to the unread ones; return those that changed.

    Each has the time (ms) of the message that reported it; an order that a later message reported
    keeps its state.
    """
    returned = set()
    for key, at in sorted(orders.items()):
        order = {"of_site": key.site, "of_mrn": key.mrn, "of_accession": key.accession}
        if connection.execute(_RETURN, {**order, "marked_at": at}).rowcount:
            returned.add(key)
    return returned


def moved_away_row(order: Order) -> dict[str, Any]:
    """Return the row that remains of an order that moved to another patient."""
    return _row_of(order)


def restore_moved_away(connection: Connection, rows: Iterable[Mapping[str, Any]], mrn: str) -> None:
    """
    Store rows of `moved_away_row` again, instead of those that a merge moved to `mrn`.

    A row is left out if its patient has the order now.
    """
    moved_away = {_MOVED_AWAY: (0,)}
    orders = [_read(SimpleNamespace(**row), moved_away) for row in rows]
    merged = find(connection, [replace(order.key, mrn=mrn) for order in orders])
    delete_orders(connection, [key for key, order in merged.items() if order.moved_away])
    known = find(connection, [order.key for order in orders])
    save(connection, [order for order in orders if order.key not in known])


def _row_of(order: Order) -> dict[str, Any]:
    state_changed, tags_sent, opened = map(
        _columns_of, (order.state_changed_at, order.tags_sent_at, order.opened_at)
    )
    return {
        "site": order.key.site,
        "mrn": order.key.mrn,
        "accession": order.key.accession,
        "state": order.state.value,
        "placer": order.placer,
        "filler": order.filler,
        "tags": json.dumps(dict(order.tags)),
        "echo": json.dumps(order.echo),
        "report_id": order.report_id,
        "first_message": order.first_message,
        "place": order.position,
        "last_message": order.last_message,
        "state_changed_at": state_changed[0],
        "state_clock": state_changed[1],
        "tags_sent_at": tags_sent[0],
        "tags_clock": tags_sent[1],
        "opened_at": opened[0],
        "opened_clock": opened[1],
    }


def _columns_of(time: MessageTime | None) -> tuple[int | None, int | None]:
    return (None, None) if time is None else (time.at, time.clock)
