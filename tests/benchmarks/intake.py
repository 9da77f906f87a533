"""
Intake of the mixed set beside the floors and other listeners: messages a second and ACK latency.

Closed loop: each connection waits for its ACK, or has 32 messages in flight. Open loop: a steady
pace; a latency counts from when its message was due.
"""

import os
import statistics
import time
from pathlib import Path

from tests.benchmarks.contestants import Contestant, contestants
from tests.benchmarks.installation import Postgres
from tests.benchmarks.load import Run, drip, drive
from tests.benchmarks.peers import install
from tests.benchmarks.tables import Options, show

PATTERNS = {
    "1 connection": (1, 1, 1000),
    "10 connections": (10, 1, 5000),
    "50 connections": (50, 1, 5000),
    "10 x 32 pipelined": (10, 32, 20_000),
}
PACES = {"100/s": (100, 5.0)}
SETTLED = 1.0  # seconds after the data of the patterns is on disk
WARM_UP = 200
SLOW_SHARE = 0.2
FLOOR, PEER = "durable floor", "python-hl7"

Figures = dict[tuple[str, str], list[Run]]


def _turn(runner: Contestant, figures: Figures) -> None:
    with runner.start() as port:
        drive(port, 1, 1, WARM_UP, 0)
        first = WARM_UP
        for pattern, (connections, window, messages) in PATTERNS.items():
            if window > 1 and not runner.pipelines:
                continue
            total = int(messages * (SLOW_SHARE if runner.slow else 1))
            run = drive(port, connections, window, total, first)
            first += total
            figures.setdefault((runner.name, pattern), []).append(run)
        os.sync()
        time.sleep(SETTLED)
        for name, (rate, seconds) in PACES.items():
            if runner.slow and rate * SLOW_SHARE > 100:  # it handles some hundreds
                continue
            run = drip(port, rate, seconds, first)
            first += int(rate * seconds)
            figures.setdefault((runner.name, name), []).append(run)


def main(folder: Path, options: Options) -> None:
    """Interleave the contestants, so that a slow phase of the machine affects all."""
    figures: Figures = {}
    peers = install(folder)
    server = Postgres(folder / "postgres")
    try:
        runners = contestants(folder, server, peers)
        for _ in range(options.rounds):
            for runner in runners:
                _turn(runner, figures)
    finally:
        server.close()
    _print([runner.name for runner in runners], figures, options)
    for peer in peers.missing:
        print("not measured:", peer)  # noqa: T201  # a command's output


def _print(names: list[str], figures: Figures, options: Options) -> None:
    rows = []
    for pattern in (*PATTERNS, *PACES):
        runs = {name: figures[name, pattern] for name in names if (name, pattern) in figures}
        rate = {name: statistics.median(run.rate for run in runs[name]) for name in runs}
        for name, item in runs.items():
            p50, p99 = (statistics.median(run.percentile(q) for run in item) for q in (0.5, 0.99))
            rows.append(
                (
                    name,
                    pattern,
                    f"{rate[name]:.0f}",
                    f"{p50:.2f}",
                    f"{p99:.1f}",
                    *_ratios(rate, name, pattern),
                )
            )
    columns = ("listener", "pattern", "messages/s", "p50 ms", "p99 ms", f"/ {FLOOR}", f"/ {PEER}")
    show(f"the mixed set, medians of {options.rounds} interleaved rounds", columns, rows)


def _ratios(rate: dict[str, float], name: str, pattern: str) -> tuple[str, str]:
    """Compare with the floor and the peer, except in an open loop."""
    if pattern in PACES:
        return "", ""
    against = (rate.get(FLOOR), rate.get(PEER))
    one, other = (f"{rate[name] / item:.2f}" if item else "" for item in against)
    return one, other
