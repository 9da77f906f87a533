"""Start-up time with many stored messages, time of `bridge --help`, CPU and memory when idle."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.acceptance.forked import ROOT
from tests.benchmarks.filling import fill_inbox
from tests.benchmarks.installation import (
    DIALECTS,
    WHOLE,
    Postgres,
    cpu_of_tree,
    installed,
    proportional,
    resident,
)
from tests.benchmarks.load import drive
from tests.benchmarks.tables import Options, show

STOCK = 50_000
IDLE = 10.0


def _help() -> float:
    """Return the seconds of `bridge --help`."""
    before = time.perf_counter()
    command = [sys.executable, "-m", "bridge", "--help"]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - before


def _turn(folder: Path, postgres: Postgres | None, stock: int) -> tuple[float, ...]:
    with installed(folder, postgres, WHOLE) as at:
        drive(at.house.mllp_port, 1, 1, 5, 0)
        at.house.settle()
        at.house.stop()
        fill_inbox(at.house.home, stock)
        before = time.perf_counter()
        at.house.start()
        ready = time.perf_counter() - before
        (pid,) = at.started
        started = cpu_of_tree(pid)
        time.sleep(3)  # until start-up work is finished
        first = cpu_of_tree(pid)
        time.sleep(IDLE)
        idle = (cpu_of_tree(pid) - first) / IDLE
        return ready, started, 100 * idle, resident(pid), proportional(pid)


def main(folder: Path, options: Options) -> None:
    server, stock = Postgres(folder / "postgres"), options.count or STOCK
    found: dict[str, list[tuple[float, ...]]] = {}
    helps = [_help() for _ in range(options.rounds)]
    try:
        for _ in range(options.rounds):
            for dialect in DIALECTS:
                postgres = server if dialect == "PostgreSQL" else None
                found.setdefault(dialect, []).append(_turn(folder, postgres, stock))
    finally:
        server.close()
    rows = [
        (
            dialect,
            f"{stock:,}",
            *(f"{statistics.median(turn):.2f}" for turn in zip(*turns, strict=True)),
            f"{statistics.median(helps):.2f}",
        )
        for dialect, turns in found.items()
    ]
    columns = [
        "database", "messages", "ready s", "CPU s", "idle CPU %",
        "idle RSS MiB", "idle PSS MiB", "--help s",
    ]  # fmt: skip
    show(f"start, medians of {options.rounds} rounds", columns, rows)
