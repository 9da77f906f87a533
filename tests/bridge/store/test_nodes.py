"""A stopped or disconnected node does not block other nodes for long."""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, text

from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.events import AuditEvent, Outcome
from bridge.contract.responses import ChangesResponse
from bridge.delivery.change_feed import ChangeProcessor
from bridge.engine.service.work import ActorRef, ChangeEvent, transaction
from bridge.queue.outbox import Outbox
from bridge.store.database import Database, before_commit
from bridge.store.errors import StoreUnavailable
from bridge.store.options import DatabaseOptions
from bridge.store.postgresql import dedicated_connections
from bridge.store.postgresql.connection import BRIEF_SECONDS
from bridge.store.postgresql.dedicated_connections import (
    GRACE_SECONDS,
    NotificationListener,
    Presence,
    SessionLocks,
)
from tests.bridge.store.network_path import NetworkPath
from tests.eventually import PATIENCE, eventually
from tests.processes import FORKED

pytestmark = pytest.mark.postgres

SITE = "SITE1"
_SETTING = "SELECT reset_val FROM pg_settings WHERE name = %(name)s"  # not visible on a socket file


def announce(database: Database, report: str) -> None:
    """Lock a row, and commit a change with its audit event, as each signature does."""
    with transaction(database, ActorRef(), 1) as work:
        work.connection.exec_driver_sql("SELECT FROM engine_site FOR KEY SHARE")
        work.announce(SITE, report, ChangeEvent.REPORT_SIGNED, {})
        work.audit(AuditEvent("sign", SITE, report, None, None, Outcome.SUCCESS, {}))


def with_options(url: str, **settings: str) -> str:
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    address = make_url(url).update_query_dict({"options": options})
    return address.render_as_string(hide_password=False)


def stopped_inside(url: str, parent: "Pipe[Any, Any]", work: Callable[[Database], None]) -> None:
    """Stop this process between a statement and its commit, and return how the work ended."""
    database = Database(url)

    def stop(*_: object) -> None:
        parent.send("not committed yet")
        os.kill(os.getpid(), signal.SIGSTOP)

    try:
        with before_commit(stop):
            work(database)
    except StoreUnavailable as error:
        parent.send(error.code)
    else:
        parent.send("committed")
    database.dispose()


def announce_frozen(database: Database) -> None:
    announce(database, "frozen")


def follow(database: Database) -> None:
    outbox = Outbox(database, "node")
    ChangeProcessor(database, outbox, [], lambda: 1).process(
        "frozen feed", ChangesResponse(changes=(), cursor=1)
    )


def sign_concurrently(url: str, parent: "Pipe[Any, Any]", threads: int, per_thread: int) -> None:
    """Sign in many threads at once, and return the number of commits."""
    database = Database(url, DatabaseOptions(size=threads))

    def sign(number: int) -> None:
        for place in range(per_thread):
            announce(database, f"rush {number}-{place}")

    parent.send("begins")
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(sign, range(threads)))
    parent.send("committed")
    database.dispose()


@pytest.fixture
def node(postgres_url: str) -> Iterator[Database]:
    database = Database(postgres_url)
    with database.write() as connection:
        connection.exec_driver_sql("TRUNCATE engine_site CASCADE")
        connection.exec_driver_sql(
            "TRUNCATE engine_audit_event;"
            "INSERT INTO engine_site (site_id, name, time_zone, sign_delay, locations,"
            " host_origins, settings, created_at)"
            " VALUES ('SITE1', '', 'UTC', 0, '[]', '[]', '{}', 1)"
        )
    yield database
    database.dispose()


def announced(database: Database) -> list[str]:
    """Return the reports of the feed in order."""
    with database.read() as connection:
        rows = connection.exec_driver_sql("SELECT report_id FROM engine_change ORDER BY cursor")
        return list(rows.scalars())


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "T"


@contextmanager
def forked(work: Callable[..., None], *arguments: object) -> Iterator[tuple[Any, int]]:
    """Run a process, return the pipe to it and its id, and kill it at the end."""
    mine, theirs = FORKED.Pipe()
    process = FORKED.Process(target=work, args=(arguments[0], theirs, *arguments[1:]), daemon=True)
    process.start()
    assert process.pid is not None
    try:
        yield mine, process.pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.join()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: is_stopped(pid))
    yield
    os.kill(pid, signal.SIGCONT)


@pytest.fixture
def impatient(node: Database, postgres_url: str) -> Iterator[Database]:
    """A node whose lock time-out is half as long as a stopped node can keep a lock."""
    database = Database(with_options(postgres_url, lock_timeout="5s"))
    yield database
    database.dispose()


def test_stopped_within_a_signature(impatient: Database, postgres_url: str) -> None:
    """Another node signs at once. The stopped node learns that its signature is not stored."""
    short_timeout = with_options(postgres_url, idle_in_transaction_session_timeout="500ms")
    with forked(stopped_inside, short_timeout, announce_frozen) as (pipe, pid):
        assert pipe.recv() == "not committed yet"
        eventually(lambda: is_stopped(pid))

        announce(impatient, "other")

        assert announced(impatient) == ["other"]
        eventually(lambda: not idle_in_transaction(impatient))
        os.kill(pid, signal.SIGCONT)
        assert pipe.recv() == "25P03"
    assert announced(impatient) == ["other"]


def idle_in_transaction(database: Database) -> int:
    with database.read() as connection:
        found: int = connection.exec_driver_sql(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'idle in transaction'"
            " AND pid <> pg_backend_pid()"
        ).scalar_one()
    return found


@pytest.mark.slow
def test_stopped_during_many_signatures(impatient: Database, postgres_url: str) -> None:
    """Another node signs at each stop. Feed and audit trail have each signature once."""
    threads, per_thread, stops = 8, 150, 25
    with forked(sign_concurrently, postgres_url, threads, per_thread) as (pipe, pid):
        assert pipe.recv() == "begins"
        for number in range(stops):
            with stopped(pid):
                announce(impatient, f"other {number}")
            announce(impatient, f"between {number}")
        assert pipe.recv() == "committed"
    reports = announced(impatient)
    assert len(set(reports)) == len(reports) == threads * per_thread + 2 * stops
    for thread in range(threads):
        own = [name for name in reports if name.startswith(f"rush {thread}-")]
        assert own == [f"rush {thread}-{place}" for place in range(per_thread)]
    with impatient.read() as connection:
        trail = ENGINE_CHAIN.verify(connection)
        cursors = "SELECT min(cursor), max(cursor), count(*) FROM engine_change"
        first, last, count = connection.exec_driver_sql(cursors).one()
    assert (trail.broken, trail.events) == (None, len(reports))
    assert last - first + 1 == count


def test_delivery_waits_two_seconds_for_a_process_that_is_stopped(
    node: Database, postgres_url: str
) -> None:
    """The server ends the transaction in which the stopped node reads a page of the feed."""
    patient = Database(with_options(postgres_url, lock_timeout=f"{4 * BRIEF_SECONDS}s"))
    with forked(stopped_inside, postgres_url, follow) as (pipe, pid):
        assert pipe.recv() == "not committed yet"
        eventually(lambda: is_stopped(pid))

        follow(patient)  # Busy, if the time-out of other transactions applied

        os.kill(pid, signal.SIGCONT)
        assert pipe.recv() == "25P03"
    patient.dispose()


@pytest.fixture
def path(postgres_url: str) -> Iterator[NetworkPath]:
    folder = str(make_url(postgres_url).query["host"])
    made = NetworkPath(f"{folder}/.s.PGSQL.5432")
    yield made
    made.close()


@pytest.fixture
def distant(postgres_url: str, path: NetworkPath) -> Iterator[Database]:
    address = make_url(postgres_url).set(host="127.0.0.1", port=path.port, query={})
    database = Database(address.render_as_string(hide_password=False))
    yield database
    path.close()
    database.dispose()


@pytest.mark.parametrize("length", [0, 200])
def test_a_cut_network_path(
    impatient: Database, distant: Database, path: NetworkPath, length: int
) -> None:
    """The path fails before its last message or within it, so the server does not execute it."""
    cut = threading.Event()

    def cut_off(*_: object) -> None:
        path.stop_forwarding(after=length)
        cut.set()

    def sign_distant() -> str:
        try:
            with before_commit(cut_off):
                announce(distant, "cut off")
        except StoreUnavailable as error:
            return error.code
        return "committed"

    with ThreadPoolExecutor(1) as pool:
        signing = pool.submit(sign_distant)
        assert cut.wait(PATIENCE)
        if length:
            assert path.has_stopped.wait(PATIENCE)

        announce(impatient, "other")

        path.close()
        assert signing.result(PATIENCE) == "lost"
    assert announced(impatient) == ["other"]


def test_a_stopped_process_loses_its_presence(node: Database, postgres_url: str) -> None:
    """Another node takes its claims and jobs while it is stopped."""
    other = Presence(node, ("node-2",), "frozen test")
    with forked(be_present, postgres_url) as (pipe, pid):
        assert pipe.recv() == "leads"
        other.start()
        assert not other.is_leader
        os.kill(pid, signal.SIGSTOP)
        try:
            eventually(lambda: other.is_leader)
        finally:
            other.stop()


def test_a_session_is_valid_from_the_question_on(
    node: Database, distant: Database, path: NetworkPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may have ended the session while its answer was under way."""
    monkeypatch.setattr(dedicated_connections, "POLL_SECONDS", PATIENCE)  # one question
    clock = Clock(lambda: path.stop_forwarding(after=0))
    presence = Presence(distant, ("node-1",), timer=clock)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(presence.start)
        assert path.has_stopped.wait(PATIENCE)  # the question was asked
        clock.now += GRACE_SECONDS
        path.resume()
        starting.result(PATIENCE)
    assert presence.session() is None
    clock.now -= 1.0
    assert presence.session() == 1
    presence.stop()


class Clock:
    """A clock that a test sets. `before_question` is called when it is read first."""

    def __init__(self, before_question: Callable[[], None]) -> None:
        self.now = 0.0
        self._before_question: Callable[[], None] | None = before_question

    def __call__(self) -> float:
        before, self._before_question = self._before_question, None
        if before is not None:
            before()
        return self.now


def be_present(url: str, parent: "Pipe[Any, Any]") -> None:
    """Lead until the process is killed."""
    presence = Presence(Database(url), ("node-1",), "frozen test")
    presence.start()
    eventually(lambda: presence.is_leader)
    parent.send("leads")
    select.select([], [], [])


def test_every_kind_of_connection_has_its_limits(node: Database, distant: Database) -> None:
    """Pool connections and those for LISTEN, locks and frequent queries have their time-outs."""
    wanted = {
        "idle_in_transaction_session_timeout": "10000",
        "lock_timeout": "30000",
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
        "tcp_user_timeout": "30000",
    }
    writer = distant.writer()
    with (
        closing(writer),
        closing(distant.dedicated_connection()) as dedicated,
        distant.read() as connection,
    ):
        with writer.transaction() as cursor:
            drivers = (distant.driver_connection(connection), cursor.connection, dedicated)
        for driver in drivers:
            for name, value in wanted.items():
                value_of_server = driver.execute(_SETTING, {"name": name}).fetchone()
                assert value_of_server == (value,), name
            own = {item.keyword: item.val for item in driver.pgconn.info}
            assert own[b"keepalives_idle"] == b"10"
            assert own[b"keepalives_interval"] == b"5"
            assert own[b"keepalives_count"] == b"3"
            assert own[b"tcp_user_timeout"] == b"30000"


WAITING = """
    SELECT 1 FROM pg_locks WHERE NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@pytest.fixture
def nodes(postgres_url: str) -> Iterator[tuple[SessionLocks, SessionLocks]]:
    databases = Database(postgres_url), Database(postgres_url)
    one, two = (SessionLocks(item) for item in databases)
    yield one, two
    for database in databases:
        database.dispose()


def test_locks_of_two_nodes(nodes: tuple[SessionLocks, SessionLocks]) -> None:
    """A lock attempt does not wait. A lock is free when all its holders released it."""
    one, two = nodes
    first, second = one.take({"a", "b"}), one.take({"b"})
    assert [set(first.names), set(second.names)] == [{"a", "b"}, {"b"}]
    assert two.take({"b", "c"}).names == {"c"}
    one.release(first)
    eventually(lambda: two.take({"a"}).names == {"a"})
    assert two.take({"b"}).names == set()
    one.release(second)
    eventually(lambda: two.take({"b"}).names == {"b"})


def test_a_connection_that_ends_loses_its_locks(nodes: tuple[SessionLocks, SessionLocks]) -> None:
    """A lost lock cannot release the lock of the next connection."""
    one, two = nodes
    lost = one.take({"a"})
    one.close()
    eventually(lambda: two.take({"a"}).names == {"a"})
    two.close()
    held = one.take({"a", "b"})
    one.release(lost)
    one.release(one.take({"c"}))
    eventually(lambda: two.take({"c"}).names == {"c"})
    assert held.names == {"a", "b"}
    assert two.take({"a"}).names == set()


def test_a_connection_in_use_is_not_closed(nodes: tuple[SessionLocks, SessionLocks]) -> None:
    """A statement on another thread ends first: psycopg would free the memory that it uses."""
    locks, driver, other = nodes[0], *(item.take({"a"}).driver for item in nodes)
    results: list[object] = []

    def wait_for_lock() -> None:
        results.append(driver.execute("SELECT 'got', pg_advisory_lock(1)").fetchone())

    waiting, closing = threading.Thread(target=wait_for_lock), threading.Thread(target=locks.close)
    other.execute("SELECT pg_advisory_lock(1)")
    waiting.start()
    eventually(lambda: other.execute(WAITING).fetchone())
    closing.start()
    closing.join(0.2)  # longer than an unprotected close takes
    assert not driver.closed
    other.execute("SELECT pg_advisory_unlock(1)")
    waiting.join()
    closing.join()
    assert results == [("got", "")]
    assert driver.closed


CHANNEL = "test_channel"


class Receiver:
    def __init__(self) -> None:
        self.notifications = threading.Semaphore(0)

    def __call__(self) -> None:
        self.notifications.release()

    def wait(self, seconds: float = PATIENCE) -> bool:
        return self.notifications.acquire(timeout=seconds)


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def listening(postgres_url: str, receiver: Receiver) -> Iterator[Database]:
    database = Database(postgres_url)
    listener = NotificationListener(database, CHANNEL, receiver)
    listener.start()
    assert receiver.wait(), "a listener notifies once at its start"
    yield database
    listener.stop()
    database.dispose()


@pytest.fixture
def other(postgres_url: str) -> Iterator[Database]:
    database = Database(postgres_url)
    yield database
    database.dispose()


def test_commits_of_others_notify_and_own_ones_do_not(
    listening: Database, other: Database, receiver: Receiver
) -> None:
    """Other nodes' commits notify. Rolled back changes, other channels and own commits do not."""
    with other.write() as connection:
        other.notify(connection, CHANNEL)
        assert not receiver.wait(0.3)
    assert receiver.wait()
    with listening.write() as connection:
        listening.notify(connection, CHANNEL)
    with other.write() as connection:
        other.notify(connection, "another_channel")
    assert not receiver.wait(0.3)


def test_a_listener_whose_connection_is_cut_listens_again(
    listening: Database, other: Database, receiver: Receiver
) -> None:
    """The listener reconnects, and notifies once for missed commits."""
    with other.write() as connection:
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        assert connection.execute(text(cut)).all()
    assert receiver.wait()
    with other.write() as connection:
        other.notify(connection, CHANNEL)
    assert receiver.wait()


def test_sqlite_has_no_notifications(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """On SQLite a listener can be started and stopped without effect."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('quiet') / 'quiet.db'}")
    receiver = Receiver()
    listener = NotificationListener(database, CHANNEL, receiver)
    listener.start()
    with database.write() as connection:
        database.notify(connection, CHANNEL)
    listener.stop()
    assert not receiver.wait(0)
    database.dispose()
