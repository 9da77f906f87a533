"""
The tables of the message log: store arrivals, find retransmits, and pass messages to the queue.

On PostgreSQL the log and the queue are the same tables. On SQLite the log is a file of its own
beside the bridge's database, which the processes that receive messages write, and operators with
edited copies. So nothing that the service does to its database can delay an acknowledgment. The
service copies new messages into the queue (`pull`) before it claims. The log deletes them (`prune`)
when the copies are on the disk.

Ids of messages are given by the log. They are never reused, even if all newer rows have been
deleted or an older copy of one of the files was restored.

The statements run on the driver's cursor; tests check the query plans of these texts. One text
serves any number of rows, so that it is prepared once. Blocking: call from a thread.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, NamedTuple

import structlog
from sqlalchemy import Connection
from typing_extensions import override

from bridge.queue.arrivals import Arrival, MessageFlag, Receipt
from bridge.queue.deduplication import NEW_MESSAGE, AdmissionDecision, StoredMessage, decide
from bridge.queue.digests import stored_digest
from bridge.queue.statements import ENTERED_UP_TO, INBOX, SET_ENTERED_UP_TO
from bridge.queue.states import QueueState
from bridge.queue.wakeup import CHANNEL
from bridge.store import sqlite
from bridge.store.database import Database
from bridge.store.errors import StoreError, StoreUnavailable
from bridge.store.postgresql.connection import LOCK_ALL, NOTIFY, BinaryArray, binary_arrays
from bridge.store.statements import execute, execute_keys, execute_sql, key_statement

_log = structlog.get_logger("message log")

_KEY_REUSED = ("205", "MSH-10")  # HL7 table 0357: duplicate key identifier

COLUMNS: Final = (
    ("received_at", "bigint"),
    ("listener", "text"),
    ("identity", "bigint"),
    ("digest", "bigint"),
    ("edition", "integer"),
    ("message_type", "text"),
    ("mapping", "text"),
    ("mapping_version", "text"),
    ("lane_1", "bigint"),
    ("lane_2", "bigint"),
    ("flags", "integer"),
    ("ack_code", "text"),
    ("acknowledgment", "text"),
    ("error_code", "text"),
    ("error_place", "text"),
    ("state", "text"),
)
"""Columns of an arrival, in this order. Payload and acknowledgment follow."""

Row = tuple[Any, ...]
"""The values of COLUMNS, then payload and acknowledgment."""

_NAMES = ", ".join(name for name, _ in COLUMNS)
_WIDTH = len(COLUMNS)


class MessageEdit(NamedTuple):
    """Why an operator's edited copy was sent; `at` is in ms."""

    origin_id: int
    at: int
    email: str
    reason: str


class LogTables(ABC):
    """The log of one database. Its transactions yield a cursor of the driver."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.writer = database.writer()

    def close(self) -> None:
        """Return the connection of the log."""
        self.writer.close()

    def transaction(self) -> AbstractContextManager[Any]:
        """Yield a cursor in a write transaction of the log. Errors as for `Database.write`."""
        return self.writer.transaction()

    def store(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """Store all arrivals durably, or none; return one receipt for each, in order."""
        with self.transaction() as cursor:
            return self.admit(cursor, arrivals)

    def admit(self, cursor: Any, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """As `store`, in the caller's transaction."""
        identities = [arrival.identity for arrival in arrivals]
        decisions = decide(arrivals, self.known(cursor, identities))
        rows = [
            _row(arrival, decision)
            for arrival, decision in zip(arrivals, decisions, strict=True)
            if decision.is_new
        ]
        ids = iter(self.insert(cursor, rows) if rows else ())
        new_ids = [next(ids) if decision.is_new else 0 for decision in decisions]
        originals = {_original_id(decision, new_ids) for decision in decisions if decision.is_copy}
        acks = self.retransmitted(cursor, sorted(originals)) if originals else {}
        receipts: list[Receipt] = []
        for arrival, decision, message_id in zip(arrivals, decisions, new_ids, strict=True):
            if decision.first_part is not None:
                receipts.append(receipts[decision.first_part])
            elif decision.is_copy:
                receipts.append(_repeated_receipt(_original_id(decision, new_ids), acks))
            else:
                receipts.append(_receipt(arrival, decision, message_id))
        return receipts

    @abstractmethod
    def known(self, cursor: Any, identities: list[int]) -> list[StoredMessage]:
        """Find all messages that have one of these identities."""

    @abstractmethod
    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        """Store messages; return their ids in the same order."""

    @abstractmethod
    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        """Count retransmits; return the stored acknowledgment and code of each message."""

    @abstractmethod
    def add_edit(self, cursor: Any, message_id: int, edit: MessageEdit) -> None:
        """Store who edited a message, in the transaction that stored it."""

    @abstractmethod
    def serialize(self, cursor: Any, key: int) -> None:
        """Let no other transaction of any node decide about this key until this one ends."""

    @abstractmethod
    def announce(self, cursor: Any) -> None:
        """Notify the workers of other processes of new messages, at the commit."""

    @abstractmethod
    def lanes_of(self, cursor: Any, message_id: int) -> tuple[int, ...]:
        """Return the lanes of a stored message."""

    def prune(self) -> bool:
        """Delete messages that the queue has durably; return whether some are left."""
        return False


def _row(arrival: Arrival, decision: AdmissionDecision) -> Row:
    """Return an arrival as a row of COLUMNS."""
    refused = decision.reused and arrival.refuse_reuse is not None
    lanes = (*arrival.lanes, None, None)
    code, place = _KEY_REUSED if refused else (arrival.error_code, arrival.error_place)
    return (
        arrival.received_at,
        arrival.listener,
        arrival.identity,
        stored_digest(arrival.digest),
        decision.edition,
        arrival.message_type,
        arrival.mapping,
        arrival.mapping_version,
        lanes[0],
        lanes[1],
        _flags(arrival, decision),
        arrival.refuse_reuse_code if refused else arrival.ack_code,
        arrival.acknowledgment.value,
        code,
        place,
        QueueState.REFUSED.value if refused else arrival.state.value,
        arrival.payload,
        arrival.refuse_reuse if refused else arrival.ack,
    )


def _flags(arrival: Arrival, decision: AdmissionDecision) -> int:
    flags = int(arrival.flags)
    if decision.reused:
        flags |= MessageFlag.REUSED_CONTROL_ID.value
    return flags | MessageFlag.CORRECTED.value if decision.edition else flags


def _receipt(arrival: Arrival, decision: AdmissionDecision, message_id: int) -> Receipt:
    if arrival.refuse_reuse is not None and decision.reused:
        ack, code = arrival.refuse_reuse, arrival.refuse_reuse_code
    else:
        ack, code = arrival.ack, arrival.ack_code
    return Receipt(message_id, ack, code, duplicate=False, reused=decision.reused)


def _repeated_receipt(original: int, acks: Mapping[int, tuple[bytes, str]]) -> Receipt:
    ack, code = acks[original]
    return Receipt(original, ack, code, duplicate=True, reused=False)


def _original_id(decision: AdmissionDecision, new_ids: Sequence[int]) -> int:
    """Return the id of the message that a retransmit repeats."""
    if decision.stored is not None:
        return decision.stored
    assert decision.batch_position is not None  # noqa: S101  # a retransmit has one of the two
    return new_ids[decision.batch_position]


_ARRAYS = ", ".join(f"%b::{kind}[]" for kind in (*dict(COLUMNS).values(), "bytea", "bytea"))
_KINDS = (*(kind for _, kind in COLUMNS), "bytea", "bytea")
_GIVEN = f"""
    SELECT * FROM unnest({_ARRAYS}) WITH ORDINALITY AS t ({_NAMES}, payload, ack, place)
"""  # noqa: S608  # our own names
_STORED = f"""
    numbered AS MATERIALIZED (
        SELECT nextval('message_ids') AS id, g.* FROM (SELECT * FROM given ORDER BY place) AS g
    ), identities AS (
        INSERT INTO message_identity (identity, digest, edition, message_id, ack_code)
        SELECT identity, digest, edition, id, ack_code FROM numbered
    ), messages AS (
        INSERT INTO message (id, {_NAMES}) SELECT id, {_NAMES} FROM numbered
    ), bodies AS (
        INSERT INTO message_body (message_id, payload, ack) SELECT id, payload, ack FROM numbered
    ), lanes AS (
        INSERT INTO message_lane (lane, message_id)
        SELECT lane_1, id FROM numbered WHERE state = 'queued' AND lane_1 IS NOT NULL
        UNION ALL
        SELECT lane_2, id FROM numbered WHERE state = 'queued' AND lane_2 IS NOT NULL
    )
    SELECT id FROM numbered ORDER BY id
"""  # noqa: S608  # our own names
# One round trip for a whole batch. Ids are drawn in the order of the batch.
POSTGRES_INSERT = f"WITH given AS MATERIALIZED ({_GIVEN}), {_STORED}"
# Stores nothing if an identity is known. LATERAL with OFFSET 0 forces an index lookup for each
# identity: without statistics PostgreSQL would compare all stored rows with the batch.
POSTGRES_INSERT_NEW = f"""
    WITH arrivals AS MATERIALIZED ({_GIVEN}), known AS MATERIALIZED (
        SELECT 1 FROM arrivals CROSS JOIN LATERAL (
            SELECT 1 FROM message_identity AS i WHERE i.identity = arrivals.identity OFFSET 0
        ) AS i LIMIT 1
    ), given AS MATERIALIZED (
        SELECT * FROM arrivals WHERE NOT EXISTS (SELECT FROM known)
    ), {_STORED}
"""  # noqa: S608  # our own names
# Identities are a separate table on PostgreSQL: partitions share no unique index.
POSTGRES_KNOWN = """
    SELECT i.identity, i.digest, i.edition, i.message_id, i.ack_code
    FROM message_identity AS i WHERE i.identity = ANY(%s)
"""
_COUNT_RETRANSMIT = """retransmits = retransmits + 1,
        acknowledgment = CASE acknowledgment WHEN 'delivered' THEN 'pending'
                                             ELSE acknowledgment END"""
# Ids are parameters in each condition: PostgreSQL prunes partitions by parameters, not by the
# result of a subquery. Settlements lock rows in the same order, so that no deadlock occurs.
POSTGRES_RETRANSMITTED = f"""
    UPDATE message SET {_COUNT_RETRANSMIT}
    WHERE id = ANY(%(ids)s::bigint[]) AND id IN (
        SELECT id FROM message WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR UPDATE
    )
"""  # noqa: S608  # our own text
POSTGRES_STORED_ACKS = """
    SELECT b.message_id, b.ack, m.ack_code FROM message_body AS b
    JOIN message AS m ON m.id = b.message_id
    WHERE b.message_id = ANY(%(ids)s::bigint[]) AND m.id = ANY(%(ids)s::bigint[])
"""
_INSERT_EDIT = """
    INSERT INTO message_edit (message_id, origin_id, at, email, reason)
    VALUES (:message_id, :origin_id, :at, :email, :reason)
"""
_POSTGRES_LANES = "SELECT lane_1, lane_2 FROM message WHERE id = %s"
_POSTGRES_EDIT = """
    INSERT INTO message_edit (message_id, origin_id, at, email, reason)
    VALUES (%s, %s, %s, %s, %s)
"""


def columns_of(rows: Sequence[Row]) -> tuple[BinaryArray, ...]:
    """Return rows as the parameters of PostgreSQL's statements."""
    return binary_arrays(_KINDS, rows)


class PostgresLog(LogTables):
    """The log in the tables of the queue. Messages enter their lanes when they are stored."""

    @override
    def store(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """In one statement and one round trip if no arrival is known, which is the usual case."""
        if len({arrival.identity for arrival in arrivals}) == len(arrivals):
            rows = columns_of([_row(arrival, NEW_MESSAGE) for arrival in arrivals])
            with self.writer.single() as cursor:
                cursor.execute(POSTGRES_INSERT_NEW, rows, prepare=True)
                ids = [row[0] for row in cursor.fetchall()]
            if ids:
                return [
                    _receipt(arrival, NEW_MESSAGE, message_id)
                    for arrival, message_id in zip(arrivals, ids, strict=True)
                ]
        return super().store(arrivals)

    @override
    def known(self, cursor: Any, identities: list[int]) -> list[StoredMessage]:
        cursor.execute(POSTGRES_KNOWN, (identities,), prepare=True)
        return [StoredMessage(*row) for row in cursor.fetchall()]

    @override
    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        cursor.execute(POSTGRES_INSERT, columns_of(rows), prepare=True)
        return [row[0] for row in cursor.fetchall()]

    @override
    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        cursor.execute(POSTGRES_RETRANSMITTED, {"ids": ids}, prepare=True)
        cursor.execute(POSTGRES_STORED_ACKS, {"ids": ids}, prepare=True)
        return _acks(cursor.fetchall())

    @override
    def add_edit(self, cursor: Any, message_id: int, edit: MessageEdit) -> None:
        cursor.execute(_POSTGRES_EDIT, (message_id, *edit))
        self.announce(cursor)

    @override
    def serialize(self, cursor: Any, key: int) -> None:
        cursor.execute(LOCK_ALL, {"keys": [key]})

    @override
    def announce(self, cursor: Any) -> None:
        cursor.execute(NOTIFY, {"channel": CHANNEL, "mark": self.database.notification_id})

    @override
    def lanes_of(self, cursor: Any, message_id: int) -> tuple[int, ...]:
        cursor.execute(_POSTGRES_LANES, (message_id,))
        return _given_lanes(cursor.fetchone())


def _given_lanes(row: tuple[int | None, ...] | None) -> tuple[int, ...]:
    return tuple(lane for lane in row or () if lane is not None)


def _acks(rows: Sequence[tuple[Any, ...]]) -> dict[int, tuple[bytes, str]]:
    return {number: (bytes(ack), code) for number, ack, code in rows}


_TYPED = ", ".join(f"{name} {kind.upper()}" for name, kind in COLUMNS)
_SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS arrival (
        id INTEGER PRIMARY KEY AUTOINCREMENT, {_TYPED}, payload BLOB, ack BLOB,
        original INTEGER, edit TEXT, UNIQUE (identity, digest, edition)
    )
"""
"""Of a retransmit only `original` is set: the id of the message that it repeats."""
_IS_CREATED = "SELECT count(*) FROM sqlite_master WHERE name = 'arrival'"
_LAST_GIVEN = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'arrival'), 0)"
_DELETE_LAST_GIVEN = "DELETE FROM sqlite_sequence WHERE name = 'arrival'"
_SET_LAST_GIVEN = "INSERT INTO sqlite_sequence (name, seq) VALUES ('arrival', ?)"
SQLITE_LAST_ID = """
    SELECT max(coalesce((SELECT max(id) FROM message), 0),
               (SELECT message_id FROM lane_watermark))
"""
SQLITE_ARRIVAL = f"""
    INSERT INTO arrival ({_NAMES}, payload, ack) VALUES (?{", ?" * (_WIDTH + 1)})
"""  # noqa: S608  # our own names
SQLITE_RETRANSMIT = "INSERT INTO arrival (original) VALUES (?)"
SQLITE_KNOWN_IN_LOG = """
    SELECT a.identity, a.digest, a.edition, a.id, a.ack_code
    FROM json_each(?) AS requested CROSS JOIN arrival AS a ON a.identity = requested.value
"""
SQLITE_KNOWN = key_statement("""
    SELECT m.identity, m.digest, m.edition, m.id, m.ack_code
    FROM json_each(:ids) AS requested CROSS JOIN message AS m ON m.identity = requested.value
""")
SQLITE_ACKS_IN_LOG = """
    SELECT id, ack, ack_code FROM arrival
    WHERE id IN (SELECT value FROM json_each(?)) AND original IS NULL
"""
SQLITE_STORED_ACKS = key_statement("""
    SELECT b.message_id, b.ack, m.ack_code FROM message_body AS b
    JOIN message AS m ON m.id = b.message_id WHERE b.message_id IN :ids
""")
_SQLITE_LANES_IN_LOG = "SELECT lane_1, lane_2 FROM arrival WHERE id = ?"
_SQLITE_LANES = "SELECT lane_1, lane_2 FROM message WHERE id = ?"
_ADD_EDIT = "UPDATE arrival SET edit = ? WHERE id = ?"
SQLITE_AFTER = f"""
    SELECT id, {_NAMES}, payload, ack, original, edit FROM arrival WHERE id > ? ORDER BY id LIMIT ?
"""  # noqa: S608  # our own names
SQLITE_FIRST = "SELECT coalesce(min(id), 0) FROM arrival"
_PRUNE = "DELETE FROM arrival WHERE id <= ?"
SQLITE_MESSAGE = f"INSERT INTO message (id, {_NAMES}) VALUES (?{', ?' * _WIDTH})"  # noqa: S608  # our own names
SQLITE_BODY = "INSERT INTO message_body (message_id, payload, ack) VALUES (?, ?, ?)"
SQLITE_RETRANSMITTED = f"UPDATE message SET {_COUNT_RETRANSMIT} WHERE id = ?"  # noqa: S608  # our own text

_STATES = frozenset(QueueState)
_DAMAGED = ("SQLITE_CORRUPT", "message log")
_PULLED_ROWS, _PULLED_BYTES = 1000, 32 * 2**20  # of one transaction
_PRUNED_IDS = 500  # of one transaction: arrivals wait for it


class SQLiteLog(LogTables):
    """The log in a file of its own."""

    def __init__(self, database: Database) -> None:
        self._file = file_of_log(database)
        self._queue = database
        super().__init__(self._file)

    @override
    def known(self, cursor: Any, identities: list[int]) -> list[StoredMessage]:
        """Search the log first: a message leaves it only when the queue has it."""
        cursor.execute(SQLITE_KNOWN_IN_LOG, (json.dumps(identities),))
        found = {StoredMessage(*row) for row in cursor.fetchall()}
        with self._queue.read() as connection:
            rows = execute_keys(connection, SQLITE_KNOWN, identities)
            return [*found.union(StoredMessage(*row) for row in rows)]

    @override
    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        # This transaction is the only writer, so the ids are consecutive.
        cursor.executemany(SQLITE_ARRIVAL, rows)
        last: int = cursor.execute("SELECT last_insert_rowid()").fetchone()[0]
        return range(last - len(rows) + 1, last + 1)

    @override
    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        cursor.executemany(SQLITE_RETRANSMIT, [(message_id,) for message_id in ids])
        cursor.execute(SQLITE_ACKS_IN_LOG, (json.dumps(ids),))
        found = _acks(cursor.fetchall())
        if stored := [message_id for message_id in ids if message_id not in found]:
            with self._queue.read() as connection:
                found |= _acks(execute_keys(connection, SQLITE_STORED_ACKS, stored).all())
        return found

    @override
    def add_edit(self, cursor: Any, message_id: int, edit: MessageEdit) -> None:
        cursor.execute(_ADD_EDIT, (json.dumps(edit._asdict()), message_id))

    @override
    def serialize(self, cursor: Any, key: int) -> None:
        """Do nothing: SQLite has one write transaction at a time."""

    @override
    def announce(self, cursor: Any) -> None:
        """Do nothing: the workers poll."""

    @override
    def lanes_of(self, cursor: Any, message_id: int) -> tuple[int, ...]:
        row = cursor.execute(_SQLITE_LANES_IN_LOG, (message_id,)).fetchone()
        if row is None:
            with self._queue.read() as connection:
                row = next(iter(execute_sql(connection, _SQLITE_LANES, (message_id,)).all()), None)
        return _given_lanes(row)

    @override
    def prune(self) -> bool:
        with self._queue.read() as connection:
            (position,) = execute(connection, ENTERED_UP_TO).scalars()
        with self._file.read() as connection:
            first: Any = execute_sql(connection, SQLITE_FIRST, ()).scalar()
        if first == 0 or first > position:
            return False
        # A claim does not wait for the disk: a power cut could undo what it has copied.
        assert self._queue.file is not None  # noqa: S101  # on SQLite
        sqlite.sync_log(self._queue.file)
        last = min(position, first + _PRUNED_IDS)
        with self.transaction() as cursor:
            cursor.execute(_PRUNE, (last,))
        return bool(last < position)


def file_of_log(database: Database) -> Database:
    """Return the log's database beside the bridge's; create it if it is missing. SQLite only."""
    assert database.file is not None  # noqa: S101  # on SQLite
    return database.beside(sqlite.message_log_of(database.file), _prepare)


def _prepare(log: Database, database: Database) -> None:
    """
    Create the log; let its ids follow those of the queue.

    They follow already unless the log is new or an older copy of it was restored. An earlier
    release stored messages in the queue at once, and let them enter their lanes at a claim.
    """
    with database.read() as connection:
        last: Any = execute_sql(connection, SQLITE_LAST_ID, ()).scalar()
        (entered,) = execute(connection, ENTERED_UP_TO).scalars()
    with log.read() as connection:
        is_created = bool(execute_sql(connection, _IS_CREATED, ()).scalar())
        if is_created and last <= execute_sql(connection, _LAST_GIVEN, ()).scalar():
            return
    if entered < last:
        with database.write() as connection:
            execute(connection, INBOX.enter_range, entered=entered, upto=last)
            execute(connection, SET_ENTERED_UP_TO, upto=last)
    with log.write() as connection:
        execute_sql(connection, _SCHEMA, ())
        execute_sql(connection, _DELETE_LAST_GIVEN, ())
        execute_sql(connection, _SET_LAST_GIVEN, (last,))


def log_tables(database: Database) -> LogTables:
    """Return the log of a migrated database; the caller closes it."""
    return SQLiteLog(database) if database.dialect == "sqlite" else PostgresLog(database)


def store(
    database: Database, arrivals: Sequence[Arrival], edit: MessageEdit | None = None
) -> list[Receipt]:
    """
    Store arrivals that no sender waits for, such as an operator's edited copy, and queue them.

    `edit` is stored with a new message.
    """
    tables = log_tables(database)
    try:
        with tables.transaction() as cursor:
            receipts = tables.admit(cursor, arrivals)
            for receipt in receipts:
                if edit is not None and not receipt.duplicate:
                    tables.add_edit(cursor, receipt.message_id, edit)
    finally:
        tables.close()
    pull_new(database)
    return receipts


def pull(database: Database, connection: Connection) -> bool:
    """
    Copy new messages from the log to the queue and into their lanes; SQLite only.

    In the caller's write transaction. Return whether there may be more. Raises StoreUnavailable if
    the log is damaged.
    """
    (position,) = execute(connection, ENTERED_UP_TO).scalars()
    messages, bodies, retransmits, edits = [], [], [], []
    upto, size, count = position, 0, 0
    with file_of_log(database).read_committed() as log:
        for upto, *row, payload, ack, original, edit in _after(log, position):
            count += 1
            if payload is not None:
                messages.append((upto, *row))
                bodies.append((upto, payload, ack))
                size += len(payload) + len(ack)
            else:
                retransmits.append((original,))
            if edit is not None:
                edits.append({"message_id": upto, **json.loads(edit)})
            if size > _PULLED_BYTES:
                break
    for statement, rows in (
        (SQLITE_MESSAGE, messages),
        (SQLITE_BODY, bodies),
        (SQLITE_RETRANSMITTED, retransmits),
        (_INSERT_EDIT, edits),
    ):
        if rows:
            execute_sql(connection, statement, rows, many=True)
    if count:
        execute(connection, INBOX.enter_range, entered=position, upto=upto)
        execute(connection, SET_ENTERED_UP_TO, upto=upto)
    return size > _PULLED_BYTES or count == _PULLED_ROWS


def _after(log: Connection, position: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows after an id. Raises StoreUnavailable if the log is damaged."""
    driver: Any = log.connection.driver_connection
    first = 0
    for count, row in enumerate(driver.execute(SQLITE_AFTER, (position, _PULLED_ROWS))):
        message_id, *values, payload, _, original, _ = row
        first = first or message_id
        is_message = isinstance(payload, bytes) and values[-1] in _STATES
        is_retransmit = payload is None and isinstance(original, int)
        if message_id != first + count or not (is_message or is_retransmit):
            raise StoreUnavailable(*_DAMAGED)
        if message_id > position + 1 + count:  # ids have no gaps
            if message_id > execute_sql(log, _LAST_GIVEN, ()).scalar():
                raise StoreUnavailable(*_DAMAGED)
            if count == 0:
                _log.error("messages are lost: the log is damaged, or newer than the database")
        yield row


def pull_new(database: Database) -> None:
    """Let readers of the queue see what is in the log, if the queue can be written now."""
    if database.dialect != "sqlite":
        return
    with suppress(StoreError):
        while _has_new(database):
            with database.write_without_sync() as connection:
                pull(database, connection)


def _has_new(database: Database) -> bool:
    with database.read_committed() as connection:
        (position,) = execute(connection, ENTERED_UP_TO).scalars()
    with file_of_log(database).read_committed() as log:
        return next(_after(log, position), None) is not None
