"""
Messages that are all new, on SQLite: with one look where others take two.

Nearly every batch is such a one. PostgreSQL has its own statement for it (`hot_path`).
"""

import json
from collections.abc import Sequence
from typing import Any

from bridge.queue import statements as sql
from bridge.queue.hot_path import Row

_WIDTH = len(sql.COLUMNS)
_IDENTITY = [name for name, _ in sql.COLUMNS].index("identity")


class Fresh:
    """Stores within the caller's transaction."""

    def insert_new(self, cursor: Any, rows: list[Row]) -> Sequence[int]:
        """Store messages, give their ids; nothing of it where one of the identities is known."""
        if len(rows) == 1:
            return self._insert_one(cursor, rows[0])
        cursor.execute(sql.SQLITE_NEXT_ID, (json.dumps([row[_IDENTITY] for row in rows]),))
        found = cursor.fetchone()
        if found is None:
            return ()
        (first,) = found  # we are the only writer until the commit
        ids = range(first, first + len(rows))
        numbered = list(zip(ids, rows, strict=True))
        cursor.executemany(sql.SQLITE_MESSAGE, [(i, *row[:_WIDTH]) for i, row in numbered])
        cursor.executemany(sql.SQLITE_BODY, [(i, *row[_WIDTH:]) for i, row in numbered])
        return ids

    def _insert_one(self, cursor: Any, row: Row) -> Sequence[int]:
        """Store one message: whoever sends one by one waits for each statement."""
        cursor.execute(sql.SQLITE_NEXT_ID_ALONE, (row[_IDENTITY],))
        found = cursor.fetchone()
        if found is not None:
            cursor.execute(sql.SQLITE_MESSAGE, found + row[:_WIDTH])
            cursor.execute(sql.SQLITE_BODY, found + row[_WIDTH:])
        return found or ()
