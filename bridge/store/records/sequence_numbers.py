"""
The sequence number (MSH-13) that was accepted last from each sender.

It is stored so that a restarted process, or another node, expects the next one. The caller reads
the number from the message.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, func, select

from bridge.store.database import Database
from bridge.store.errors import Conflict
from bridge.store.tables import SEQUENCE_NUMBERS, upsert

Links = Mapping[int, int | None]
"""Sender (a hash) to the number that was accepted last; None if none is known."""

MAX_SENDERS = 10_000
"""Senders of a listener whose numbers are stored; of the others any number may follow."""

_NUMBER = SEQUENCE_NUMBERS.c


class SequenceLinks:
    """The numbers of one listener. Blocking."""

    def __init__(self, database: Database, listener: str) -> None:
        self._database = database
        self._listener = listener

    def read(self, senders: Iterable[int]) -> dict[int, int | None]:
        """Return the numbers that were accepted last. Raises StoreError."""
        wanted = sorted(set(senders))
        with self._database.read() as connection:
            return dict.fromkeys(wanted) | self._read(connection, wanted)

    def store(self, before: Links, after: Links) -> None:
        """Store the accepted numbers; raises Conflict if they changed since `before`."""
        wanted = sorted(after)
        with self._database.write() as connection:
            self._database.serialize(connection, f"sequence {self._listener}")
            known = self._read(connection, wanted)
            if any(known.get(sender) != before.get(sender) for sender in wanted):
                raise Conflict("sequence_number")
            new = [sender for sender in wanted if sender not in known]
            stored = [*known, *new[: self._free_rows(connection) if new else 0]]
            rows = [
                {"listener": self._listener, "sender": sender, "number": after[sender]}
                for sender in stored
            ]
            if rows:
                connection.execute(upsert(SEQUENCE_NUMBERS), rows)

    def _free_rows(self, connection: Connection) -> int:
        own = select(func.count()).where(_NUMBER.listener == self._listener)
        count = connection.scalar(own) or 0
        return max(MAX_SENDERS - count, 0)

    def _read(self, connection: Connection, senders: list[int]) -> dict[int, int | None]:
        own = select(SEQUENCE_NUMBERS).where(
            _NUMBER.listener == self._listener, _NUMBER.sender.in_(senders)
        )
        return {row.sender: row.number for row in connection.execute(own)}
