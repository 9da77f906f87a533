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
from tests.conftest import start_server

DIALECTS = ("SQLite", "PostgreSQL")
WHOLE: Sequence[Sequence[str]] = ((),)
APART: Sequence[Sequence[str]] = (("engine",), ("intake", "delivery"))
"""The engine in one process and the bridge in another, for two cores."""
ARRANGEMENTS = {"engine apart": APART, "one process": WHOLE}

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
    def processes(self) -> list[int]:
        services = [self.house.service, *self.house.others]
        return [service.process.pid for service in services if service is not None]

    def cpu(self) -> float:
        """CPU seconds of all processes and their children."""
        database = self._postgres.pids() if self._postgres is not None else []
        ours = [child for pid in self.processes for child in (pid, *_children(pid))]
        return sum(cpu_seconds(pid) for pid in (*ours, *database))

    def memory(self) -> float:
        """Peak memory of the largest process of the service, in MiB."""
        return max(most_resident(pid) for pid in self.processes)

    def beside(self) -> float:
        """Peak memory of the largest child process, in MiB."""
        started = [child for pid in self.processes for child in _children(pid)]
        return max((most_resident(pid) for pid in started), default=0.0)


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


def cpu_of_tree(pid: int) -> float:
    """CPU seconds of a process, its ended children, and all its running descendants."""
    try:
        below = _children(pid)
    except OSError:
        below = []
    return cpu_seconds(pid) + sum(cpu_of_tree(child) for child in below)


def resident(pid: int) -> float:
    """Resident memory of a process in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def most_resident(pid: int) -> float:
    """Peak resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    (line,) = (each for each in status if each.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            found += [int(child) for child in (task / "children").read_text("ascii").split()]
    return found
