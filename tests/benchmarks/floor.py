"""
The durable floor: bare Twisted, frames split, one SQLite commit a reactor turn, no parsing.

What a listener that keeps messages can reach at most on this machine; started as
`python -m tests.benchmarks.floor PORT FILE`.
"""

import sqlite3
import sys
from pathlib import Path

from twisted.internet import protocol, reactor

VT, FS_CR = b"\x0b", b"\x1c\r"
_ACK = b"\x0bMSH|^~\\&|F|F|S|S|20260101||ACK|1|P|2.5.1\rMSA|AA|%s\r\x1c\r"


class Store:
    """Commits everything that arrived in one turn of the reactor, then answers it."""

    def __init__(self, file: Path) -> None:
        self.database = sqlite3.connect(file, isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, payload BLOB)")
        self.waiting: list[tuple[Floor, bytes]] = []

    def add(self, connection: "Floor", payload: bytes) -> None:
        """Take a payload into this turn's transaction."""
        if not self.waiting:
            reactor.callLater(0, self.commit)  # type: ignore[attr-defined]
        self.waiting.append((connection, payload))

    def commit(self) -> None:
        """Flush to disk, then acknowledge."""
        batch, self.waiting = self.waiting, []
        self.database.execute("BEGIN IMMEDIATE")
        rows = [(payload,) for _, payload in batch]
        self.database.executemany("INSERT INTO message (payload) VALUES (?)", rows)
        self.database.execute("COMMIT")
        replies: dict[Floor, list[bytes]] = {}
        for connection, payload in batch:
            control_id = payload.split(b"|", 10)[9]
            replies.setdefault(connection, []).append(_ACK % control_id)
        for connection, frames in replies.items():
            connection.transport.write(b"".join(frames))  # type: ignore[union-attr]


class Floor(protocol.Protocol):
    """One connection."""

    def __init__(self, store: Store) -> None:
        self.store, self.buffer = store, b""

    def dataReceived(self, data: bytes) -> None:  # noqa: N802  # Twisted's name
        """Split frames off the stream."""
        self.buffer += data
        *frames, self.buffer = self.buffer.split(FS_CR)
        for frame in frames:
            self.store.add(self, frame.lstrip(VT))


def main() -> None:
    """Listen until killed."""
    port, file = int(sys.argv[1]), Path(sys.argv[2])
    store = Store(file)
    factory = protocol.ServerFactory.forProtocol(lambda: Floor(store))  # type: ignore[arg-type]
    reactor.listenTCP(port, factory, interface="127.0.0.1")  # type: ignore[attr-defined]
    reactor.run()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
