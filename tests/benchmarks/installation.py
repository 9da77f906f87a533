"""
One installation of the product for a benchmark, and the CPU time and memory of its processes.

CPU seconds and memory come from /proc and include the processes of PostgreSQL.
"""

import itertools
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from tests.acceptance.forked import started
from tests.acceptance.house import House
from tests.acceptance.serving import Serving
from tests.conftest import start_server

DIALECTS = ("SQLite", "PostgreSQL")
WHOLE: Sequence[Sequence[str]] = ((),)
APART: Sequence[Sequence[str]] = (("engine",), ("intake", "delivery"))
"""The engine in one process and the bridge in another, for two cores."""
ARRANGEMENTS = {"engine apart": APART, "all roles": WHOLE}

_TICKS = os.sysconf("SC_CLK_TCK")
_numbers = itertools.count()


class Postgres:
    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.server = start_server(folder)

    def database(self) -> str:
        """Create an empty database; return its address in the form of the settings."""
        name = f"bench{next(_numbers)}"
        address = str(self.server.get_uri())
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return address.replace("postgresql://", "postgresql+psycopg://").replace(
            "/postgres?", f"/{name}?"
        )

    def copy(self, address: str) -> str:
        url = make_url(address)
        model, name = url.database, f"bench{next(_numbers)}"
        with psycopg.connect(str(self.server.get_uri()), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {model}".encode())
        return url.set(database=name).render_as_string(hide_password=False)

    def rest(self) -> None:
        with psycopg.connect(str(self.server.get_uri()), autocommit=True) as connection:
            made = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'bench%'")
            for (name,) in made.fetchall():
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
            connection.execute("CHECKPOINT")

    def close(self) -> None:
        self.server.cleanup()

    def pids(self) -> list[int]:
        main = int((Path(self.server.pgdata) / "postmaster.pid").read_text().split()[0])
        return [main, *_children(main)]


class Installation:
    def __init__(self, house: House, postgres: Postgres | None) -> None:
        self.house = house
        self._postgres = postgres

    @property
    def _services(self) -> list[Serving]:
        return [other for other in (self.house.service, *self.house.others) if other is not None]

    @property
    def started(self) -> list[int]:
        """The processes that were started; the others are below them."""
        return [service.process.pid for service in self._services]

    @property
    def _main_processes(self) -> list[int]:
        return [pid for service in self._services for pid in service.processes()]

    def cpu(self) -> float:
        """CPU seconds of all processes."""
        database = self._postgres.pids() if self._postgres is not None else []
        return sum(map(cpu_of_tree, self.started)) + sum(map(cpu_seconds, database))

    def memory(self) -> float:
        """Peak memory of the processes of the service, without worker processes, in MiB."""
        return sum(map(most_resident, self._main_processes))

    def beside(self) -> float:
        """Peak memory of the largest worker process, in MiB."""
        below = {pid for started in self.started for pid in tree(started)}
        return max(map(most_resident, below - {*self._main_processes}), default=0.0)


@contextmanager
def installed(
    folder: Path,
    postgres: Postgres | None = None,
    processes: Sequence[Sequence[str]] = APART,
    settings: str = "",
    destination: int = 0,
) -> Iterator[Installation]:
    """Create an installation below `folder` and run it; on SQLite without `postgres`."""
    url = postgres.database() if postgres is not None else ""
    house = House(folder / f"home{next(_numbers)}", database=url, program=started)
    house.settings = UNLIMITED + settings
    if destination:
        house.destination("ris", destination)
    house.make()
    try:
        for number, roles in enumerate(processes):
            arguments = [word for role in roles for word in ("--role", role)]
            house.start(*arguments, beside=number > 0)
        yield Installation(house, postgres)
    finally:
        house.kill()
        if postgres is not None:
            postgres.rest()  # so that the next one does not pay for it
        os.sync()


UNLIMITED = "[rates]\nreads = 1000000\nlaunches = 1000000\nexports = 1000000\n"
"""A benchmark sends more requests in a minute than the default limits permit."""


def cpu_seconds(pid: int) -> float:
    """CPU seconds of one process and its ended children; 0 if it has ended."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text("ascii")
    except OSError:
        return 0.0
    fields = line.rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / _TICKS


def tree(pid: int) -> list[int]:
    """Return a process and all its running descendants."""
    try:
        below = _children(pid)
    except OSError:
        below = []
    return [pid, *(found for child in below for found in tree(child))]


def cpu_of_tree(pid: int) -> float:
    """CPU seconds of a process, its ended children, and all its running descendants."""
    return sum(map(cpu_seconds, tree(pid)))


def resident(pid: int) -> float:
    """Resident memory of a process and its descendants in MiB. Shared pages count for each."""
    return sum(_memory(process, "status", "VmRSS") for process in tree(pid))


def proportional(pid: int) -> float:
    """Memory of a process and its descendants in MiB. Shared pages count once (PSS)."""
    return sum(_memory(process, "smaps_rollup", "Pss") for process in tree(pid))


def most_resident(pid: int) -> float:
    """Peak resident memory of a process in MiB; 0 if it has ended."""
    return _memory(pid, "status", "VmHWM")


def _memory(pid: int, file: str, field: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text("ascii").splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            found += [int(child) for child in (task / "children").read_text("ascii").split()]
    return found
