"""
Notifications of other processes: PostgreSQL's LISTEN on a thread with a dedicated connection.

A notification only says that something changed, and it may be lost while the connection is down:
receivers also poll. On SQLite there are no notifications.
"""

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

from bridge.store.database import Database
from bridge.store.error_translation import driver_errors

STOP_CHECK_SECONDS = 1.0
"""Longest time until a listener notices that it is stopped."""

RETRY_SECONDS = 1.0


class NotificationListener:
    """Calls `callback` on its own thread when another process has notified a channel."""

    def __init__(self, database: Database, channel: str, callback: Callable[[], None]) -> None:
        self._database = database
        self._channel = channel
        self._callback = callback
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)

    def start(self) -> None:
        """Start listening."""
        if self._database.dialect == "postgresql":
            self._thread.start()

    def stop(self) -> None:
        """Stop and wait for the thread. Blocking."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with closing(self._database.dedicated_connection()) as driver:
                    self._listen(driver)
            except driver_errors():
                self._stopped.wait(RETRY_SECONDS)

    def _listen(self, driver: Any) -> None:
        driver.autocommit = True
        driver.execute(f"LISTEN {self._channel}")
        self._callback()  # notifications may have been lost meanwhile
        while not self._stopped.is_set():
            for each in driver.notifies(timeout=STOP_CHECK_SECONDS):
                if each.payload != self._database.notification_id:
                    self._callback()
