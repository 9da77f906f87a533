"""
Keep the index of numbers up with what comes in, behind the acknowledgments' back.

Reads each message once, soon after it came; what one node did, another does again without harm.
Ids are given before they are committed: one that is missing is looked for again for a while.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, Select, func, select, text

from bridge.console.numbers import hashes, site_number, subject_hashes
from bridge.console.ownership import Belonging, Origin
from bridge.console.pacing import MANY
from bridge.index_key import keyed64
from bridge.queue import payload_blobs
from bridge.queue.tables import MESSAGE, MESSAGE_BODY
from bridge.store.database import Database
from bridge.store.steps import Step, carry_out, unnested

SETTLED = 10_000  # ms that a missing id is looked for
_GAP = 1000  # ids: a longer gap was not left by those who write just now
_MOST_MISSING = 5000
_AT_ONCE = 20  # messages in memory
_NAME = "console"
_KINDS = ("bigint", "bigint")
_INSERT = Step(
    _KINDS,
    "INSERT INTO message_number (number, message_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
    f"""
    INSERT INTO message_number (number, message_id) SELECT * FROM {unnested(_KINDS)}
    ON CONFLICT DO NOTHING
    """,  # noqa: S608  # our own names
)
_CURSOR = text("SELECT message_id FROM message_number_cursor WHERE name = :name")
_MOVE = text("""
    INSERT INTO message_number_cursor (name, message_id) VALUES (:name, :to)
    ON CONFLICT (name) DO UPDATE SET message_id = :to WHERE message_number_cursor.message_id < :to
""")
_ROWS = select(
    *(MESSAGE.c[name] for name in ("id", "listener", "mapping", "mapping_version", "received_at")),
    MESSAGE_BODY.c.payload,
).join_from(MESSAGE, MESSAGE_BODY, MESSAGE_BODY.c.message_id == MESSAGE.c.id)


class Indexer:
    """Reads on from where it, or another node, was; blocking, one thread at a time."""

    def __init__(
        self,
        database: Database,
        belonging: Belonging,
        clock: Callable[[], int],
        numbered: Callable[[bytes], Iterable[int]] = hashes,
    ) -> None:
        """`numbered` gives the numbers in the places of the standard; the index has them keyed."""
        self._numbered = numbered
        self._database = database
        self._belonging = belonging
        self._clock = clock
        self._read_to: int | None = None
        self._missing: dict[int, int] = {}
        """Ids that were passed over, and since when (ms)."""

    def newest(self) -> int:
        """Give the id of the newest message, 0 for none: how far there is to go."""
        with self._database.read() as connection:
            return connection.execute(select(func.max(MESSAGE.c.id))).scalar() or 0

    def step(self, most: int = MANY) -> int:
        """Read the next messages, so many at most; give how many were read."""
        now, begin = self._clock(), self._begin()
        fresh = _ROWS.where(MESSAGE.c.id > begin).order_by(MESSAGE.c.id).limit(most)
        late = _ROWS.where(MESSAGE.c.id.in_(list(self._missing)))
        found = self._read(fresh) | (self._read(late) if self._missing else {})
        last, missing = self._outlook(sorted(found), now)
        if found:
            self._write(found, min(last, *(each - 1 for each in missing)) if missing else last)
        self._read_to, self._missing = last, missing
        return len(found)

    def catch_up(self) -> int:
        """Read everything that came; give how many messages were read."""
        total = 0
        while read := self.step():
            total += read
        return total

    def _begin(self) -> int:
        if self._read_to is None:
            with self._database.read() as connection:
                self._read_to = connection.execute(_CURSOR, {"name": _NAME}).scalar() or 0
        return self._read_to

    def _read(self, statement: Select[Any]) -> dict[int, set[int]]:
        """Give the numbers of messages by id; holds few of them at a time, for some are long."""
        with self._database.read() as connection:
            rows = connection.execution_options(yield_per=_AT_ONCE).execute(statement)
            found, large = {}, []
            for row in rows:
                if row.payload:
                    found[row.id] = self._numbers(row, bytes(row.payload))
                else:
                    large.append(row)
            for row in large:
                found[row.id] = self._numbers(row, payload_blobs.content(connection, row.id, b""))
            return found

    def _outlook(self, ids: Sequence[int], now: int) -> tuple[int, dict[int, int]]:
        """Say how far was read, and which ids are missing: for a while, for most never come."""
        last, missing = self._begin(), dict(self._missing)
        for each in ids:
            missing.pop(each, None)
            if each > last:
                gap = range(max(last + 1, each - _GAP), each)
                missing.update((passed, now) for passed in gap)
                last = each
        young = [(each, since) for each, since in missing.items() if now - since < SETTLED]
        return last, dict(young[-_MOST_MISSING:])

    def _write(self, found: Mapping[int, set[int]], to: int) -> None:
        """Write numbers, and how far another may take for read."""
        rows = sorted(  # as every node has them: nobody waits for another in a circle
            (number, message_id) for message_id, numbered in found.items() for number in numbered
        )
        with self._database.fleeting() as connection:  # what is forgotten is read again
            carry_out(connection, _INSERT, rows)
            connection.execute(_MOVE, {"name": _NAME, "to": to})

    def _numbers(self, row: Row[Any], payload: bytes) -> set[int]:
        origin = Origin(row.listener, row.mapping, row.mapping_version, row.received_at, payload)
        about = self._belonging(origin)
        own = {site_number(about.sites)} if about.sites else set()
        own.update(subject_hashes(about), self._numbered(payload))
        return set(map(keyed64, own))
