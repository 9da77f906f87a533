"""The write lease does not depend on the clocks of nodes."""

import pytest

from bridge.engine.records.tables import Report
from bridge.engine.rules.lifecycle import ReportOrigin, Status
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.signing import lease
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.work import ActorRef, Work
from bridge.store.database import Database
from bridge.store.options import DatabaseOptions

NOW = 1_800_000_000_000
JUMP = 10**9  # ms


@pytest.mark.parametrize("jump", [JUMP, -JUMP])
def test_a_clock_jump_does_not_end_a_lease(
    database_url: str, database: Database, jump: int
) -> None:
    """A session on a node with a wrong clock does not get the lease."""
    opened = Database(database_url, DatabaseOptions(lease_clock=True))
    own, other = (Editor(number, SiteRole.USER, f"session {number}") for number in (1, 2))
    report = Report(report_id="R", site_id="S", status=Status.DRAFT, origin=ReportOrigin.LAUNCH)
    with opened.read() as connection:
        here, there = (Work(connection, ActorRef(1), now) for now in (NOW, NOW + jump))
        lease.renew(here, own, report)
        here.close()
        assert lease.is_held(there, own, report)
        assert not lease.is_free(there, other, report)
        report.lease_until = NOW + JUMP * 10  # from an older release, or before a reboot
        assert lease.is_free(here, other, report)
    opened.dispose()
