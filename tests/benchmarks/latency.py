"""
ACK latency while a backlog of orders is applied.

The service receives a backlog as fast as it acknowledges, and then 100 messages a second for some
seconds, while it applies the backlog. A latency counts from when its message was due. The run ends
with the last acknowledgment; `applied` measures the duration of the whole backlog.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.benchmarks.checkout import Checkout
from tests.benchmarks.installation import DIALECTS, Postgres
from tests.benchmarks.load import Run, drip, drive
from tests.benchmarks.mixed import mixed, orders
from tests.benchmarks.tables import Options, show

BACKLOG = 20_000
PACE, SECONDS = 100.0, 10.0
WARM_UP = 200

_ROOT = Path(__file__).parents[2]


class Found(NamedTuple):
    """One turn: ACKs at the same pace without and with a backlog, and the applied orders."""

    quiet: Run
    busy: Run
    applied: float
    """Orders a second."""
    left: int
    """Orders that were not applied when the last acknowledgment came."""


def main(folder: Path, options: Options) -> None:
    count = options.count or BACKLOG
    found: dict[str, list[Found]] = {}
    with _checkouts(_ROOT, folder) as sides:
        for _ in range(options.rounds):
            for dialect, side in sides.items():
                found.setdefault(dialect, []).append(measure(side, count))
    columns = (
        "database", "quiet ACK p50 ms", "p99", "with backlog p50 ms", "p99", "max",
        "applied orders/s", "orders left",
    )  # fmt: skip
    title = f"ACKs at {PACE:.0f}/s beside {count:,} messages, medians of {options.rounds} rounds"
    show(title, columns, [(dialect, *_row(turns)) for dialect, turns in found.items()])


def measure(side: Checkout, count: int) -> Found:
    """Run a service on a new data directory and measure once."""
    templates = mixed()
    with side.serving(whole=True) as service:
        drive(service.port, 10, 1, WARM_UP, 0)
        service.rest()
        quiet = drip(service.port, PACE, SECONDS / 2, WARM_UP)
        service.rest()
        first = WARM_UP + int(PACE * SECONDS / 2)
        drive(service.port, 10, 32, count, first)
        before = service.orders()
        busy = drip(service.port, PACE, SECONDS, first + count)
        after, sent = service.orders(), first + count + int(PACE * SECONDS)
        left = len(orders(templates, range(sent))) - after
    return Found(quiet, busy, (after - before) / busy.seconds, left)


@contextmanager
def _checkouts(root: Path, folder: Path) -> Iterator[dict[str, Checkout]]:
    server = Postgres(folder / "postgres")
    try:
        yield {
            dialect: Checkout(root, folder, server if dialect == "PostgreSQL" else None)
            for dialect in DIALECTS
        }
    finally:
        server.close()


def _row(turns: list[Found]) -> list[str]:
    figures = (
        [turn.quiet.percentile(0.5) for turn in turns],
        [found.quiet.percentile(0.99) for found in turns],
        [turn.busy.percentile(0.5) for turn in turns],
        [turn.busy.percentile(0.99) for turn in turns],
        [turn.busy.percentile(1.0) for turn in turns],
    )
    rates = median(turn.applied for turn in turns), median(turn.left for turn in turns)
    return [*(f"{median(figure):.1f}" for figure in figures), *(f"{rate:.0f}" for rate in rates)]
