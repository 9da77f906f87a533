"""
Intake on a disk with a delay of 2 ms for each sync, beside intake on the disk as it is.

A preloaded library (`slow_sync.c`) adds the delay to the C library's sync calls. This needs a C
compiler.
"""

import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.contestants import Contestant, intake
from tests.benchmarks.installation import DIALECTS, Postgres
from tests.benchmarks.load import drive
from tests.benchmarks.tables import Options, show
from tests.programs import C_COMPILER

DELAYS = (0, 2000)  # microseconds
CONNECTIONS, MESSAGES, WARM_UP = 10, 10_000, 500
_SOURCE = Path(__file__).with_name("slow_sync.c")


def main(folder: Path, options: Options) -> None:
    """Measure each database with either disk in turn, and print."""
    library = _built(folder)
    if library is None:
        print("not measured: a slow disk (there is no C compiler on this machine)")  # noqa: T201  # a command's output
        return
    found: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for _ in range(options.rounds):
        for dialect in DIALECTS:
            for delay in DELAYS:
                turn = Path(tempfile.mkdtemp(dir=folder))
                with _slowed(library, delay):
                    found.setdefault((dialect, delay), []).append(_turn(turn, dialect))
    rows = [
        (
            dialect,
            f"{delay / 1000:g} ms",
            *(f"{statistics.median(each):.1f}" for each in zip(*turns, strict=True)),
        )
        for (dialect, delay), turns in found.items()
    ]
    columns = ("database", "more for each sync", "messages/s", "p50 ms", "p99 ms")
    title = f"a slow disk, {CONNECTIONS} connections, medians of {options.rounds} rounds"
    show(title, columns, rows)


def _turn(folder: Path, dialect: str) -> tuple[float, float, float]:
    server = Postgres(folder / "postgres") if dialect == "PostgreSQL" else None
    try:
        return _driven(intake(folder, server))
    finally:
        if server is not None:
            server.close()


def _driven(contestant: Contestant) -> tuple[float, float, float]:
    with contestant.start() as port:
        drive(port, CONNECTIONS, 1, WARM_UP, 0)
        run = drive(port, CONNECTIONS, 1, MESSAGES, WARM_UP)
        return run.rate, run.percentile(0.5), run.percentile(0.99)


@contextmanager
def _slowed(library: Path, delay: int) -> Iterator[None]:
    """Processes that start within the block sync slowly, including PostgreSQL's server."""
    os.environ.update({"LD_PRELOAD": str(library), "DELAY_US": str(delay)})
    try:
        yield
    finally:
        del os.environ["LD_PRELOAD"], os.environ["DELAY_US"]


def _built(folder: Path) -> Path | None:
    compiler = C_COMPILER.path
    if compiler is None:
        return None
    library = folder / "slow_sync.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return library
