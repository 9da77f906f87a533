"""The clock of leases and of presence: one that no node's clock setting moves.

A lease that is compared with the wall clock ends early when that clock is set forward, and never
ends soon when it is set back; the clocks of two nodes differ. On PostgreSQL the server's clock is
asked, for it is one for all nodes. SQLite's processes share a machine, and its clock since the boot
cannot be set. After a boot, or an upgrade, stored times can lie far ahead: whoever compares one
takes a time further ahead than its lease as ended.
"""

import time
from typing import Final

from sqlalchemy import Connection, text

OPTION: Final = "bridge_lease_clock"
"""An option of the engine; without it leases go by the caller's clock, as tests turn it."""
_SERVER: Final = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_time(connection: Connection, now: int) -> int:
    """Give the time (ms) to compare leases with; `now` is the caller's wall clock."""
    if not connection.get_execution_options().get(OPTION):
        return now
    if connection.dialect.name == "postgresql":
        return int(connection.execute(_SERVER).scalar_one())
    return since_boot()


def claim_time(connection: Connection, now: int) -> int:
    """
    As `lease_time`, without a question to a server.

    For claims of the queue: on PostgreSQL a claim ends when the lock of its owner is gone
    (`bridge.store.presence`), whatever the clocks say.
    """
    return now if connection.dialect.name == "postgresql" else lease_time(connection, now)


def since_boot() -> int:
    """Give the milliseconds since the machine was started, its sleep included."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000
