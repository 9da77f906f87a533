"""
The clock of leases and presence, which does not depend on the wall clock.

Wall clocks are set, and the clocks of two nodes differ. On PostgreSQL the server's clock is used,
one for all nodes. On SQLite all processes share a machine, and its boot clock cannot be set. After
a reboot or an upgrade stored times can be far ahead: a time further ahead than its lease counts as
expired.
"""

import time
from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, text

OPTION: Final = "bridge_lease_clock"
"""
An execution option of the engine: the boot clock in ms (`since_boot`).

Without it leases use the caller's clock, which tests set.
"""
_SERVER_TIME: Final = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_time(connection: Connection, now: int) -> int:
    """Return the time (ms) to compare leases with; `now` is the caller's wall clock."""
    boot_clock: Callable[[], int] | None = connection.get_execution_options().get(OPTION)
    if boot_clock is None:
        return now
    if connection.dialect.name == "postgresql":
        return int(connection.execute(_SERVER_TIME).scalar_one())
    return boot_clock()


def claim_time(connection: Connection, now: int) -> int:
    """
    As `lease_time`, without a query to the server.

    For claims of the queue. On PostgreSQL a claim ends when the heartbeat lock of its owner is gone
    (`bridge.store.postgresql.dedicated_connections`), independent of the clocks.
    """
    return now if connection.dialect.name == "postgresql" else lease_time(connection, now)


def since_boot() -> int:
    """Return the milliseconds since boot, including suspend."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000
