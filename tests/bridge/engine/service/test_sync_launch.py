"""SyncLaunch: the newest launch is the target, and the user's newest window follows it."""

from typing import Any

from bridge.engine.records.tables import Site
from bridge.engine.rules.sync_launch import FollowAnswer, follows
from bridge.engine.service.accounts import sessions
from bridge.engine.service.accounts.sessions import BrowserSession, NewSession
from bridge.engine.service.live import windows
from bridge.engine.service.live.windows import LaunchTarget, NewTarget
from bridge.engine.settings import AccessLifetimes
from tests.bridge.engine.service.harness import SITE, ServiceHarness

LIFE = AccessLifetimes()


def window(harness: ServiceHarness, report_id: str, site_id: str = SITE) -> BrowserSession:
    details = {"report_id": report_id, "persistent": True, "kind": "account"}
    new = NewSession(site_id, harness.ann, details=details)
    with harness.database.write() as connection:
        secret = sessions.begin_session(
            connection, lambda count: report_id.encode().ljust(count), new, harness.now, LIFE
        )
        found = sessions.find_session(connection, secret, harness.now, LIFE)
        assert found is not None
        windows.open_window(connection, found, report_id, harness.now)
    return found


def launch(harness: ServiceHarness, report_id: str, sequence: int | None = None) -> Any:
    """Launch a report; return the window that has to follow."""
    with harness.database.write() as connection:
        number = sequence or windows.reserve_sequence(connection, SITE, harness.ann, harness.now)
        new = NewTarget(SITE, harness.ann, number, f"hash of {report_id}", report_id, "A1")
        return windows.set_target(connection, new, harness.now)


def target(harness: ServiceHarness) -> LaunchTarget:
    with harness.database.read() as connection:
        found = windows.current_target(connection, SITE, harness.ann)
    assert found is not None
    return found


def test_an_older_launch_replaces_no_newer_one(harness: ServiceHarness) -> None:
    """The target of a launch that is completed late is skipped, as is the answer to it."""
    launch(harness, "R1")
    launch(harness, "R2")
    window(harness, "R0")

    assert launch(harness, "R1", sequence=1) is None
    with harness.database.write() as connection:
        windows.record_answer(connection, (SITE, harness.ann), 1, FollowAnswer.REFUSED)

    found = target(harness)
    assert (found.sequence, found.report_id, found.answer) == (2, "R2", FollowAnswer.PENDING)


def test_the_newest_window_decides(harness: ServiceHarness) -> None:
    """A launch waits for the newest window if that shows another report."""
    window(harness, "R1")
    window(harness, "R2")
    assert launch(harness, "R2") is None
    awaited = launch(harness, "R1")
    assert awaited is not None
    assert awaited.sequence == 2


def test_a_window_of_another_site_does_not_count(harness: ServiceHarness) -> None:
    """The windows of a user follow the launches of their own site."""
    with harness.database.session() as session:
        session.add(Site(site_id="SITE2", name="Other Clinic", created_at=harness.now))
    own = window(harness, "R1")
    window(harness, "R9", "SITE2")
    launch(harness, "R2")
    with harness.database.read() as connection:
        assert windows.pending_target(connection, own, harness.now) == target(harness)


def test_a_launch_that_the_window_knows() -> None:
    for sequence, expected in ((1, False), (2, False), (3, True)):
        given = {"window": 1, "windows": [1], "seen": 2, "answer": FollowAnswer.PENDING}
        assert follows(**given, sequence=sequence) is expected  # type: ignore[arg-type]  # a table
