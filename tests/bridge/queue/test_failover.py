"""Another node requeues the claims of a failed node, and never those of a live node."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from bridge.queue.claims import Lease
from bridge.queue.failover import Failover
from bridge.queue.inbox import Inbox
from bridge.queue.outbox import Outbox
from bridge.queue.wakeup import PollTimer
from bridge.store.database import Database
from bridge.store.errors import NameTaken
from bridge.store.postgresql.dedicated_connections import (
    GRACE_SECONDS,
    Heartbeat,
    Presence,
    without_heartbeat,
)
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, release
from tests.eventually import PATIENCE, eventually

_CUT_HEARTBEATS = text("""
    SELECT pg_terminate_backend(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND pid <> pg_backend_pid()
""")
LATE_SECONDS = 600.0
LATER = NOW + 3_600_000  # a changed clock or an expired lease


class Timer:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Timelines:
    def __init__(self, store: Database) -> None:
        self._store = store
        self._running: dict[str, Presence] = {}

    def start(self, name: str) -> Presence:
        if name in self._running:
            self._running.pop(name).stop()
            wait_until_gone(self._store, name)
        made = self._running[name] = Presence(self._store, (name,), late_seconds=LATE_SECONDS)
        made.start()
        return made

    def begin_another(self) -> None:
        self._change("UPDATE server_timeline SET timeline = 'earlier'")

    def age(self, seconds: float) -> None:
        """Let so much time pass since the last timeline was seen."""
        self._change(f"UPDATE server_timeline SET seen_at = seen_at - {seconds * 1000}")  # noqa: S608

    def stop(self) -> None:
        for node in self._running.values():
            node.stop()

    def _change(self, statement: str) -> None:
        with self._store.write() as connection:
            connection.exec_driver_sql(statement)


@pytest.fixture
def timelines(store: Database) -> Iterator[Timelines]:
    made = Timelines(store)
    yield made
    made.stop()


@pytest.fixture
def other(store: Database) -> Iterator[Presence]:
    presence = Presence(store, ("node-2",), "test")
    presence.start()
    yield presence
    presence.stop()


def wait_until_gone(store: Database, owner: str) -> None:
    def is_gone() -> bool:
        with store.read() as connection:
            return bool(without_heartbeat(connection, {owner}))

    eventually(is_gone)


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
class TestFailover:
    def test_a_live_node_keeps_its_claims(
        self, store: Database, intake: Intake, other: Presence
    ) -> None:
        """A live node keeps its claims after their lease and after a long time."""
        intake.enqueue(arrival(patient="1"))
        assert Inbox(store, "node-2", lease=1000).claim(NOW, 10)
        timer = Timer()
        inbox = Inbox(store, "node-1")
        failover = Failover(store, inbox, Outbox(store, "node-1"), ("node-1",), clock=timer)
        assert failover.requeue_claims_of_failed_nodes(NOW) == 0
        timer.now += 2 * GRACE_SECONDS
        assert failover.requeue_claims_of_failed_nodes(NOW) == 0
        assert inbox.requeue_expired_claims(LATER) == 0

    def test_a_failed_node_is_taken_over_once(
        self, store: Database, intake: Intake, other: Presence
    ) -> None:
        """Failover waits for the grace period, because only the connection may have failed."""
        intake.enqueue(arrival(patient="1"))
        assert Inbox(store, "node-2").claim(NOW, 10)
        other.stop()
        wait_until_gone(store, "node-2")
        timer = Timer()
        inbox = Inbox(store, "node-1")
        failover = Failover(store, inbox, Outbox(store, "node-1"), ("node-1",), clock=timer)
        assert failover.requeue_claims_of_failed_nodes(NOW) == 0
        back = Presence(store, ("node-2",))
        back.start()
        assert failover.requeue_claims_of_failed_nodes(NOW) == 0
        back.stop()
        wait_until_gone(store, "node-2")
        timer.now += GRACE_SECONDS
        assert failover.requeue_claims_of_failed_nodes(NOW) == 0  # the grace period begins again
        timer.now += GRACE_SECONDS
        assert (
            failover.requeue_claims_of_failed_nodes(NOW),
            failover.requeue_claims_of_failed_nodes(NOW),
        ) == (1, 0)
        assert len(inbox.claim(NOW, 10)) == 1

    def test_a_node_that_is_back_keeps_its_claims(
        self, store: Database, intake: Intake, other: Presence
    ) -> None:
        """Its lock is asked for again in the transaction that would requeue."""
        intake.enqueue(arrival(patient="1"))
        theirs = Outbox(store, "node-2")
        with store.write() as connection:
            theirs.enqueue(connection, [release()], NOW)
        assert Inbox(store, "node-2").claim(NOW, 10)
        assert theirs.claim("ris-results", NOW, 10)
        assert Inbox(store, "node-1").requeue_claims("node-2", NOW) == 0
        assert Outbox(store, "node-1").requeue_claims("node-2", NOW) == 0

    def test_a_cut_connection_ends_the_session(self, store: Database, other: Presence) -> None:
        """After a cut connection another node may have requeued the earlier claims."""
        before = Lease(session=other.session)
        assert before.is_held
        with store.write() as connection:
            connection.execute(_CUT_HEARTBEATS)
        eventually(lambda: other.session() == 2)
        assert not before.is_held
        assert Lease(session=other.session).is_held

    def test_nothing_is_claimed_on_a_server_without_the_own_lock(
        self, store: Database, intake: Intake, other: Presence
    ) -> None:
        """After a failover a session counts as held for some seconds, but the lock is gone."""
        intake.enqueue(arrival(patient="1"))
        outbox = Outbox(store, "node-3", session=other.session)
        with store.write() as connection:
            outbox.enqueue(connection, [release()], NOW)
        assert Inbox(store, "node-3", session=other.session).claim(NOW, 10) == []
        assert outbox.claim("ris-results", NOW, 10) == []
        assert len(Inbox(store, "node-2", session=other.session).claim(NOW, 10)) == 1
        theirs = Outbox(store, "node-2", session=other.session)
        assert len(theirs.claim("ris-results", NOW, 10)) == 1

    def test_nobody_claims_until_calls_of_a_lost_server_have_ended(
        self, store: Database, timelines: Timelines
    ) -> None:
        """The session begins later on a new timeline, for each process, and not after restarts."""
        timelines.start("node-2")
        assert timelines.start("node-2").session() is not None
        timelines.begin_another()
        late = [timelines.start("node-2"), timelines.start("node-3")]
        assert [item.session() for item in late] == [None, None]
        timelines.age(LATE_SECONDS)
        assert timelines.start("node-2").session() is not None

    def test_a_late_answer_confirms_from_its_question(
        self, store: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A session ends a grace period after the server was asked, not after it answered."""
        times = [0.0, 0.0]  # the session begins, and the server is asked
        presence = Presence(
            store, ("node-3",), timer=lambda: times.pop() if times else GRACE_SECONDS
        )
        monkeypatch.setattr(f"{Presence.__module__}.POLL_SECONDS", PATIENCE)  # asked once
        presence.start()
        session = presence.session()
        presence.stop()
        assert session is None

    def test_own_claims_are_never_requeued(self, store: Database, intake: Intake) -> None:
        """A node does not requeue its own claims, also while its connection is cut."""
        intake.enqueue(arrival(patient="1"))
        inbox = Inbox(store, "node-1")
        assert inbox.claim(NOW, 10)
        timer = Timer()
        failover = Failover(store, inbox, Outbox(store, "node-1"), ("node-1",), clock=timer)
        assert failover.requeue_claims_of_failed_nodes(NOW) == 0
        timer.now += 2 * GRACE_SECONDS
        assert failover.requeue_claims_of_failed_nodes(NOW) == 0

    def test_one_leader_and_unique_names(
        self, store: Database, other: Presence, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A second node is not the leader, and cannot use the name of the first."""
        second = Presence(store, ("node-3",), "test")
        second.start()
        assert (other.is_leader, second.is_leader) == (True, False)
        second.stop()
        monkeypatch.setattr(
            "bridge.store.postgresql.dedicated_connections.START_TIMEOUT_SECONDS", 0.5
        )
        with pytest.raises(NameTaken):
            Presence(store, ("node-2",)).start()


def test_a_session_must_be_confirmed() -> None:
    """
    A session is valid until other nodes may take over.
    A claim of an old session, or of one that was not confirmed, never becomes valid.
    """
    timer = Timer()
    heartbeat = Heartbeat(timer)
    heartbeat.begin_session()
    assert heartbeat.session() is None
    heartbeat.confirm(timer.now)
    claim = Lease(timer=timer, session=heartbeat.session)
    assert claim.is_held
    timer.now += GRACE_SECONDS
    assert not claim.is_held
    heartbeat.confirm(timer.now)
    assert claim.is_held
    heartbeat.begin_session()
    unconfirmed = Lease(timer=timer, session=heartbeat.session)
    assert not unconfirmed.is_held
    heartbeat.confirm(timer.now)
    assert not claim.is_held
    assert not unconfirmed.is_held


def test_polls_follow_due_times() -> None:
    """Without due times the longest interval applies."""
    alarm = PollTimer(2.0)
    assert alarm.seconds_until_next(1000) == 2.0
    alarm.add_due_time(9000)
    alarm.add_due_time(1500)
    assert (
        alarm.seconds_until_next(1000),
        alarm.seconds_until_next(1500),
        alarm.seconds_until_next(8000),
    ) == (0.5, 2.0, 1.0)
