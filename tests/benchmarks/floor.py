"""
The durable floor: bare Twisted that splits frames and commits once a reactor turn, without parsing.

It is the upper limit of a listener that stores messages on this machine. Start it with
`python -m tests.benchmarks.floor PORT FILE`, or with the address of a PostgreSQL database.
"""

import sqlite3
import sys
from collections.abc import Callable
from typing import Any, cast

import psycopg
from twisted.internet import protocol
from twisted.internet import reactor as _reactor
from typing_extensions import override

Keep = Callable[[list[bytes]], None]
"""Stores payloads; they are on disk when it returns."""

VT, FS_CR = b"\x0b", b"\x1c\r"
reactor: Any = _reactor  # Twisted sets the module's type at run time
_ACK = b"\x0bMSH|^~\\&|F|F|S|S|20260101||ACK|1|P|2.5.1\rMSA|AA|%s\r\x1c\r"


def in_sqlite(file: str) -> Keep:
    """Open an empty SQLite file with the durability of the product."""
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, payload BLOB)")

    def keep(payloads: list[bytes]) -> None:
        database.execute("BEGIN IMMEDIATE")
        rows = [(payload,) for payload in payloads]
        database.executemany("INSERT INTO message (payload) VALUES (?)", rows)
        database.execute("COMMIT")

    return keep


def in_postgres(address: str) -> Keep:
    """Open an empty PostgreSQL database; a batch is one statement."""
    database = psycopg.connect(address)
    database.execute("CREATE TABLE message (id bigserial PRIMARY KEY, payload bytea)")
    database.commit()

    def keep(payloads: list[bytes]) -> None:
        statement = "INSERT INTO message (payload) SELECT unnest(%s::bytea[])"
        database.execute(statement, (payloads,), prepare=True)
        database.commit()

    return keep


class Store:
    def __init__(self, keep: Keep) -> None:
        self.keep = keep
        self.waiting: list[tuple[Floor, bytes]] = []

    def add(self, connection: "Floor", payload: bytes) -> None:
        if not self.waiting:
            reactor.callLater(0, self.commit)
        self.waiting.append((connection, payload))

    def commit(self) -> None:
        batch, self.waiting = self.waiting, []
        self.keep([payload for _, payload in batch])
        replies: dict[Floor, list[bytes]] = {}
        for connection, payload in batch:
            control_id = payload.split(b"|", 10)[9]
            replies.setdefault(connection, []).append(_ACK % control_id)
        for connection, frames in replies.items():
            cast("Any", connection.transport).write(b"".join(frames))


class Floor(protocol.Protocol):
    def __init__(self, store: Store) -> None:
        self.store, self.buffer = store, b""

    @override
    def dataReceived(self, data: bytes) -> None:  # Twisted's name
        self.buffer += data
        *frames, self.buffer = self.buffer.split(FS_CR)
        for frame in frames:
            self.store.add(self, frame.lstrip(VT))


def main() -> None:
    """Listen until the process is killed."""
    port, where = int(sys.argv[1]), sys.argv[2]
    store = Store(in_postgres(where) if "://" in where else in_sqlite(where))
    factory = protocol.ServerFactory.forProtocol(lambda: Floor(store))
    reactor.listenTCP(port, factory, interface="127.0.0.1")
    reactor.run()


if __name__ == "__main__":
    main()
