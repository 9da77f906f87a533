"""
`python -m tests.benchmarks ab PATH_A PATH_B`: compare two checkouts on the mixed set, in turns.

It prints medians, their ratio, and the CPU time per message of all processes of the service.
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.checkout import Checkout, Turn
from tests.benchmarks.installation import Postgres
from tests.benchmarks.mixed import mixed, orders, render
from tests.benchmarks.tables import show

PATTERNS = {
    "1 connection": (1, 1, 0.25),
    "10 connections": (10, 1, 1.0),
    "50 connections": (50, 1, 1.0),
    "10 x 32 pipelined": (10, 32, 2.0),
}
"""Connections, unacknowledged frames of each, and the share of `--messages` to send."""

WARM_UP = 300

Found = dict[str, list[Turn]]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks ab", description=__doc__)
    parser.add_argument("a", type=Path, metavar="PATH_A")
    parser.add_argument("b", type=Path, metavar="PATH_B")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=4000)
    parser.add_argument("--whole", action="store_true", help="apply the orders too")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--folder", help="folder for data directories; default: a temporary one")
    options = parser.parse_args(words)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
        postgres = None
        if options.database == "postgresql":
            postgres = Postgres(folder / "postgres")
            stack.callback(postgres.close)
        sides = [Checkout(path, folder, postgres) for path in (options.a, options.b)]
        found: list[Found] = [{}, {}]
        for number in range(options.rounds):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                _round(sides[side], found[side], options.messages, whole=options.whole)
    what = "whole service" if options.whole else "intake alone"
    rounds = f"medians of {options.rounds} rounds"
    title = f"{what}, {options.database}, {rounds}; A {options.a}, B {options.b}"
    columns = (
        "pattern", "A msg/s", "B msg/s", "B/A", "A CPU µs", "B CPU µs", "B/A",
        *(("A orders/s", "B orders/s", "B/A") if options.whole else ()),
    )  # fmt: skip
    show(title, columns, [_row(name, found, whole=options.whole) for name in PATTERNS])


def _round(side: Checkout, found: Found, messages: int, *, whole: bool) -> None:
    templates, first = mixed(), 0
    with side.serving(whole=whole) as service:
        for name, (connections, window, share) in {"": (10, 1, 0.0), **PATTERNS}.items():
            count = int(messages * share) or WARM_UP
            todo = render(templates, first, count)
            expected = len(orders(templates, range(first, first + count))) if whole else 0
            turn = service.turn(connections, window, todo, expected)
            first += count
            if name:
                cpu = 1e6 * turn.cpu / count
                found.setdefault(name, []).append(Turn(turn.rate, cpu, turn.applied))


def _row(name: str, found: Sequence[Found], *, whole: bool) -> list[str]:
    row = [name]
    for figure in ("rate", "cpu", *(("applied",) if whole else ())):
        a, b = (statistics.median(getattr(turn, figure) for turn in item[name]) for item in found)
        row += [f"{a:.0f}", f"{b:.0f}", f"{b / a:.2f}"]
    return row


if __name__ == "__main__":
    main()
