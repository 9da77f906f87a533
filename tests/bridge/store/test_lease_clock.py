"""Leases and presence do not depend on wall clocks."""

import pytest

from bridge.store.database import Database
from bridge.store.lease_clock import claim_time, lease_time, since_boot
from bridge.store.options import DatabaseOptions

LONG = 10**9  # ms of the clock change
NOW = 1_800_000_000_000


@pytest.fixture
def ticking(database_url: str, database: Database) -> Database:
    """The database as the service opens it."""
    return Database(database_url, DatabaseOptions(lease_clock=True))


def test_leases_ignore_the_clocks_of_nodes(ticking: Database) -> None:
    """Leases use one time that advances, whatever the callers' clocks."""
    with ticking.read() as connection:
        times = [lease_time(connection, now) for now in (NOW, NOW - LONG, NOW + LONG, 0)]
        assert times == sorted(times)
        assert times[-1] - times[0] < LONG
        if ticking.dialect == "sqlite":
            assert claim_time(connection, NOW) <= since_boot()
    ticking.dispose()
