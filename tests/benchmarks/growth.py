"""
Growth: start, pages, intake and retention with few and with many stored messages.

`--count` sets the large number; ten million messages take 8 GB of disk on each database.
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
    """Seed the database of a new data directory."""
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


def _start_and_pages(house: House, count: int, rounds: int) -> dict[str, float]:
    before = time.perf_counter()
    service = house.start()
    ready = time.perf_counter() - before
    pages.grant(house)
    found = pages.measure(house, count, rounds)
    memory = resident(service.process.pid)
    house.stop()
    return {"ready s": ready, "MiB": memory, **found}


def _intake(house: House) -> Iterator[tuple[str, float]]:
    """Measure intake at full speed, at a pace, and at this pace while retention runs."""
    house.start("--role", "engine")
    house.start("--role", "intake", beside=True)
    drive(house.mllp_port, 10, 1, 500, 0)
    yield "intake /s", drive(house.mllp_port, 10, 1, MESSAGES, 10_000).rate
    yield "ACK p99 quiet ms", drip(house.mllp_port, PACE, SECONDS, 20_000).percentile(0.99)
    command = [sys.executable, "-m", "bridge", "prune", "--home", str(house.home)]
    pruning = subprocess.Popen(
        [*command, "--older-than", "1m"], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    time.sleep(2)  # until retention has started
    yield "pruning ms", drip(house.mllp_port, PACE, SECONDS, 30_000).percentile(0.99)
    pruning.terminate()  # it need not finish
    pruning.wait()


def turn(
    folder: Path, postgres: Postgres | None, count: int, rounds: int, filling: Fill
) -> Figures:
    """Measure one installation, on SQLite without `postgres`."""
    with _filled(folder, postgres, filling) as house:
        return {**_start_and_pages(house, count, rounds), **dict(_intake(house))}


def main(folder: Path, options: Options) -> None:
    """Measure on both databases in turn, and print the results and the limit of the pages."""
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
    """Print the results with few messages beside those with many."""
    rows = [
        (dialect, name, f"{few[name]:.1f}", f"{much[name]:.1f}", f"{much[name] / few[name]:.2f}")
        for name in few
    ]
    show("growth", ("database", "", f"{FEW:,}", f"{many:,}", "ratio"), rows)
    worst = max(much[name] for name in pages.page_requests(many, 0))
    ratio = much["pruning ms"] / much["ACK p99 quiet ms"]
    print(f"slowest page {worst:.0f} ms of {pages.BOUND:.0f}; pruning / quiet {ratio:.2f}")  # noqa: T201  # a command's output
    print(f"median page {statistics.median(much[n] for n in pages.page_requests(many, 0)):.0f} ms")  # noqa: T201  # a command's output
