"""
Write a batch of arrivals in one go: the hot path.

Tuples and the driver's own cursor, no ORM, no object for each row. Within the caller's
transaction; decides nothing but leaves that to `admission`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bridge.queue import statements as sql
from bridge.queue.admission import Ruling, Stored, rule, short
from bridge.queue.arrivals import Arrival, Flag, Receipt
from bridge.queue.states import State
from bridge.store.database import Database

_Row = tuple[Any, ...]  # the values of statements.COLUMNS, then payload and acknowledgment
_LANE_1, _LANE_2, _STATE = (
    [name for name, _ in sql.COLUMNS].index(name) for name in ("lane_1", "lane_2", "state")
)
_KEY_REUSED = ("205", "MSH-10")  # HL7 table 0357: duplicate key identifier


def admit(database: Database, connection: Connection, arrivals: Sequence[Arrival]) -> list[Receipt]:
    """Store what is new, look up what is not; give one receipt for each arrival, in order."""
    cursor = database.driver(connection).cursor()
    try:
        known, insert = _PATHS[database.dialect]
        rulings = rule(arrivals, known(cursor, list({each.identity for each in arrivals})))
        pairs = zip(arrivals, rulings, strict=True)
        rows = [_row(arrival, ruling) for arrival, ruling in pairs if ruling.is_new]
        ids = iter(insert(cursor, rows) if rows else ())
    finally:
        cursor.close()
    new_ids = [next(ids) if ruling.is_new else 0 for ruling in rulings]
    copies = {_original(ruling, new_ids) for ruling in rulings if not ruling.is_new}
    acks = _repeat(connection, copies) if copies else {}
    return [
        _receipt(arrival, ruling, message_id)
        if ruling.is_new
        else _repeated(_original(ruling, new_ids), acks)
        for arrival, ruling, message_id in zip(arrivals, rulings, new_ids, strict=True)
    ]


def _row(arrival: Arrival, ruling: Ruling) -> _Row:
    """Lay an arrival out as statements.COLUMNS says."""
    refused = _refused_for_reuse(arrival, ruling)
    lanes = (*arrival.lanes, None, None)
    code, place = _KEY_REUSED if refused else (arrival.error_code, arrival.error_place)
    return (
        arrival.received_at,
        arrival.listener,
        arrival.identity,
        short(arrival.digest),
        ruling.edition,
        arrival.message_type,
        arrival.mapping,
        arrival.mapping_version,
        lanes[0],
        lanes[1],
        arrival.flags | _flags(ruling),
        arrival.refuse_reuse_code if refused else arrival.ack_code,
        arrival.acknowledgment.value,
        code,
        place,
        State.REFUSED.value if refused else arrival.state.value,
        arrival.payload,
        arrival.refuse_reuse if refused else arrival.ack,
    )


def _flags(ruling: Ruling) -> int:
    reused = Flag.REUSED_CONTROL_ID.value if ruling.reused else 0
    return reused | (Flag.CORRECTED.value if ruling.edition else 0)


def _refused_for_reuse(arrival: Arrival, ruling: Ruling) -> bool:
    return ruling.reused and arrival.refuse_reuse is not None


def _receipt(arrival: Arrival, ruling: Ruling, message_id: int) -> Receipt:
    if arrival.refuse_reuse is not None and ruling.reused:
        ack, code = arrival.refuse_reuse, arrival.refuse_reuse_code
    else:
        ack, code = arrival.ack, arrival.ack_code
    return Receipt(message_id, ack, code, duplicate=False, reused=ruling.reused)


def _repeated(original: int, acks: Mapping[int, tuple[bytes, str]]) -> Receipt:
    ack, code = acks[original]
    return Receipt(original, ack, code, duplicate=True, reused=False)


def _original(ruling: Ruling, new_ids: Sequence[int]) -> int:
    """Give the id of the message that a copy repeats."""
    if ruling.stored is not None:
        return ruling.stored
    assert ruling.twin is not None  # noqa: S101  # what is not new is one or the other
    return new_ids[ruling.twin]


def _repeat(connection: Connection, ids: set[int]) -> dict[int, tuple[bytes, str]]:
    """Note that these were sent again, and give the acknowledgments that are owed again."""
    parameters = {"ids": sorted(ids)}
    connection.execute(sql.RETRANSMITTED, parameters)
    return {
        row.message_id: (bytes(row.ack), row.ack_code)
        for row in connection.execute(sql.STORED_ACKS, parameters)
    }


def _known_sqlite(cursor: Any, identities: list[int]) -> list[Stored]:
    # One text for any number of them: JSON carries 64-bit integers whole.
    cursor.execute(sql.SQLITE_KNOWN, (json.dumps(identities),))
    return [Stored(*row) for row in cursor.fetchall()]


def _insert_sqlite(cursor: Any, rows: list[_Row]) -> list[int]:
    cursor.execute(sql.SQLITE_LAST_ID)
    first = cursor.fetchone()[0] + 1  # we are the only writer until the commit
    width = len(sql.COLUMNS)
    numbered = list(enumerate(rows, first))
    cursor.executemany(sql.SQLITE_MESSAGE, [(i, *row[:width]) for i, row in numbered])
    cursor.executemany(sql.SQLITE_BODY, [(i, *row[width:]) for i, row in numbered])
    places = [
        (lane, i)
        for i, row in numbered
        if row[_STATE] == State.QUEUED
        for lane in (row[_LANE_1], row[_LANE_2])
        if lane is not None
    ]
    cursor.executemany(sql.SQLITE_LANE, places)
    return [i for i, _ in numbered]


def _known_postgres(cursor: Any, identities: list[int]) -> list[Stored]:
    cursor.execute(sql.POSTGRES_KNOWN, (identities,), prepare=True)
    return [Stored(*row) for row in cursor.fetchall()]


def _insert_postgres(cursor: Any, rows: list[_Row]) -> list[int]:
    columns = [list(column) for column in zip(*rows, strict=True)]
    cursor.execute(sql.POSTGRES_INSERT, columns, prepare=True)
    return [row[0] for row in cursor.fetchall()]


_Known = Callable[[Any, list[int]], list[Stored]]
_Insert = Callable[[Any, list[_Row]], list[int]]
_PATHS: Mapping[str, tuple[_Known, _Insert]] = {
    "sqlite": (_known_sqlite, _insert_sqlite),
    "postgresql": (_known_postgres, _insert_postgres),
}
