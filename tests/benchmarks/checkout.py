"""
A checkout of the product under test: its own interpreter and code, a new data directory each turn.

It depends only on the command line, the settings file, `/readyz` and the table of orders, so that
it can measure any commit.
"""

import itertools
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg

from tests.acceptance.house import free_port
from tests.benchmarks.installation import Postgres, cpu_of_tree
from tests.benchmarks.load import send
from tests.benchmarks.mixed import Frame

READY_WITHIN = 60.0
PATIENCE = 120.0
"""Seconds without another order after which a run fails."""

_IDLE_TICKS = 2  # CPU ticks of an idle service in half a second
_COUNT = "SELECT count(*) FROM engine_report_order"
_numbers = itertools.count()


@dataclass(frozen=True)
class Turn:
    """One pattern: ACKs a second, CPU seconds of the service, applied orders a second."""

    rate: float
    cpu: float
    applied: float


class Serving:
    def __init__(self, pid: int, port: int, home: Path, database: str) -> None:
        self.pid, self.port = pid, port
        self._home, self._database = home, database.replace("+psycopg", "")

    def turn(self, connections: int, window: int, todo: list[Frame], orders: int) -> Turn:
        """Send frames, wait until `orders` more orders are applied and the service is idle."""
        known, before = self.orders() if orders else 0, cpu_of_tree(self.pid)
        run = send(self.port, connections, window, todo)
        applied = 0.0
        if orders:
            applied = orders / (self._applied(known + orders) - run.began)
        self.rest()
        return Turn(run.rate, cpu_of_tree(self.pid) - before, applied)

    def orders(self) -> int:
        if self._database:
            with psycopg.connect(self._database) as connection:
                row = connection.execute(_COUNT.encode()).fetchone()
        else:
            file = self._home / "bridge-engine.db"
            with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
                row = database.execute(_COUNT).fetchone()
        return int(row[0]) if row else 0

    def _applied(self, count: int) -> float:
        known, deadline = 0, time.monotonic() + PATIENCE
        while (seen := self.orders()) < count:
            if seen > known:
                known, deadline = seen, time.monotonic() + PATIENCE
            if time.monotonic() > deadline:
                raise AssertionError(f"{seen} of {count} orders were applied")
            time.sleep(0.05)
        return time.perf_counter()

    def rest(self) -> None:
        """Wait for background work, whose CPU time belongs to the messages that caused it."""
        tick, deadline = 1 / os.sysconf("SC_CLK_TCK"), time.monotonic() + 20
        before = cpu_of_tree(self.pid)
        while time.monotonic() < deadline:
            time.sleep(0.5)
            now = cpu_of_tree(self.pid)
            if now - before <= _IDLE_TICKS * tick:
                return
            before = now


class Checkout:
    """A checkout; `serving` runs it on a new data directory."""

    def __init__(self, root: Path, folder: Path, postgres: Postgres | None) -> None:
        self.root = root.resolve()
        self._folder = folder
        self._postgres = postgres
        self._model: tuple[Path, str] | None = None

    @contextmanager
    def serving(self, *, whole: bool) -> Iterator[Serving]:
        """Run the intake alone or the whole service until the block ends."""
        home, database = self._new()
        http_port, port = free_port(), free_port()
        self._configure(home, database, http_port, port)
        command = [*self._bridge(), "serve", "--home", str(home)]
        environment = dict(os.environ)
        if not whole:
            command += ["--role", "intake"]
            http_port = free_port()  # no engine listens there, which pauses the worker
            environment["BRIDGE_HTTP__PROBE_BIND"] = f"127.0.0.1:{http_port}"
        with (home / "serve.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdout=log, stderr=log
            )
        try:
            self._wait(process, home, http_port)
            yield Serving(process.pid, port, home, database)
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            shutil.rmtree(home)

    def _bridge(self) -> list[str]:
        return [str(self.root / ".venv" / "bin" / "python"), "-m", "bridge"]

    def _new(self) -> tuple[Path, str]:
        """Copy the data directory and database that are created once per run."""
        if self._model is None:
            home = self._folder / f"model{next(_numbers)}"
            database = self._postgres.database() if self._postgres else ""
            self._run("init", str(home))
            self._configure(home, database, free_port(), free_port())
            self._run("site", "add", "SITE1", "--home", str(home), "--name", "One")
            self._model = home, database
        model, database = self._model
        home = self._folder / f"home{next(_numbers)}"
        shutil.copytree(model, home)
        shutil.rmtree(home / "run", ignore_errors=True)
        return home, self._postgres.copy(database) if self._postgres else ""

    def _run(self, *arguments: str) -> None:
        command = [*self._bridge(), *arguments]
        subprocess.run(command, cwd=self.root, check=True, capture_output=True, timeout=120)

    @staticmethod
    def _configure(home: Path, database: str, http_port: int, port: int) -> None:
        text = f'[http]\nbind = "127.0.0.1:{http_port}"\n'
        text += f'public_url = "http://127.0.0.1:{http_port}"\n'
        if database:
            text = f'[database]\nurl = "{database}"\n' + text
        text += f'[[listener]]\nname = "orders"\nbind = "127.0.0.1:{port}"\nsite = "SITE1"\n'
        (home / "bridge.toml").write_text(text, "utf-8")

    @staticmethod
    def _wait(process: "subprocess.Popen[bytes]", home: Path, http_port: int) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if httpx.get(f"http://127.0.0.1:{http_port}/readyz", timeout=2).is_success:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"not ready: {(home / 'serve.log').read_text('utf-8')[-3000:]}")
