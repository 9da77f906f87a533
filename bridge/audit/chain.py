"""
The hash chain: an append-only table in which each event's hash covers the event before it.

The chain is `engine_audit_event` of the engine's database; where the report engine belongs to
somebody else, it is `audit_event` of the bridge's own. Events of one transaction are appended
together, so that the chain costs one look-up.

A chain that was cut off at its end, or computed anew, is consistent in itself. Only a head that
was stored elsewhere detects this: see `contains`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    MetaData,
    SmallInteger,
    String,
    Table,
    select,
)

from bridge.audit.events import COLUMNS, GENESIS, AuditEvent, event_hash, is_well_formed
from bridge.store.answers import Answer, Words, carry, run_all
from bridge.store.inserting import inserted, insertion
from bridge.store.postgres import BRIEFLY
from bridge.store.steps import plain, said

LOCK: Final = "engine audit"
_PAGE: Final = 1000
_INTEGERS: Final = ("at", "account_id", "token_id")
_DOCUMENTS: Final = ("details", "before", "after")

Serialize = Callable[[Connection, str], None]
"""`Database.serialize`: transactions that hold the name commit one after the other."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a walk along the chain: its first broken event (None: none), and its head."""

    events: int
    head: str
    broken: int | None
    sequence: int = 0
    """The number of the head's event."""


class Chain:
    """One table of chained events."""

    def __init__(self, name: str) -> None:
        self.table = Table(
            name,
            MetaData(),
            Column("sequence", BigInteger, primary_key=True),
            *(Column(each, _type_of(each)) for each in COLUMNS if each != "sequence"),
        )
        self._insertion = insertion(self.table, COLUMNS)
        end = f"SELECT hash, sequence FROM {name} ORDER BY sequence DESC LIMIT 1"  # noqa: S608  # our own name
        self._newest = plain(end)
        # Nodes of the release before this one take their numbers from the server's sequence.
        self._advance = (
            f"SELECT setval(pg_get_serial_sequence('{name}', 'sequence'), %(sequence)s::bigint)"
        )

    def record(
        self, connection: Connection, serialize: Serialize, events: Sequence[AuditEvent], now: int
    ) -> None:
        """Append events of one moment to the chain, in this transaction."""
        self.record_all(connection, serialize, [(now, event) for event in events])

    def record_all(
        self,
        connection: Connection,
        serialize: Serialize,
        events: Sequence[tuple[int, AuditEvent]],
    ) -> None:
        """Append events, each with its moment in milliseconds, in this transaction."""
        if events:
            serialize(connection, LOCK)
            self.append(connection, events)

    def append(self, connection: Connection, events: Sequence[tuple[int, AuditEvent]]) -> None:
        """As `record_all`, in a transaction that holds `LOCK` already."""
        if connection.dialect.name == "postgresql":
            carry(connection, Words(BRIEFLY, ()))
        end = carry(connection, self.newest(connection))
        run_all(connection, self.appended(connection, events, end))

    def newest(self, connection: Connection) -> Words:
        """Give the query for the chain's end, for a transaction that holds `LOCK` by then."""
        return said(connection, self._newest)

    def appended(
        self, connection: Connection, events: Sequence[tuple[int, AuditEvent]], end: Answer
    ) -> list[Words]:
        """Give the statements that append events behind the chain's end (`newest`)."""
        last = end.first()
        previous, sequence = (GENESIS, 0) if last is None else (last.hash, last.sequence)
        rows = []
        for at, event in events:
            sequence += 1
            row = {**event.members(at), "sequence": sequence, "previous_hash": previous}
            previous = row["hash"] = event_hash(row)
            rows.append(row)
        words = [inserted(connection, self._insertion, rows)]
        if connection.dialect.name == "postgresql":
            words.append(Words(self._advance, {"sequence": sequence}))
        return words

    def head(self, connection: Connection) -> tuple[int, str]:
        """Return the number and the hash of the newest event; 0 and GENESIS of an empty chain."""
        last = carry(connection, self.newest(connection)).first()
        return (0, GENESIS) if last is None else (last.sequence, last.hash)

    def verify(self, connection: Connection) -> Verdict:
        """Walk the whole chain, a page in memory at a time."""
        previous, sequence, events = GENESIS, 0, 0
        for row in self._walk(connection):
            if (
                row["previous_hash"] != previous
                or not is_well_formed(row, sequence)
                or row["hash"] != event_hash(row)
            ):
                return Verdict(events, previous, int(row["sequence"]), sequence)
            previous, sequence, events = str(row["hash"]), int(row["sequence"]), events + 1
        return Verdict(events, previous, None, sequence)

    def contains(self, connection: Connection, head: str, sequence: int | None = None) -> bool:
        """Tell whether a head that was stored elsewhere is part of the chain, at its number."""
        if head == GENESIS:
            return sequence in (None, 0)
        found = select(self.table.c.sequence).where(self.table.c.hash == head)
        return any(sequence in (None, each) for each in connection.execute(found).scalars())

    def known(self, connection: Connection, event_ids: Sequence[str]) -> set[str]:
        """Return which of these events the chain has."""
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


def _type_of(name: str) -> Any:
    if name in _DOCUMENTS:
        return JSON(none_as_null=True)
    if name == "version":
        return SmallInteger
    return BigInteger if name in _INTEGERS else String


ENGINE_CHAIN: Final = Chain("engine_audit_event")
BRIDGE_CHAIN: Final = Chain("audit_event")
