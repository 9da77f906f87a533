"""
One installation of ours for a benchmark: its processes, and what they cost.

CPU seconds and memory come from /proc, of PostgreSQL's processes too where it is the store.
"""

import itertools
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from tests.acceptance.forked import started
from tests.acceptance.house import House
from tests.conftest import start_server

DIALECTS = ("SQLite", "PostgreSQL")
WHOLE: Sequence[Sequence[str]] = ((),)
APART: Sequence[Sequence[str]] = (("engine",), ("intake", "delivery"))
"""The engine in one process, what belongs to the bridge in another: for two cores."""
ARRANGEMENTS = {"engine apart": APART, "one process": WHOLE}

_TICKS = os.sysconf("SC_CLK_TCK")
_numbers = itertools.count()


class Postgres:
    """A private server; every database is new."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.server = start_server(folder)

    def database(self) -> str:
        """Make an empty database; give its address as our settings have it."""
        name = f"bench{next(_numbers)}"
        address = str(self.server.get_uri())
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return address.replace("postgresql://", "postgresql+psycopg://").replace(
            "/postgres?", f"/{name}?"
        )

    def copy(self, address: str) -> str:
        """Copy a database that nobody uses; give the address of the copy."""
        model, name = address.rpartition("/")[2].partition("?")[0], f"bench{next(_numbers)}"
        with psycopg.connect(str(self.server.get_uri()), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {model}".encode())
        return address.replace(f"/{model}?", f"/{name}?")

    def rest(self) -> None:
        """Drop all databases that were made, and have written what is to be written."""
        with psycopg.connect(str(self.server.get_uri()), autocommit=True) as connection:
            made = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'bench%'")
            for (name,) in made.fetchall():
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
            connection.execute("CHECKPOINT")

    def close(self) -> None:
        """Stop it and delete its data."""
        self.server.cleanup()

    def pids(self) -> list[int]:
        """The server's processes."""
        main = int((Path(self.server.pgdata) / "postmaster.pid").read_text().split()[0])
        return [main, *_children(main)]


class Installation:
    """A house whose processes run, with what they have cost so far."""

    def __init__(self, house: House, postgres: Postgres | None) -> None:
        self.house = house
        self._postgres = postgres

    @property
    def processes(self) -> list[int]:
        """Ours, without the database's."""
        services = [self.house.service, *self.house.others]
        return [each.process.pid for each in services if each is not None]

    def cpu(self) -> float:
        """CPU seconds of all processes so far, of those that ours have started too."""
        database = self._postgres.pids() if self._postgres is not None else []
        ours = [each for pid in self.processes for each in (pid, *_children(pid))]
        return sum(cpu_seconds(pid) for pid in (*ours, *database))

    def memory(self) -> float:
        """MiB that our own processes held at their most, the largest of them."""
        return max(most_resident(pid) for pid in self.processes)

    def beside(self) -> float:
        """MiB that those held at their most which ours have started, the largest of them."""
        started = [each for pid in self.processes for each in _children(pid)]
        return max((most_resident(pid) for pid in started), default=0.0)


@contextmanager
def installed(
    folder: Path,
    postgres: Postgres | None = None,
    processes: Sequence[Sequence[str]] = APART,
    settings: str = "",
    destination: int = 0,
) -> Iterator[Installation]:
    """Make a home below `folder` and serve it; on SQLite where no server is given."""
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
            postgres.rest()  # what one has left behind is not cleaned up in the next one's time
        os.sync()


UNLIMITED = "[rates]\nreads = 1000000\nlaunches = 1000000\nexports = 1000000\n"
"""What a benchmark asks in a minute is more than any client may."""


def cpu_seconds(pid: int) -> float:
    """CPU seconds of one process and its ended children; 0 when it is gone."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text("ascii")
    except OSError:
        return 0.0
    fields = line.rpartition(")")[2].split()
    return sum(int(each) for each in fields[11:15]) / _TICKS


def cpu_of_tree(pid: int) -> float:
    """CPU seconds of a process, of its ended children, and of all below it that run."""
    try:
        below = _children(pid)
    except OSError:
        below = []
    return cpu_seconds(pid) + sum(cpu_of_tree(child) for child in below)


def resident(pid: int) -> float:
    """MiB of memory that one process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def most_resident(pid: int) -> float:
    """MiB of memory that one process held when it held most."""
    status = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    (line,) = (each for each in status if each.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            found += [int(child) for child in (task / "children").read_text("ascii").split()]
    return found
