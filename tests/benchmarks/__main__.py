"""
`make bench`: durable intake beside the durable floor and python-hl7's server, in one run.

Prints medians and ratios; only the ratios mean anything on another machine.
"""

import statistics
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.contestants import Contestant, contestants
from tests.benchmarks.load import drive

PATTERNS = {"1 connection": (1, 1), "10 connections": (10, 1), "50 connections": (50, 1)}
MESSAGES = {"1 connection": 1000, "10 connections": 5000, "50 connections": 5000}
SLOW_SHARE = 0.2
ROUNDS = 3
FLOOR = "durable floor"


def _measure(runner: Contestant, pattern: str, first: int) -> tuple[float, float]:
    connections, window = PATTERNS[pattern]
    total = int(MESSAGES[pattern] * (SLOW_SHARE if runner.slow else 1))
    run = drive(runner.port, connections, window, total, first)
    return run.rate, run.percentile(0.99)


def main() -> None:
    """Interleave the contestants round by round, so that a slow phase of the machine hits all."""
    figures: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, contestants(Path(folder)) as runners:
        first = 0
        for _ in range(ROUNDS):
            for pattern in PATTERNS:
                for runner in runners:
                    figures.setdefault((runner.name, pattern), []).append(
                        _measure(runner, pattern, first)
                    )
                    first += MESSAGES[pattern]
        names = [runner.name for runner in runners]
    _print(names, figures)


def _print(names: list[str], figures: dict[tuple[str, str], list[tuple[float, float]]]) -> None:
    table = Table(title=f"durable intake, medians of {ROUNDS} interleaved rounds")
    for column in ("listener", "pattern", "messages/s", "p99 ms", f"/ {FLOOR}", "/ python-hl7"):
        table.add_column(column, justify="left" if column in {"listener", "pattern"} else "right")
    for pattern in PATTERNS:
        rate = {
            name: statistics.median(rate for rate, _ in figures[name, pattern]) for name in names
        }
        for name in names:
            p99 = statistics.median(p99 for _, p99 in figures[name, pattern])
            ratios = (rate[name] / rate[FLOOR], rate[name] / rate["python-hl7"])
            table.add_row(
                name, pattern, f"{rate[name]:.0f}", f"{p99:.1f}", *(f"{r:.2f}" for r in ratios)
            )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
