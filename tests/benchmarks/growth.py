"""
Growth: start, pages, intake and retention with few and with many stored messages.

`--count` says how many are many; ten million take some 8 GB of disk on each database.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bridge.wiring.stores import migrate_bridge, open_bridge_database
from config import load
from tests.acceptance.forked import ROOT, started
from tests.acceptance.house import House
from tests.benchmarks import pages
from tests.benchmarks.installation import DIALECTS, UNLIMITED, Postgres, resident
from tests.benchmarks.load import drip, drive
from tests.benchmarks.seeding import seed
from tests.benchmarks.tables import Options, show

FEW, MANY = 10_000, 200_000
MESSAGES = 5000
PACE, SECONDS = 200, 10.0
Figures = Mapping[str, float]
Fill = Callable[[Path], None]


def fill(home: Path, count: int) -> None:
    """Seed the database of a home that has not been served yet."""
    database = open_bridge_database(load(home))
    try:
        migrate_bridge(database)
        seed(database, count, time.time_ns() // 1_000_000)
    finally:
        database.dispose()


@contextmanager
def _filled(folder: Path, postgres: Postgres | None, filling: Fill) -> Iterator[House]:
    house = House(folder, database=postgres.database() if postgres else "", program=started)
    house.settings = UNLIMITED
    house.make()
    filling(house.home)
    try:
        yield house
    finally:
        house.kill()


def _looked_at(house: House, count: int, rounds: int) -> dict[str, float]:
    """Start all of it, cold; ask for the pages; stop."""
    before = time.perf_counter()
    service = house.start()
    ready = time.perf_counter() - before
    pages.grant(house)
    found = pages.measure(house, count, rounds)
    memory = resident(service.process.pid)
    house.stop()
    return {"ready s": ready, "MiB": memory, **found}


def _taken_in(house: House) -> Iterator[tuple[str, float]]:
    """Intake alone, at its most and at a pace; the pace again while retention takes the oldest."""
    house.start("--role", "engine")
    house.start("--role", "intake", beside=True)
    drive(house.mllp_port, 10, 1, 500, 0)
    yield "intake /s", drive(house.mllp_port, 10, 1, MESSAGES, 10_000).rate
    yield "ACK p99 quiet ms", drip(house.mllp_port, PACE, SECONDS, 20_000).percentile(0.99)
    command = [sys.executable, "-m", "bridge", "prune", "--home", str(house.home)]
    pruning = subprocess.Popen(
        [*command, "--older-than", "1m"], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    time.sleep(2)  # until it has begun
    yield "pruning ms", drip(house.mllp_port, PACE, SECONDS, 30_000).percentile(0.99)
    pruning.terminate()  # what it has removed by then is no matter
    pruning.wait()


def turn(
    folder: Path, postgres: Postgres | None, count: int, rounds: int, filling: Fill
) -> Figures:
    """Measure one house, on SQLite where no server is given."""
    with _filled(folder, postgres, filling) as house:
        return {**_looked_at(house, count, rounds), **dict(_taken_in(house))}


def main(folder: Path, options: Options) -> None:
    """Measure on both databases, in turn, and print; each page's median beside its bound."""
    server, many = Postgres(folder / "postgres"), options.count or MANY
    try:
        for dialect in DIALECTS:
            postgres = server if dialect == "PostgreSQL" else None
            few, much = (
                turn(folder / f"{dialect}{n}", postgres, n, options.rounds, partial(fill, count=n))
                for n in (FEW, many)
            )
            report(dialect, many, few, much)
    finally:
        server.close()


def report(dialect: str, many: int, few: Figures, much: Figures) -> None:
    """Print what was measured, few beside many."""
    rows = [
        (dialect, name, f"{few[name]:.1f}", f"{much[name]:.1f}", f"{much[name] / few[name]:.2f}")
        for name in few
    ]
    show("growth", ("database", "", f"{FEW:,}", f"{many:,}", "ratio"), rows)
    worst = max(much[name] for name in pages.asked(many, 0))
    ratio = much["pruning ms"] / much["ACK p99 quiet ms"]
    print(f"slowest page {worst:.0f} ms of {pages.BOUND:.0f}; pruning / quiet {ratio:.2f}")  # noqa: T201  # a command's output
    print(f"median page {statistics.median(much[n] for n in pages.asked(many, 0)):.0f} ms")  # noqa: T201  # a command's output
