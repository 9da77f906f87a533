"""Options of a database: pool size, timeouts, and required guarantees of the server."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bridge.store.lease_clock import OPTION, since_boot

LOCK_TIMEOUT = 30.0
"""Seconds that a statement waits for a lock before it raises `Busy`."""


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """
    Options of the connection pool and of the features below.

    `size` is the number of pooled connections, `overflow` that of additional ones at peak load, and
    `timeout` the seconds to wait for one before `Busy`.

    `require_synchronous`: see `bridge.store.postgresql.connection`; `lease_clock`:
    `bridge.store.lease_clock`, with `boot_clock` on SQLite.
    """

    size: int = 10
    overflow: int = 10
    timeout: float = LOCK_TIMEOUT
    require_synchronous: bool = False
    lease_clock: bool = False
    boot_clock: Callable[[], int] = since_boot

    @property
    def engine_arguments(self) -> dict[str, Any]:
        """Return the arguments of SQLAlchemy's `create_engine`."""
        return {
            "pool_size": self.size,
            "max_overflow": self.overflow,
            "pool_timeout": self.timeout,
            "execution_options": {OPTION: self.boot_clock if self.lease_clock else None},
        }
