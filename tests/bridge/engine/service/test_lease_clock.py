"""The writing lease of a report does not go by a node's clock."""

import pytest

from bridge.engine.records.tables import Report
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.signing import lease
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.work import ActorRef, Work
from bridge.store.database import Database
from bridge.store.options import DatabaseOptions

NOW = 1_800_000_000_000
JUMP = 10**9  # ms


@pytest.mark.parametrize("jump", [JUMP, -JUMP])
def test_a_clock_that_is_set_ends_no_lease(
    database_url: str, database: Database, jump: int
) -> None:
    """Another session, of a node whose clock is far off, does not write meanwhile."""
    opened = Database(database_url, DatabaseOptions(lease_clock=True))
    mine, other = (Editor(number, SiteRole.USER, f"session {number}") for number in (1, 2))
    report = Report()
    with opened.read() as connection:
        here, there = (Work(connection, ActorRef(1), now) for now in (NOW, NOW + jump))
        lease.renew(here, mine, report)
        here.close()
        assert lease.is_held(there, mine, report)
        assert not lease.is_free(there, other, report)
        report.lease_until = NOW + JUMP * 10  # of an older release, or an earlier boot
        assert lease.is_free(here, other, report)
    opened.dispose()
