"""Growth: intake with few and with many stored messages, and while retention deletes many."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.acceptance.forked import ROOT
from tests.benchmarks.applied import Watch
from tests.benchmarks.filling import fill_inbox
from tests.benchmarks.installation import DIALECTS, Installation, Postgres, installed
from tests.benchmarks.load import drip, drive
from tests.benchmarks.tables import Options, show

FEW, MANY = 10_000, 200_000
MESSAGES = 5000
PACE, SECONDS = 200, 5.0
_INTAKE = (("engine",), ("intake",))


def _begin(at: Installation) -> None:
    """Bring the first messages, have them applied, and apply no more from then on."""
    watch = Watch(at.house.home)
    with watch.running():
        drive(at.house.mllp_port, 1, 1, 200, 0)
        watch.wait_for(200)
    time.sleep(1)
    if at.house.service is not None:
        at.house.service.kill()


def _rate(at: Installation, first: int) -> float:
    return drive(at.house.mllp_port, 10, 1, MESSAGES, first).rate


def _turn(folder: Path, postgres: Postgres | None, many: int) -> tuple[float, ...]:
    with installed(folder, postgres, _INTAKE) as at:
        _begin(at)
        fill_inbox(at.house.home, FEW)
        few = _rate(at, 10_000)
    with installed(folder, postgres, _INTAKE) as at:
        _begin(at)
        fill_inbox(at.house.home, many)
        much = _rate(at, 10_000)
        quiet = drip(at.house.mllp_port, PACE, SECONDS, 20_000).percentile(0.99)
        command = [sys.executable, "-m", "bridge", "prune", "--home", str(at.house.home)]
        pruning = subprocess.Popen(
            [*command, "--older-than", "0s"], cwd=ROOT, stdout=subprocess.DEVNULL
        )
        during = drip(at.house.mllp_port, PACE, SECONDS, 30_000).percentile(0.99)
        pruning.wait()
    return few, much, much / few, quiet, during, during / quiet


def main(folder: Path, options: Options) -> None:
    """Measure on both databases, in turn, and print."""
    server, many = Postgres(folder / "postgres"), options.count or MANY
    found: dict[str, list[tuple[float, ...]]] = {}
    try:
        for _ in range(options.rounds):
            for dialect in DIALECTS:
                postgres = server if dialect == "PostgreSQL" else None
                found.setdefault(dialect, []).append(_turn(folder, postgres, many))
    finally:
        server.close()
    rows = [
        (
            dialect,
            f"{many:,}",
            *(f"{statistics.median(each):.2f}" for each in zip(*turns, strict=True)),
        )
        for dialect, turns in found.items()
    ]
    columns = (
        "database", "messages", f"{FEW:,}: /s", "all: /s", "ratio", "ACK p99 quiet ms",
        "pruning ms", "ratio",
    )  # fmt: skip
    show(f"growth, medians of {options.rounds} rounds", columns, rows)
