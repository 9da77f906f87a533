"""
The hash chain: an append-only table in which each event's hash covers the event before it.

The chain is `engine_audit_event` of the engine's database. If the report engine belongs to a third
party, it is `audit_event` of the bridge's database. The events of one transaction are appended
together, so that the chain costs one look-up.

A chain that was truncated or recomputed is consistent in itself. Only a head that was stored
outside of the database detects this (`contains`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json
from sqlalchemy import Connection, MetaData, Table, insert, select

from bridge.audit.events import (
    COLUMNS,
    GENESIS,
    AuditEvent,
    event_hash,
    is_well_formed,
    split_canonical_form,
)
from bridge.store.database import Database
from bridge.store.statements import BoundStatement
from bridge.store.tables import AUDIT_EVENTS

LOCK: Final = "engine audit"
_PAGE: Final = 1000
_DOCUMENTS: Final = ("details", "before", "after")


@dataclass(frozen=True, slots=True)
class ChainVerification:
    """Result of a walk along the chain: its first broken event (None: none), and its head."""

    events: int
    head: str
    broken: int | None
    sequence: int = 0
    """The number of the head's event."""


class Chain:
    """One table of chained events."""

    def __init__(self, name: str) -> None:
        self.table = AUDIT_EVENTS.to_metadata(MetaData(), name=name)
        newest = select(self.table.c.sequence, self.table.c.hash)
        self._newest = newest.order_by(self.table.c.sequence.desc()).limit(1)
        self._insert = insert(self.table)
        self._append_one = _append_one(self.table)

    def record(
        self, connection: Connection, database: Database, events: Sequence[AuditEvent], now: int
    ) -> None:
        """Append events of one time (ms) to the chain, in this transaction of the database."""
        self.record_all(connection, database, [(now, event) for event in events])

    def record_all(
        self, connection: Connection, database: Database, events: Sequence[tuple[int, AuditEvent]]
    ) -> None:
        """
        Append events, each with its time in milliseconds, in this transaction.

        On PostgreSQL the server appends them at the commit and computes their hashes. There, an
        event whose `event_id` is in the chain already is ignored.
        """
        if not events:
            return
        if connection.dialect.name == "postgresql":
            statements = [_bind_event(self._append_one, event.members(at)) for at, event in events]
            database.append_at_commit(connection, LOCK, statements)
        else:
            connection.execute(self._insert, self._rows(connection, events))

    def _rows(
        self, connection: Connection, events: Sequence[tuple[int, AuditEvent]]
    ) -> list[dict[str, Any]]:
        """Return the rows to append. The caller's transaction must be the only writer."""
        sequence, previous = self.head(connection)
        rows = []
        for at, event in events:
            sequence += 1
            row = {**event.members(at), "sequence": sequence, "previous_hash": previous}
            previous = row["hash"] = event_hash(row)
            rows.append(row)
        return rows

    def head(self, connection: Connection) -> tuple[int, str]:
        """Return the number and the hash of the newest event; 0 and GENESIS of an empty chain."""
        last = connection.execute(self._newest).first()
        return (0, GENESIS) if last is None else (last.sequence, last.hash)

    def verify(self, connection: Connection) -> ChainVerification:
        """Walk the whole chain, a page in memory at a time."""
        previous, sequence, events = GENESIS, 0, 0
        for row in self._walk(connection):
            if (
                row["previous_hash"] != previous
                or not is_well_formed(row, sequence)
                or row["hash"] != event_hash(row)
            ):
                return ChainVerification(events, previous, int(row["sequence"]), sequence)
            previous, sequence, events = str(row["hash"]), int(row["sequence"]), events + 1
        return ChainVerification(events, previous, None, sequence)

    def contains(self, connection: Connection, head: str, sequence: int | None = None) -> bool:
        if head == GENESIS:
            return sequence in (None, 0)
        found = select(self.table.c.sequence).where(self.table.c.hash == head)
        return any(sequence in (None, value) for value in connection.execute(found).scalars())

    def known(self, connection: Connection, event_ids: Sequence[str]) -> set[str]:
        query = select(self.table.c.event_id).where(self.table.c.event_id.in_(event_ids))
        return set(connection.execute(query).scalars())

    def _walk(self, connection: Connection) -> Iterator[Mapping[str, Any]]:
        after = 0
        while True:
            query = (
                select(self.table)
                .where(self.table.c.sequence > after)
                .order_by(self.table.c.sequence)
                .limit(_PAGE)
            )
            page = connection.execute(query).mappings().all()
            yield from page  # type: ignore[misc]  # a row's keys are the columns' names
            if len(page) < _PAGE:
                return
            after = page[-1]["sequence"]


def _append_one(table: Table) -> str:
    """
    Return the PostgreSQL statement that appends one event at the end of the chain.

    The server computes the hash of the canonical form (`bridge.audit.events`).
    """
    name = table.name
    columns = [column for column in COLUMNS if column not in ("sequence", "previous_hash", "hash")]
    values = ", ".join(f"%({column})s::{_sql_type_of(column)}" for column in columns)
    # Nodes of an earlier release take their numbers from the server's sequence.
    return f"""
        WITH known AS (
            SELECT sequence, hash FROM (
                SELECT sequence, hash FROM {name} ORDER BY sequence DESC LIMIT 1
            ) AS newest
            UNION ALL SELECT 0, '{GENESIS}' ORDER BY sequence DESC LIMIT 1
        ), appended AS (
            INSERT INTO {name} ({", ".join(columns)}, sequence, previous_hash, hash)
            SELECT {values}, sequence + 1, hash, encode(sha256(convert_to(
                %(_head)s::text || hash || %(_middle)s || (sequence + 1)::text || %(_tail)s, 'UTF8'
            )), 'hex')
            FROM known WHERE NOT EXISTS (
                SELECT FROM {name} WHERE event_id = %(event_id)s::text
            )
            RETURNING sequence
        )
        SELECT setval(pg_get_serial_sequence('{name}', 'sequence'), sequence) FROM appended
    """  # noqa: S608  # our own names


def _bind_event(statement: str, members: Mapping[str, Any]) -> BoundStatement:
    head, middle, tail = split_canonical_form(members)
    documents = {
        name: None if members[name] is None else to_json(members[name]).decode()
        for name in _DOCUMENTS
    }
    form = {"_head": head, "_middle": middle, "_tail": tail}
    return BoundStatement(statement, {**members, **documents, **form})


def _sql_type_of(name: str) -> str:
    if name in _DOCUMENTS:
        return "json"
    return "bigint" if name in ("at", "account_id", "token_id", "version") else "text"


ENGINE_CHAIN: Final = Chain("engine_audit_event")
BRIDGE_CHAIN: Final = Chain("audit_event")
