"""Whether PostgreSQL's commits wait for a synchronous standby (`database.require_synchronous`).

With asynchronous standbys a failover loses the commits that the standby had not received, messages
that were acknowledged among them. Where synchronous commits are required, nothing is written, and
so nothing acknowledged, while the server's settings are weaker. An administrator can change them
while connections are open: they are asked again once a second, before a write. Settings of roles
and databases count for new connections, which `bridge.store.postgresql.connection` makes
synchronous itself. The
settings decide, not the standbys: where none that is named is connected, the server's commits wait.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from bridge.store.error_translation import driver_errors, translate
from bridge.store.errors import NotSynchronous

# What sessions of our role begin with: for our own, `bridge.store.postgresql.connection` switches
# `off` to `on`.
_ASK: Final = """
    SELECT (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
        current_setting('synchronous_standby_names')
"""
_TOO_WEAK: Final = frozenset({"off", "local"})
_FRESH: Final = 1.0  # seconds that an answer counts


class SynchronousCommit:
    """What the server promises; asked before each write, from any thread."""

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        required: bool,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`connect` gives a connection of the driver's, for this alone."""
        self._connect = connect
        self._required = required
        self._timer = timer
        self._turn = threading.Lock()
        self._driver: Any = None
        self._problem = ""
        self._asked_at = float("-inf")

    @property
    def is_satisfied(self) -> bool:
        """Whether something may be written without asking the server now."""
        return not self._required or (self._is_fresh and not self._problem)

    def require(self) -> None:
        """Raise NotSynchronous where commits must be synchronous and are not. Blocking."""
        if not self._required:
            return
        with self._turn:
            if not self._is_fresh:
                self._ask()
        if self._problem:
            raise NotSynchronous(self._problem)

    def close(self) -> None:
        """Close the connection; the next question makes another."""
        with self._turn:
            self._close()

    @property
    def _is_fresh(self) -> bool:
        return self._timer() - self._asked_at < _FRESH

    def _ask(self) -> None:
        try:
            if self._driver is None:
                self._driver = self._connect()
                self._driver.autocommit = True
            commit, standbys = self._driver.execute(_ASK).fetchone()
        except driver_errors() as error:
            self._close()
            raise translate(error) from None
        if commit in _TOO_WEAK:
            self._problem = f"synchronous_commit is {commit}"
        else:
            self._problem = "" if standbys.strip() else "synchronous_standby_names is empty"
        self._asked_at = self._timer()

    def _close(self) -> None:
        driver, self._driver = self._driver, None
        self._asked_at = float("-inf")
        if driver is not None:
            driver.close()
