"""
How a transaction on PostgreSQL ends: its last statements and the COMMIT are one message.

The server starts to execute a message when it has received all of it, and needs no client until
its end. A process that is stopped, or whose network path breaks, has sent the whole message or
nothing: no lock that these statements take waits for that process.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from bridge.store import postgres
from bridge.store.answers import Words, carry, is_heard


class Ending:
    """What a transaction appends under locks that every node needs; nothing on SQLite."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._channels: set[str] = set()
        self._words: list[Words] = []

    def add(self, name: str, words: Sequence[Words], channel: str) -> None:
        """Add statements, to be run under the lock of a name; `channel` is then notified."""
        self._names.add(name)
        self._words += words
        if channel:
            self._channels.add(channel)

    def send(self, connection: Connection, mark: str) -> None:
        """
        Run the statements and commit, where there are any.

        Errors are the driver's; then nothing is committed. A listener of the engine's statements
        hears of each one; then the commit is left to the caller.
        """
        if not self._words:
            return
        # The names' order is the same on all nodes, of all releases: nobody waits in a ring.
        keys = [postgres.lock_key(name) for name in sorted(self._names)]
        notices = [{"channel": each, "mark": mark} for each in self._channels]
        words = [Words(postgres.IN_TURN, {"keys": keys}), *self._words]
        words += [Words(postgres.ANNOUNCED, each) for each in notices]
        if is_heard(connection):
            for each in words:
                carry(connection, each)
            return
        _commit(connection.connection.driver_connection, words)


def _commit(driver: Any, words: Sequence[Words]) -> None:
    from psycopg import ClientCursor  # noqa: PLC0415  # an installation on SQLite does without

    cursor = ClientCursor(driver)
    encoding = driver.info.encoding
    texts = [cursor.mogrify(each.statement.encode(encoding), each.values) for each in words]
    # Without parameters psycopg sends a simple query, which may have many statements.
    cursor.execute(";\n".join([*texts, "COMMIT"]).encode(encoding))
    cursor.close()
