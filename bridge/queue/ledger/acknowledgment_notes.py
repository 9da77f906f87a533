"""
Acknowledgment notes: record in the background which acknowledgments were sent.

A claim records the acknowledgments of the messages that it takes. This covers most messages if they
are processed on arrival. A separate thread writes the rest, so that no arrival waits for it. If the
database is unavailable, the notes are written later. After a power cut a message may be stored as
`pending` although its acknowledgment was sent.
"""

import threading
from collections.abc import Sequence

from bridge.queue.ledger.deduplication import LEDGER_DIALECTS
from bridge.store.database import Database
from bridge.store.errors import StoreError

_INTERVAL_SECONDS = 0.5  # notes of this period share a statement
_BATCH = 100  # notes of a transaction: arrivals wait for it on SQLite


class AcknowledgmentNotes:
    """Collects ids of acknowledged messages from any thread; a separate thread writes them."""

    def __init__(self, database: Database, interval: float = _INTERVAL_SECONDS) -> None:
        """Write at most once in `interval` seconds."""
        self._interval = interval
        self._statements = LEDGER_DIALECTS[database.dialect]
        self._writer = database.writer(unsynced=True)
        self._pending: dict[int, None] = {}  # its methods are atomic
        self._added = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="ledger, notes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write the remaining notes if the database accepts them, and stop. Blocking."""
        self._stopping.set()
        self._added.set()
        if self._thread is not None:
            self._thread.join()
        self._writer.close()

    def add(self, message_id: int) -> None:
        self._pending[message_id] = None
        if not self._added.is_set():  # cheaper than setting it again
            self._added.set()

    def contains_all(self, message_ids: Sequence[int]) -> bool:
        """True if all these messages are waiting to be written. From any thread."""
        return all(map(self._pending.__contains__, message_ids))

    def discard(self, message_ids: Sequence[int]) -> None:
        """Remove messages whose acknowledgment was written with their claim."""
        for identifier in message_ids:
            self._pending.pop(identifier, None)

    def _run(self) -> None:
        ended = False
        while not ended:
            self._added.wait()
            self._stopping.wait(self._interval)
            self._added.clear()
            ended = self._stopping.is_set()  # last: `stop` sets it before it sets `_added`
            ids = list(self._pending)
            size = max(_BATCH, len(ids) // 8)
            for first in range(0, len(ids), size):
                try:
                    with self._writer.transaction() as cursor:
                        self._statements.acknowledged(cursor, ids[first : first + size])
                except StoreError:
                    self._added.set()
                    break
                self.discard(ids[first : first + size])
