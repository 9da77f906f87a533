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
        # Nobody else writes until the commit: the ids that follow the last one are free.
        cursor.execute(sql.SQLITE_LAST_ID)
        numbered = list(enumerate(rows, cursor.fetchone()[0] + 1))
        cursor.executemany(sql.SQLITE_MESSAGE, [(i, *row[:_WIDTH]) for i, row in numbered])
        cursor.executemany(sql.SQLITE_BODY, [(i, *row[_WIDTH:]) for i, row in numbered])
        return [i for i, _ in numbered]

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
    def retransmitted(self, cursor: Any, ids: list[int]) -> dict[int, tuple[bytes, str]]:
        cursor.execute(sql.POSTGRES_RETRANSMITTED, {"ids": ids}, prepare=True)
        cursor.execute(sql.POSTGRES_STORED_ACKS, {"ids": ids}, prepare=True)
        return _acks(cursor)

    @override
    def acknowledged(self, cursor: Any, ids: list[int]) -> None:
        cursor.execute(sql.POSTGRES_ACKNOWLEDGED, {"ids": ids}, prepare=True)


def insert_new(cursor: Any, rows: list[Row]) -> Sequence[int]:
    """
    Store messages of different identities on PostgreSQL in one statement that is a transaction.

    Returns their ids in the same order. Stores nothing, and returns no ids, where a message with
    one of the identities exists.
    """
    cursor.execute(sql.POSTGRES_INSERT_NEW, columns_of(rows), prepare=True)
    return [row[0] for row in cursor.fetchall()]


def _acks(cursor: Any) -> dict[int, tuple[bytes, str]]:
    return {number: (bytes(ack), code) for number, ack, code in cursor.fetchall()}


HOT_PATHS: Mapping[str, HotPath] = {"sqlite": _SQLite(), "postgresql": _Postgres()}
"""By the name of the dialect, as `Database.dialect` has it."""
