"""
Whether commits wait for a synchronous standby (`database.require_synchronous`).

With asynchronous standbys a failover loses commits that the standby had not received. Where
synchronous commits are required, nothing is written, and so nothing acknowledged, while the
server's settings are weaker. An administrator may change them at any time, so they are checked once
per second before a write. The settings decide, not the standbys: without a connected standby the
server's commits wait.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from bridge.store.error_translation import driver_errors, translate
from bridge.store.errors import NotSynchronous

# The default for sessions of our role. `bridge.store.postgresql.connection` replaces `off` by `on`.
_QUERY: Final = """
    SELECT (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
        current_setting('synchronous_standby_names')
"""
_INSUFFICIENT: Final = frozenset({"off", "local"})
_VALID_SECONDS: Final = 1.0  # a result is valid for this time


class SynchronousCommit:
    """The server's guarantee; checked before each write, from any thread."""

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        required: bool,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`connect` returns a driver connection for this check alone."""
        self._connect = connect
        self._required = required
        self._timer = timer
        self._mutex = threading.Lock()
        self._driver: Any = None
        self._problem = ""
        self._checked_at = float("-inf")

    @property
    def is_satisfied(self) -> bool:
        """Whether writing is allowed without asking the server now."""
        return not self._required or (self._is_valid and not self._problem)

    def require(self) -> None:
        """Raise NotSynchronous if commits must be synchronous and are not. Blocking."""
        if not self._required:
            return
        with self._mutex:
            if not self._is_valid:
                self._check()
        if self._problem:
            raise NotSynchronous(self._problem)

    def close(self) -> None:
        """Close the connection; the next check opens another."""
        with self._mutex:
            self._close()

    @property
    def _is_valid(self) -> bool:
        return self._timer() - self._checked_at < _VALID_SECONDS

    def _check(self) -> None:
        try:
            if self._driver is None:
                self._driver = self._connect()
                self._driver.autocommit = True
            commit, standbys = self._driver.execute(_QUERY).fetchone()
        except driver_errors() as error:
            self._close()
            raise translate(error) from None
        if commit in _INSUFFICIENT:
            self._problem = f"synchronous_commit is {commit}"
        else:
            self._problem = "" if standbys.strip() else "synchronous_standby_names is empty"
        self._checked_at = self._timer()

    def _close(self) -> None:
        driver, self._driver = self._driver, None
        self._checked_at = float("-inf")
        if driver is not None:
            driver.close()
