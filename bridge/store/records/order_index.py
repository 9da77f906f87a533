"""
The order index: what the bridge stores of each order, for linking and for results.

Intake writes it, delivery reads it, the reconciler lists it. It is small: the report engine stores
the reports, the queue stores the messages.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    Row,
    Select,
    Table,
    Text,
    delete,
    select,
    text,
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
    merged_hash,
)
from bridge.orders.times import MessageTime, comparable_time
from bridge.store.columns import BIG_KEY
from bridge.store.records import merged_patients
from bridge.store.statements import (
    BoundStatement,
    BulkStatement,
    bind_keys,
    bind_list,
    bind_rows,
    execute_all,
    execute_bound,
    execute_keys,
    execute_rows,
    is_postgresql,
    key_statement,
    unnest,
)
from mappings.inbound.events import CHILD_OF

_metadata = MetaData()

ORDERS = Table(
    "bridge_order",
    _metadata,
    Column("id", BIG_KEY, primary_key=True),
    *(Column(name, Text) for name in ("site", "mrn", "accession", "state", "placer", "filler")),
    *(Column(name, Text) for name in ("tags", "echo", "report_id")),
    Column("first_message", BigInteger),
    Column("place", Integer),
    Column("last_message", BigInteger),
    *(Column(name, BigInteger) for name in ("state_changed_at", "tags_sent_at", "opened_at")),
    *(Column(name, BigInteger) for name in ("state_clock", "tags_clock", "opened_clock")),
)

_signal = Table(
    "order_signal",
    _metadata,
    Column("order_id", BIG_KEY, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("signal", BigInteger, primary_key=True),
)

# In the driver's syntax: building a statement costs more than executing it.
_COLUMNS = ", ".join(column.name for column in ORDERS.c)
_BY_ACCESSION = key_statement(
    f"SELECT {_COLUMNS} FROM bridge_order WHERE site = :site AND accession IN :accessions",  # noqa: S608  # our own names
    "accessions",
    "text",
)
# By the numbers of patients and orders too, because some senders give all orders one accession.
_AND_NAMED = " AND (mrn IN ({0}) OR placer IN ({0}) OR filler IN ({0}))"
_NAMED = replace(
    _BY_ACCESSION,
    sqlite=_BY_ACCESSION.sqlite + _AND_NAMED.format("SELECT value FROM json_each(:names)"),
    postgres=_BY_ACCESSION.postgres + _AND_NAMED.format("SELECT unnest(%(names)s::text[])"),
)
_SIGNALS_OF = key_statement(
    "SELECT order_id, kind, signal FROM order_signal WHERE order_id IN :ids"
)
_BY_SIGNAL = key_statement(
    f"SELECT {_COLUMNS} FROM bridge_order WHERE id IN"  # noqa: S608  # our own names
    " (SELECT order_id FROM order_signal WHERE signal IN :signals)",
    "signals",
)

# Numbers only, because most orders of a patient do not match. LATERAL per patient, because without
# statistics PostgreSQL would scan all orders of a site.
ORDER_NUMBERS = key_statement(
    "SELECT id, placer, filler FROM bridge_order WHERE site = :site AND mrn IN :mrns",
    "mrns",
    "text",
).with_postgresql(
    """
    SELECT o.id, o.placer, o.filler FROM unnest(%(mrns)s::text[]) AS patients (mrn)
    CROSS JOIN LATERAL (
        SELECT id, placer, filler FROM bridge_order
        WHERE site = %(site)s AND mrn = patients.mrn OFFSET 0
    ) AS o
    """
)
_CHUNK = 200  # keys per statement


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
    Group keys into a site and chunks of accessions, as the statements need them.

    SQLite scans the whole table for `(a, b, c) IN (VALUES …)`. The caller removes other patients
    with the same accession.
    """
    wanted = sorted(dict.fromkeys(keys), key=attrgetter("site"))
    for site, own in groupby(wanted, key=attrgetter("site")):
        accessions = list(dict.fromkeys(key.accession for key in own))
        for start in range(0, len(accessions), _CHUNK):
            yield site, accessions[start : start + _CHUNK]


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
        own = set().union(*(names[site, each] for each in accessions))
        bound = bind_list(connection, "text", list(own))
        found += execute_keys(connection, _NAMED, accessions, site=site, names=bound)
    return found


def find_for_delivery(
    connection: Connection, reports: Mapping[OrderKey, Collection[str]]
) -> dict[OrderKey, Order]:
    """
    Read orders for results, by keys with report ids: no signals, and one statement per site.

    If a merge changed the MRN, the order of the merged patient or of the same report is returned.
    """
    wanted = reports.keys()
    statements = [
        bind_keys(connection, _BY_ACCESSION, some, site=site)
        for site, some in accessions_by_site(wanted)
    ]
    by_accession: defaultdict[tuple[str, str], list[Row[Any]]] = defaultdict(list)
    for row in chain.from_iterable(execute_all(connection, statements)):
        by_accession[row.site, row.accession].append(row)
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
    current = merged_patients.current_identifiers(connection, patients)
    found: dict[OrderKey, Row[Any]] = {}
    for key, some in candidates.items():
        mrn, own = current[key.site, key.mrn], reports[key]
        same = [r for r in some if current[r.site, r.mrn] == mrn or r.report_id in own]
        if len(same) == 1:
            found[key] = same[0]
    return found


def find_by_number(
    connection: Connection, patients: Iterable[tuple[str, str]], numbers: Iterable[str]
) -> list[Order]:
    """Read the orders of these patients (site, MRN) with one of these numbers."""
    requested = set(numbers)
    if not requested:
        return []
    ids = [
        row.id
        for site, mrns in _patients_by_site(patients)
        for row in execute_keys(connection, ORDER_NUMBERS, mrns, site=site)
        if row.placer in requested or row.filler in requested
    ]
    found = connection.execute(select(ORDERS).where(ORDERS.c.id.in_(ids))).all() if ids else []
    return _with_signals(connection, found)


def find_by_patient(connection: Connection, patients: Iterable[tuple[str, str]]) -> list[Order]:
    """Read all orders of these patients (site, MRN)."""
    return _with_signals(connection, _rows_of_patients(connection, patients))


def _rows_of_patients(
    connection: Connection, patients: Iterable[tuple[str, str]]
) -> list[Row[Any]]:
    found: list[Row[Any]] = []
    for site, mrns in _patients_by_site(patients):
        for start in range(0, len(mrns), _CHUNK):
            some = ORDERS.c.mrn.in_(mrns[start : start + _CHUNK])
            found += connection.execute(select(ORDERS).where(ORDERS.c.site == site, some)).all()
    return found


def _patients_by_site(patients: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    for site, own in groupby(sorted(set(patients)), key=itemgetter(0)):
        yield site, [mrn for _, mrn in own]


def find_by_signal(connection: Connection, signals: Iterable[int]) -> list[Order]:
    wanted = list(set(signals))
    found: dict[int, Row[Any]] = {}
    for start in range(0, len(wanted), _CHUNK):
        some = wanted[start : start + _CHUNK]
        found |= {row.id: row for row in execute_keys(connection, _BY_SIGNAL, some)}
    return _with_signals(connection, list(found.values()))


def ids_merged_from(connection: Connection, site: str, mrn: str, prior_mrn: str) -> list[int]:
    """Return the row ids of a patient's orders that a merge moved from another number."""
    statement = (
        select(ORDERS.c.id)
        .join(_signal, _signal.c.order_id == ORDERS.c.id)
        .where(ORDERS.c.site == site, ORDERS.c.mrn == mrn)
        .where(_signal.c.kind == MERGED_FROM, _signal.c.signal == merged_hash(prior_mrn))
    )
    return list(connection.execute(statement).scalars())


def find_related(
    connection: Connection, patients: Iterable[tuple[str, str]], signals: Iterable[int]
) -> list[Order]:
    """
    Read the orders of these patients (site, MRN) with one of these signals.

    Starts from the patients, because some senders give the orders of all patients the same signal,
    such as a constant parent number.
    """
    wanted = set(signals)
    own = (
        execute_keys(connection, ORDER_NUMBERS, mrns, site=site)
        for site, mrns in _patients_by_site(patients)
    )
    ids = [row.id for rows in own for row in rows]
    with_signal = {
        each.order_id
        for start in range(0, len(ids), _CHUNK)
        for each in execute_keys(connection, _SIGNALS_OF, ids[start : start + _CHUNK])
        if each.signal in wanted
    }
    found: list[Row[Any]] = []
    for start in range(0, len(ids), _CHUNK):
        some = [each for each in ids[start : start + _CHUNK] if each in with_signal]
        if some:
            found += connection.execute(select(ORDERS).where(ORDERS.c.id.in_(some))).all()
    return _with_signals(connection, found)


def move_patient(connection: Connection, site: str, prior_mrn: str, mrn: str) -> None:
    """Move a patient's orders to the survivor; those that the survivor has too are deleted."""
    taken = select(ORDERS.c.accession).where(ORDERS.c.site == site, ORDERS.c.mrn == mrn)
    own = (ORDERS.c.site == site, ORDERS.c.mrn == prior_mrn)
    connection.execute(
        update(ORDERS)
        .where(*own, ORDERS.c.accession.not_in(taken.scalar_subquery()))
        .values(mrn=mrn)
    )
    _delete(connection, [row.id for row in connection.execute(select(ORDERS.c.id).where(*own))])


def delete_orders(connection: Connection, keys: Iterable[OrderKey]) -> None:
    """Delete orders that were combined with another one."""
    _delete(connection, [row.id for row in rows_of(connection, keys)])


def _delete(connection: Connection, ids: Sequence[int]) -> None:
    if ids:
        connection.execute(delete(_signal).where(_signal.c.order_id.in_(ids)))
        connection.execute(delete(ORDERS).where(ORDERS.c.id.in_(ids)))


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
    ids = [row.id for row in rows]
    for start in range(0, len(ids), _CHUNK):
        for row in execute_keys(connection, _SIGNALS_OF, ids[start : start + _CHUNK]):
            signals[row.order_id][row.kind].add(row.signal)
    return [_read(row, signals.get(row.id, {})) for row in rows]


def _read(row: Row[Any], signals: Mapping[str, Collection[int]]) -> Order:
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


_NEXT_SITE = text("SELECT min(site) FROM bridge_order WHERE site > :site")
_ORDERED: Select[Any] = select(ORDERS.c.id, ORDERS.c.site, ORDERS.c.mrn, ORDERS.c.accession).where(
    ORDERS.c.state == "ordered"
)


def states(connection: Connection, keys: Iterable[OrderKey]) -> dict[OrderKey, tuple[int, str]]:
    """Return the row id and state of the orders of these keys; unknown ones are absent."""
    return {
        OrderKey(row.site, row.mrn, row.accession): (row.id, row.state)
        for row in rows_of(connection, keys)
    }


def sites(connection: Connection) -> list[str]:
    """List the sites that have orders, with one index look-up for each."""
    found: list[str] = []
    while (
        site := connection.execute(_NEXT_SITE, {"site": found[-1] if found else ""}).scalar()
    ) is not None:
        found.append(site)
    return found


def ordered_page(connection: Connection, after: int, limit: int) -> list[tuple[int, OrderKey]]:
    """Return keys in state `ordered` by row id, for reading all of them in pages."""
    statement = _ORDERED.where(ORDERS.c.id > after).order_by(ORDERS.c.id).limit(limit)
    return _keys(connection, statement)


def ordered_keys(connection: Connection, ids: Iterable[int]) -> list[tuple[int, OrderKey]]:
    """Return the keys of these rows; rows in another state than `ordered` are left out."""
    return _keys(connection, _ORDERED.where(ORDERS.c.id.in_(list(ids))).order_by(ORDERS.c.id))


def _keys(connection: Connection, statement: Select[Any]) -> list[tuple[int, OrderKey]]:
    return [
        (row.id, OrderKey(row.site, row.mrn, row.accession))
        for row in connection.execute(statement)
    ]


_ORDER_COLUMNS: Final = (
    *((name, "text") for name in ("site", "mrn", "accession", "state", "placer", "filler")),
    *((name, "text") for name in ("tags", "echo", "report_id")),
    ("first_message", "bigint"),
    ("place", "integer"),
    *((name, "bigint") for name in ("last_message", "state_changed_at", "state_clock")),
    *((name, "bigint") for name in ("tags_sent_at", "tags_clock", "opened_at", "opened_clock")),
)
_SIGNAL_COLUMNS: Final = (("order_id", "bigint"), ("kind", "text"), ("signal", "bigint"))
_REPORT_COLUMNS: Final = tuple((name, "text") for name in ("site", "mrn", "accession", "report_id"))

_Columns = Sequence[tuple[str, str]]


def _names_of(columns: _Columns) -> str:
    return ", ".join(name for name, _ in columns)


def _parameters_of(columns: _Columns) -> str:
    return ", ".join("?" for _ in columns)


def _types_of(columns: _Columns) -> tuple[str, ...]:
    return tuple(kind for _, kind in columns)


_ORDER_NAMES, _ORDER_TYPES = _names_of(_ORDER_COLUMNS), _types_of(_ORDER_COLUMNS)
_SIGNAL_NAMES, _SIGNAL_TYPES = _names_of(_SIGNAL_COLUMNS), _types_of(_SIGNAL_COLUMNS)
_UPDATED_COLUMNS = ", ".join(
    f"{name} = excluded.{name}"
    for name, _ in _ORDER_COLUMNS
    if name not in {"site", "mrn", "accession", "first_message", "place"}
)
_ON_CONFLICT = f"ON CONFLICT (site, accession, mrn) DO UPDATE SET {_UPDATED_COLUMNS}"

# Only our own names are formatted into the texts.
SAVE_ORDER: Final = BulkStatement(
    _ORDER_TYPES,
    f"INSERT INTO bridge_order ({_ORDER_NAMES})"  # noqa: S608  # see above
    f" VALUES ({_parameters_of(_ORDER_COLUMNS)}) {_ON_CONFLICT}",
    f"INSERT INTO bridge_order ({_ORDER_NAMES})"  # noqa: S608  # see above
    f" SELECT * FROM {unnest(_ORDER_TYPES)} {_ON_CONFLICT} RETURNING id, site, mrn, accession",
)
INSERT_SIGNALS: Final = BulkStatement(
    _SIGNAL_TYPES,
    f"INSERT INTO order_signal ({_SIGNAL_NAMES}) VALUES ({_parameters_of(_SIGNAL_COLUMNS)})",  # noqa: S608  # see above
    f"INSERT INTO order_signal ({_SIGNAL_NAMES}) SELECT * FROM {unnest(_SIGNAL_TYPES)}",  # noqa: S608  # see above
)
SET_REPORT: Final = BulkStatement(
    _types_of(_REPORT_COLUMNS),
    "UPDATE bridge_order SET report_id = ?4"
    " WHERE site = ?1 AND mrn = ?2 AND accession = ?3 AND report_id <> ?4",
    f"""
    UPDATE bridge_order AS o SET report_id = new.report_id
    FROM {unnest(_types_of(_REPORT_COLUMNS))} AS new ({_names_of(_REPORT_COLUMNS)})
    WHERE o.site = new.site AND o.mrn = new.mrn AND o.accession = new.accession
        AND o.report_id <> new.report_id
    """,  # noqa: S608  # see above
)
READ_IDS: Final = key_statement(
    "SELECT id, site, mrn, accession FROM bridge_order WHERE site = :site AND accession IN :keys",
    "keys",
    "text",
)
DELETE_SIGNALS: Final = key_statement("DELETE FROM order_signal WHERE order_id IN :ids")


def save(connection: Connection, orders: Sequence[Order]) -> None:
    """Insert or replace orders with their signals; of several with one key, the last one."""
    if len({order.key for order in orders}) < len(orders):  # a merge can give two orders one key
        for order in orders:
            _save(connection, [order])
    elif orders:
        _save(connection, orders)


def _save(connection: Connection, orders: Sequence[Order]) -> None:
    stored = execute_rows(connection, SAVE_ORDER, [_values(order) for order in orders])
    if is_postgresql(connection) and stored is not None:
        ids = {OrderKey(row.site, row.mrn, row.accession): row.id for row in stored}
    else:
        ids = _ids(connection, [order.key for order in orders])
    row_ids = [ids[order.key] for order in orders]
    execute_keys(connection, DELETE_SIGNALS, row_ids)
    signals = [
        (row_id, *signal)
        for row_id, order in zip(row_ids, orders, strict=True)
        for signal in _signals_of(order)
    ]
    execute_rows(connection, INSERT_SIGNALS, signals)


def set_reports(connection: Connection, reports: Mapping[OrderKey, str]) -> None:
    """Store the report of each order; unknown orders are ignored."""
    for bound in bind_reports(connection, reports):
        execute_bound(connection, bound)


def bind_reports(connection: Connection, reports: Mapping[OrderKey, str]) -> list[BoundStatement]:
    """Return the statements of `set_reports`, to execute with others."""
    rows = [
        (key.site, key.mrn, key.accession, report_id) for key, report_id in sorted(reports.items())
    ]
    return [bind_rows(connection, SET_REPORT, rows)] if rows else []


def _ids(connection: Connection, keys: Sequence[OrderKey]) -> dict[OrderKey, int]:
    return {
        OrderKey(row.site, row.mrn, row.accession): row.id
        for site, accessions in accessions_by_site(keys)
        for row in execute_keys(connection, READ_IDS, accessions, site=site)
    }


def _values(order: Order) -> tuple[Any, ...]:
    return (
        order.key.site,
        order.key.mrn,
        order.key.accession,
        order.state,
        order.placer,
        order.filler,
        json.dumps(dict(order.tags)),
        json.dumps(order.echo),
        order.report_id,
        order.first_message,
        order.position,
        order.last_message,
        *columns(order.state_changed_at),
        *columns(order.tags_sent_at),
        *columns(order.opened_at),
    )


def columns(time: MessageTime | None) -> tuple[int | None, int | None]:
    return (None, None) if time is None else (time.at, time.clock)
