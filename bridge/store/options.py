"""How many connections are kept, how long to wait for one, and what the server must promise."""

from dataclasses import dataclass
from typing import Any

from bridge.store.lease_clock import OPTION

LOCK_TIMEOUT = 30.0
"""Seconds a statement may wait for another's lock before it is `Busy`."""


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """
    Connections that are kept, further ones in a rush, seconds to wait before it is `Busy`.

    `require_synchronous`: see `bridge.store.postgresql.synchronous_commit`; `lease_clock`:
    `bridge.store.lease_clock`;
    `short_work_on_loop`: `bridge.store.short_work`; `commit_delay`:
    `bridge.queue.ledger.commit_delay`.
    """

    size: int = 10
    overflow: int = 10
    timeout: float = LOCK_TIMEOUT
    require_synchronous: bool = False
    lease_clock: bool = False
    short_work_on_loop: bool = True
    commit_delay: bool = True

    @property
    def engine_arguments(self) -> dict[str, Any]:
        """Give what SQLAlchemy calls them."""
        return {
            "pool_size": self.size,
            "max_overflow": self.overflow,
            "pool_timeout": self.timeout,
            "execution_options": {OPTION: self.lease_clock},
        }
