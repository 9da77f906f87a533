"""
What the ledger asks of the two databases, on the driver's own cursor.

One text for any number of rows, so that each is prepared once. Decides nothing.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from typing_extensions import override

from bridge.queue import arrival_statements as sql
from bridge.queue.admission import Stored
from bridge.store.arrays import Packed, packed

Row = tuple[Any, ...]
"""The values of arrival_statements.COLUMNS, then payload and acknowledgment."""

_WIDTH = len(sql.COLUMNS)
_IDENTITY = [name for name, _ in sql.COLUMNS].index("identity")
_KINDS = (*(kind for _, kind in sql.COLUMNS), "bytea", "bytea")


class HotPath(Protocol):
    """One database's way; all within the caller's transaction."""

    def known(self, cursor: Any, identities: list[int]) -> list[Stored]:
        """Find all messages that have one of these identities."""

    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        """
        Store messages; give their ids in the same order.

        Their places in the lanes too, where whoever claims could not tell which are missing.
        """

    def insert_new(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        """
        Store messages of different identities; give their ids in the same order.

        Nothing of it, and none, where one of the identities is known: nearly never.
        """

    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        """Note that these came again; give the acknowledgment and code that each is owed."""

    def acknowledged(self, cursor: Any, ids: list[int]) -> None:
        """Note that the acknowledgments of these were written out."""


class _SQLite(HotPath):
    @override
    def known(self, cursor: Any, identities: list[int]) -> list[Stored]:
        # JSON carries 64-bit integers whole.
        cursor.execute(sql.SQLITE_KNOWN, (json.dumps(identities),))
        return [Stored(*row) for row in cursor.fetchall()]

    @override
    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        cursor.execute(sql.SQLITE_LAST_ID)
        return _insert_from(cursor, cursor.fetchone()[0] + 1, rows)

    @override
    def insert_new(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        if len(rows) == 1:
            return self._insert_one(cursor, rows[0])
        cursor.execute(sql.SQLITE_NEXT_ID, (json.dumps([row[_IDENTITY] for row in rows]),))
        found = cursor.fetchone()
        return () if found is None else _insert_from(cursor, found[0], rows)

    def _insert_one(self, cursor: Any, row: Row) -> Sequence[int]:
        """Store one message: whoever sends one by one waits for each statement."""
        cursor.execute(sql.SQLITE_NEXT_ID_ALONE, (row[_IDENTITY],))
        found = cursor.fetchone()
        if found is not None:
            cursor.execute(sql.SQLITE_MESSAGE, found + row[:_WIDTH])
            cursor.execute(sql.SQLITE_BODY, found + row[_WIDTH:])
        return found or ()

    @override
    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        given = (json.dumps(ids),)
        cursor.execute(sql.SQLITE_RETRANSMITTED, given)
        cursor.execute(sql.SQLITE_STORED_ACKS, given)
        return _acks(cursor)

    @override
    def acknowledged(self, cursor: Any, ids: list[int]) -> None:
        cursor.execute(sql.SQLITE_ACKNOWLEDGED, (json.dumps(ids),))


def columns_of(rows: Sequence[Row]) -> tuple[Packed, ...]:
    """Give what PostgreSQL's statements of this path are told."""
    return packed(_KINDS, rows)


class _Postgres(HotPath):
    """A server's way: one round trip instead of three is most of the time."""

    @override
    def known(self, cursor: Any, identities: list[int]) -> list[Stored]:
        cursor.execute(sql.POSTGRES_KNOWN, (identities,), prepare=True)
        return [Stored(*row) for row in cursor.fetchall()]

    @override
    def insert(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        cursor.execute(sql.POSTGRES_INSERT, columns_of(rows), prepare=True)
        return [row[0] for row in cursor.fetchall()]

    @override
    def insert_new(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        cursor.execute(sql.POSTGRES_INSERT_NEW, columns_of(rows), prepare=True)
        return [row[0] for row in cursor.fetchall()]

    @override
    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        cursor.execute(sql.POSTGRES_RETRANSMITTED, {"ids": ids}, prepare=True)
        cursor.execute(sql.POSTGRES_STORED_ACKS, {"ids": ids}, prepare=True)
        return _acks(cursor)

    @override
    def acknowledged(self, cursor: Any, ids: list[int]) -> None:
        cursor.execute(sql.POSTGRES_ACKNOWLEDGED, {"ids": ids}, prepare=True)


def _insert_from(cursor: Any, first: int, rows: list[Row]) -> Sequence[int]:
    """Store messages from an id on: we are the only writer until the commit."""
    numbered = list(enumerate(rows, first))
    cursor.executemany(sql.SQLITE_MESSAGE, [(i, *row[:_WIDTH]) for i, row in numbered])
    cursor.executemany(sql.SQLITE_BODY, [(i, *row[_WIDTH:]) for i, row in numbered])
    return range(first, first + len(rows))


def _acks(cursor: Any) -> dict[int, tuple[bytes, str]]:
    return {number: (bytes(ack), code) for number, ack, code in cursor.fetchall()}


HOT_PATHS: Mapping[str, HotPath] = {"sqlite": _SQLite(), "postgresql": _Postgres()}
"""By the name of the dialect, as `Database.dialect` has it."""
