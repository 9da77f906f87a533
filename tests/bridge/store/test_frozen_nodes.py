"""A node that is stopped, or cut off without a word, holds up no other one for long."""

import os
import select
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from bridge.audit.events import AuditEvent, Outcome
from bridge.engine.service.work import Actor, ChangeEvent, transaction
from bridge.store.answers import Words, run_all
from bridge.store.database import Database, before_commit
from bridge.store.errors import StoreUnavailable
from bridge.store.presence import Presence
from tests.eventually import eventually
from tests.processes import FORKED

pytestmark = pytest.mark.postgres

SITE = "SITE1"
_SAID = "SELECT reset_val FROM pg_settings WHERE name = %(name)s"  # a socket file shows none


def announce(database: Database, report: str) -> None:
    """Commit a change with its audit event, as each signature does."""
    with transaction(database, Actor(), 1) as work:
        work.announce(SITE, report, ChangeEvent.REPORT_SIGNED, {})
        work.note(AuditEvent("sign", SITE, report, None, None, Outcome.SUCCESS, {}))


def stopped_inside(url: str, parent: "Pipe[Any, Any]") -> None:
    """Be stopped between the last statement of a signature and its commit; say what it came to."""
    database = Database(url)

    def stop(*_: object) -> None:
        parent.send("holds the locks")
        os.kill(os.getpid(), signal.SIGSTOP)

    try:
        with before_commit(stop):
            announce(database, "frozen")
    except StoreUnavailable as error:
        parent.send(error.code)
    else:
        parent.send("committed")
    database.dispose()


@pytest.fixture
def node(postgres_url: str) -> Iterator[Database]:
    """Another node."""
    database = Database(postgres_url)
    with database.write() as connection:
        connection.exec_driver_sql("TRUNCATE engine_site CASCADE")
        connection.exec_driver_sql(
            "INSERT INTO engine_site (site_id, name, time_zone, sign_delay, locations,"
            " host_origins, settings, created_at)"
            " VALUES ('SITE1', '', 'UTC', 0, '[]', '[]', '{}', 1)"
        )
    yield database
    database.dispose()


def announced(database: Database) -> list[str]:
    """Return the reports of the feed, in its order."""
    with database.read() as connection:
        rows = connection.exec_driver_sql("SELECT report_id FROM engine_change ORDER BY cursor")
        return list(rows.scalars())


def is_stopped(pid: int) -> bool:
    """Tell whether a process is stopped."""
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "T"


def test_a_stopped_process_loses_the_locks_of_the_feed(node: Database, postgres_url: str) -> None:
    """Another node signs while it is stopped; it itself learns that nothing was kept."""
    mine, theirs = FORKED.Pipe()
    process = FORKED.Process(target=stopped_inside, args=(postgres_url, theirs), daemon=True)
    process.start()
    try:
        assert mine.recv() == "holds the locks"
        eventually(lambda: is_stopped(process.pid or 0))

        announce(node, "other")  # Busy, if it had to wait until the process goes on

        assert announced(node) == ["other"]
        os.kill(process.pid or 0, signal.SIGCONT)
        assert mine.recv() == "25P03"
        assert announced(node) == ["other"]
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid or 0, signal.SIGKILL)
        process.join()


class NetworkPath:
    """A TCP proxy to a server's socket file that can stop to forward, in both directions."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._ends: list[socket.socket] = []
        self._open = threading.Event()
        self._open.set()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def stop_forwarding(self) -> None:
        """Take what comes, and forward nothing from now on."""
        self._open.clear()

    def close(self) -> None:
        """End all connections."""
        self._closed = True
        self._open.set()
        for each in [self._listener, *self._ends]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._server)
            self._ends += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError, ValueError):
            while data := source.recv(65536):
                self._open.wait()
                if self._closed:
                    return
                target.sendall(data)
            if self._open.is_set():
                target.shutdown(socket.SHUT_WR)


@pytest.fixture
def path(postgres_url: str) -> Iterator[NetworkPath]:
    """A network path to the server."""
    folder = str(make_url(postgres_url).query["host"])
    made = NetworkPath(f"{folder}/.s.PGSQL.5432")
    yield made
    made.close()


@pytest.fixture
def distant(postgres_url: str, path: NetworkPath) -> Iterator[Database]:
    """A node that reaches the server by that path."""
    address = make_url(postgres_url).set(host="127.0.0.1", port=path.port, query={})
    database = Database(address.render_as_string(hide_password=False))
    yield database
    path.close()
    database.dispose()


def test_a_node_whose_path_is_cut_loses_the_locks_of_the_feed(
    node: Database, distant: Database, path: NetworkPath
) -> None:
    """The server ends its transaction, whatever becomes of the connection."""
    cut = threading.Event()

    def cut_off(*_: object) -> None:
        path.stop_forwarding()
        cut.set()

    def sign_far_away() -> str:
        try:
            with before_commit(cut_off):
                announce(distant, "cut off")
        except StoreUnavailable as error:
            return error.code
        return "committed"

    with ThreadPoolExecutor(1) as pool:
        signing = pool.submit(sign_far_away)
        assert cut.wait(30)

        announce(node, "other")

        path.close()
        assert signing.result(30) == "lost"
    assert announced(node) == ["other"]


def test_a_stopped_process_loses_its_presence(node: Database, postgres_url: str) -> None:
    """Another node takes its claims and its jobs while it is stopped."""
    mine, theirs = FORKED.Pipe()
    process = FORKED.Process(target=be_present, args=(postgres_url, theirs), daemon=True)
    process.start()
    other = Presence(node, ("node-2",), "frozen test")
    try:
        assert mine.recv() == "leads"
        other.start()
        assert not other.leads
        os.kill(process.pid or 0, signal.SIGSTOP)

        eventually(lambda: other.leads)
    finally:
        other.stop()
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()


def be_present(url: str, parent: "Pipe[Any, Any]") -> None:
    """Lead, until the process is killed."""
    presence = Presence(Database(url), ("node-1",), "frozen test")
    presence.start()
    eventually(lambda: presence.leads)
    parent.send("leads")
    select.select([], [], [])


def test_the_server_counts_after_a_pipeline_too(node: Database) -> None:
    """What is sent in one message ends with the message that starts the server's timer."""

    def pause() -> None:
        with node.write() as connection:
            timeout = "SELECT set_config('idle_in_transaction_session_timeout', '50ms', true)"
            run_all(connection, [Words("SELECT 1", ()), Words(timeout, ())])
            ended, _, _ = select.select([node.driver(connection).pgconn.socket], [], [], 30)
            assert ended, "the server does not count"
            connection.exec_driver_sql("SELECT 1")

    with pytest.raises(StoreUnavailable) as cut:
        pause()
    assert cut.value.code == "25P03"


def test_every_kind_of_connection_has_its_limits(node: Database, distant: Database) -> None:
    """The pool's, and those that are kept apart for LISTEN, locks and frequent questions."""
    wanted = {
        "idle_in_transaction_session_timeout": "10000",
        "lock_timeout": "30000",
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
        "tcp_user_timeout": "30000",
    }
    writer = distant.writer()
    with closing(writer), closing(distant.apart()) as apart, distant.read() as connection:
        with writer.transaction() as cursor:
            drivers = (distant.driver(connection), cursor.connection, apart)
        for driver in drivers:
            for name, value in wanted.items():
                said = driver.execute(_SAID, {"name": name}).fetchone()
                assert said == (value,), name
            own = {each.keyword: each.val for each in driver.pgconn.info}
            assert own[b"keepalives_idle"] == b"10"
            assert own[b"keepalives_interval"] == b"5"
            assert own[b"keepalives_count"] == b"3"
            assert own[b"tcp_user_timeout"] == b"30000"
