"""Hear what other processes announce: PostgreSQL's LISTEN, on a thread and a connection of its own.

An announcement says only that something changed, and one may be lost while the connection is:
whoever relies on it looks by itself from time to time. On SQLite nobody announces anything.
"""

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

from bridge.store.database import Database
from bridge.store.error_translation import driver_errors

GLANCE_SECONDS = 1.0
"""How long it takes at most until a listener notices that it is to stop."""

RETRY_SECONDS = 1.0


class NotificationListener:
    """Calls `heard`, on its own thread, whenever another process has announced on a channel."""

    def __init__(self, database: Database, channel: str, heard: Callable[[], None]) -> None:
        self._database = database
        self._channel = channel
        self._heard = heard
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        if self._database.dialect == "postgresql":
            self._thread.start()

    def stop(self) -> None:
        """End, and wait until it has ended. Blocking."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with closing(self._database.dedicated_connection()) as driver:
                    self._listen(driver)
            except driver_errors():
                self._ended.wait(RETRY_SECONDS)

    def _listen(self, driver: Any) -> None:
        driver.autocommit = True
        driver.execute(f"LISTEN {self._channel}")
        self._heard()  # something may have happened while nobody listened
        while not self._ended.is_set():
            for each in driver.notifies(timeout=GLANCE_SECONDS):
                if each.payload != self._database.notification_id:
                    self._heard()
