"""
Note that acknowledgments were written out: for many messages in one statement, every half second.

Who claims messages meanwhile writes it down with the claim, which is most of them where they are
applied as they come. The rest is written in a thread of its own, so that no arrival waits for a
note. What the database does not take now is noted later; what a power cut takes back was
acknowledged all the same.
"""

import threading
from collections.abc import Sequence

from bridge.queue.hot_path import HOT_PATHS
from bridge.store.database import Database
from bridge.store.errors import StoreError

_EVERY = 0.5  # seconds a note may wait for others to share its statement
_TOGETHER = 100  # notes of a transaction: whoever stores an arrival meanwhile waits for no more


class Notes:
    """Takes notes from any thread; writes them between `start` and `stop`."""

    def __init__(self, database: Database) -> None:
        self._path = HOT_PATHS[database.dialect]
        self._writer = database.writer(fleeting=True)
        self._open: dict[int, None] = {}  # each of its methods is one step, whoever else is at it
        self._some = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write."""
        self._ending.clear()
        self._thread = threading.Thread(target=self._write_on, name="ledger, notes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is left, if the database takes it, and end. Blocking."""
        self._ending.set()
        self._some.set()
        if self._thread is not None:
            self._thread.join()
        self._writer.close()

    def add(self, message_id: int) -> None:
        """Note that a message's acknowledgment went out."""
        self._open[message_id] = None
        if not self._some.is_set():  # to ask costs less than to set
            self._some.set()

    def are_told(self, message_ids: Sequence[int]) -> bool:
        """Tell whether notes about all these wait. From any thread."""
        return all(map(self._open.__contains__, message_ids))

    def written_down(self, message_ids: Sequence[int]) -> None:
        """Forget the notes about these: they were written with something else."""
        for each in message_ids:
            self._open.pop(each, None)

    def _write_on(self) -> None:
        ended = False
        while not ended:
            self._some.wait()
            ended = self._ending.wait(_EVERY)
            self._some.clear()
            ids = list(self._open)
            together = max(_TOGETHER, len(ids) // 8)
            for first in range(0, len(ids), together):
                try:
                    with self._writer.transaction() as cursor:
                        self._path.acknowledged(cursor, ids[first : first + together])
                except StoreError:
                    self._some.set()
                    break
                self.written_down(ids[first : first + together])
