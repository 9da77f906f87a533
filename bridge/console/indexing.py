"""
Keep the index of numbers up with what comes in, behind the acknowledgments' back.

Reads each message once, soon after it came; what one node did, another does again without harm.
Ids are given before they are committed, so the cursor stays behind what is younger than `SETTLED`.
"""

from collections.abc import Callable

from sqlalchemy import select, text

from bridge.console.numbers import numbers
from bridge.queue.tables import MESSAGE, MESSAGE_BODY
from bridge.store.database import Database

BATCH = 500
SETTLED = 10_000  # ms
_NAME = "console"
_INSERT = text("""
    INSERT INTO message_number (number, message_id) VALUES (:number, :message_id)
    ON CONFLICT DO NOTHING
""")
_CURSOR = text("SELECT message_id FROM message_number_cursor WHERE name = :name")
_MOVE = text("""
    INSERT INTO message_number_cursor (name, message_id) VALUES (:name, :to)
    ON CONFLICT (name) DO UPDATE SET message_id = :to WHERE message_number_cursor.message_id < :to
""")


class Indexer:
    """Reads on from where it, or another node, was; blocking, one thread at a time."""

    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock
        self._cursor: int | None = None
        self._read: set[int] = set()

    def catch_up(self) -> int:
        """Read everything that came; give how many messages were read."""
        after, total = self._begin(), 0
        while True:
            found = self._young(after)
            total += self._keep([each for each in found if each not in self._read], found)
            if len(found) < BATCH:
                return total
            after = max(found)

    def _begin(self) -> int:
        if self._cursor is None:
            with self._database.read() as connection:
                self._cursor = connection.execute(_CURSOR, {"name": _NAME}).scalar() or 0
        return self._cursor

    def _young(self, after: int) -> dict[int, int]:
        """Give the next ids with when they came."""
        statement = select(MESSAGE.c.id, MESSAGE.c.received_at).where(MESSAGE.c.id > after)
        with self._database.read() as connection:
            rows = connection.execute(statement.order_by(MESSAGE.c.id).limit(BATCH)).all()
        return {row.id: row.received_at for row in rows}

    def _keep(self, fresh: list[int], found: dict[int, int]) -> int:
        """Write the numbers of messages, move the cursor over what is settled."""
        old = self._clock() - SETTLED
        to = max((each for each, came in found.items() if came < old), default=0)
        rows = self._numbers(fresh)
        if rows or to:
            with self._database.write() as connection:
                if rows:
                    connection.execute(_INSERT, rows)
                connection.execute(_MOVE, {"name": _NAME, "to": to})
        self._cursor = max(to, self._cursor or 0)
        self._read = {each for each in (*self._read, *fresh) if each > self._cursor}
        return len(fresh)

    def _numbers(self, ids: list[int]) -> list[dict[str, int]]:
        bodies = select(MESSAGE_BODY.c.message_id, MESSAGE_BODY.c.payload)
        with self._database.read() as connection:
            found = connection.execute(bodies.where(MESSAGE_BODY.c.message_id.in_(ids))).all()
        return [
            {"number": number, "message_id": row.message_id}
            for row in found
            for number in numbers(bytes(row.payload)).hashes()
        ]
