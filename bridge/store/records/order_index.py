"""
The order index: what the bridge stores of each order, for linking and for results.

Intake writes it, delivery reads it. It is small: the report engine stores the reports, the queue
stores the messages.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    Row,
    Table,
    Text,
    delete,
    select,
    update,
)

from bridge.store.columns import BIG_KEY
from bridge.store.records import merged_patients
from bridge.store.records.message_time import MessageTime, stored
from bridge.store.statements import bind_keys, bind_list, execute_all, execute_keys, key_statement

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


class OrderIndexKey(NamedTuple):
    """SiteID, PatientMRN, Accession."""

    site: str
    mrn: str
    accession: str


class SignalHash(NamedTuple):
    """A link signal: its kind and the hash of its value."""

    kind: str
    signal: int


@dataclass(frozen=True, slots=True)
class IndexedOrder:
    """
    An order. `tags` are all clinicalInfo tags with Metadata. `echo` has the segments for results.

    `first_message` and `position` (in that message) tell which order came first. The
    three times are message times (MSH-7). `opened_at` is that of the newest order or release.
    `tags_sent_at` (with the column `tags_clock`) is that of the newest message with tags.
    `state_changed_at` (with the column `state_clock`) is that of the present hold or
    cancellation, or of the release or examination of an open order.
    """

    key: OrderIndexKey
    state: str
    first_message: int
    last_message: int
    position: int = 0
    placer: str = ""
    filler: str = ""
    tags: Mapping[str, Any] = field(default_factory=dict)
    echo: tuple[str, ...] = ()
    report_id: str = ""
    state_changed_at: MessageTime | None = None
    tags_sent_at: MessageTime | None = None
    opened_at: MessageTime | None = None
    signals: frozenset[SignalHash] = frozenset()


def find(
    connection: Connection, keys: Iterable[OrderIndexKey]
) -> dict[OrderIndexKey, IndexedOrder]:
    """Read the orders of these keys; unknown ones are absent."""
    return {order.key: order for order in _with_signals(connection, rows_of(connection, keys))}


def find_with_others(
    connection: Connection, wanted: Mapping[OrderIndexKey, Collection[str]]
) -> tuple[dict[OrderIndexKey, IndexedOrder], list[IndexedOrder]]:
    """
    Read the orders of these keys, and orders of other patients with the accession and one of the
    placer or filler numbers that `wanted` has for a key.
    """
    found = _with_signals(connection, _rows_by_accession(connection, wanted))
    own = {order.key: order for order in found if order.key in wanted}
    return own, [order for order in found if order.key not in wanted]


def accessions_by_site(keys: Iterable[OrderIndexKey]) -> Iterator[tuple[str, list[str]]]:
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


def rows_of(connection: Connection, keys: Iterable[OrderIndexKey]) -> list[Row[Any]]:
    wanted = set(keys)
    return [
        row
        for row in _rows_by_accession(connection, dict.fromkeys(wanted, ()))
        if OrderIndexKey(row.site, row.mrn, row.accession) in wanted
    ]


def _rows_by_accession(
    connection: Connection, wanted: Mapping[OrderIndexKey, Collection[str]]
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
    connection: Connection, reports: Mapping[OrderIndexKey, Collection[str]]
) -> dict[OrderIndexKey, IndexedOrder]:
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
    return {key: _read(row, frozenset()) for key, row in found.items()}


def _rows_of_merged_patients(
    connection: Connection,
    candidates: Mapping[OrderIndexKey, Sequence[Row[Any]]],
    reports: Mapping[OrderIndexKey, Collection[str]],
) -> dict[OrderIndexKey, Row[Any]]:
    patients = {(key.site, key.mrn) for key in candidates}
    patients |= {(row.site, row.mrn) for rows in candidates.values() for row in rows}
    current = merged_patients.current_identifiers(connection, patients)
    found: dict[OrderIndexKey, Row[Any]] = {}
    for key, some in candidates.items():
        mrn, own = current[key.site, key.mrn], reports[key]
        same = [r for r in some if current[r.site, r.mrn] == mrn or r.report_id in own]
        if len(same) == 1:
            found[key] = same[0]
    return found


def find_by_number(
    connection: Connection, patients: Iterable[tuple[str, str]], numbers: Iterable[str]
) -> list[IndexedOrder]:
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


def find_by_patient(
    connection: Connection, patients: Iterable[tuple[str, str]]
) -> list[IndexedOrder]:
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


def find_by_signal(connection: Connection, signals: Iterable[int]) -> list[IndexedOrder]:
    wanted = list(set(signals))
    found: dict[int, Row[Any]] = {}
    for start in range(0, len(wanted), _CHUNK):
        some = wanted[start : start + _CHUNK]
        found |= {row.id: row for row in execute_keys(connection, _BY_SIGNAL, some)}
    return _with_signals(connection, list(found.values()))


def ids_with_signal(connection: Connection, site: str, mrn: str, wanted: SignalHash) -> list[int]:
    """Return the row ids of a patient's orders with a signal."""
    statement = (
        select(ORDERS.c.id)
        .join(_signal, _signal.c.order_id == ORDERS.c.id)
        .where(ORDERS.c.site == site, ORDERS.c.mrn == mrn)
        .where(_signal.c.kind == wanted.kind, _signal.c.signal == wanted.signal)
    )
    return list(connection.execute(statement).scalars())


def find_related(
    connection: Connection, patients: Iterable[tuple[str, str]], signals: Iterable[int]
) -> list[IndexedOrder]:
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


def delete_orders(connection: Connection, keys: Iterable[OrderIndexKey]) -> None:
    """Delete orders that were combined with another one."""
    _delete(connection, [row.id for row in rows_of(connection, keys)])


def _delete(connection: Connection, ids: Sequence[int]) -> None:
    if ids:
        connection.execute(delete(_signal).where(_signal.c.order_id.in_(ids)))
        connection.execute(delete(ORDERS).where(ORDERS.c.id.in_(ids)))


def _with_signals(connection: Connection, rows: Sequence[Row[Any]]) -> list[IndexedOrder]:
    signals: defaultdict[int, set[SignalHash]] = defaultdict(set)
    ids = [row.id for row in rows]
    for start in range(0, len(ids), _CHUNK):
        chunk = ids[start : start + _CHUNK]
        for each in execute_keys(connection, _SIGNALS_OF, chunk):
            signals[each.order_id].add(SignalHash(each.kind, each.signal))
    return [_read(row, frozenset(signals[row.id])) for row in rows]


def _read(row: Row[Any], signals: frozenset[SignalHash]) -> IndexedOrder:
    return IndexedOrder(
        key=OrderIndexKey(row.site, row.mrn, row.accession),
        state=row.state,
        first_message=row.first_message,
        last_message=row.last_message,
        position=row.place,
        placer=row.placer,
        filler=row.filler,
        tags=json.loads(row.tags),
        echo=tuple(json.loads(row.echo)),
        report_id=row.report_id,
        state_changed_at=stored(row.state_changed_at, row.state_clock),
        tags_sent_at=stored(row.tags_sent_at, row.tags_clock),
        opened_at=stored(row.opened_at, row.opened_clock),
        signals=signals,
    )
