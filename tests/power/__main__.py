"""
`python -m tests.power`: cut the power of a service under load, many times (`make power`).

By default a thousand cuts on SQLite and a hundred on PostgreSQL, in rounds of a hundred: each
round records its own run. The last part cuts a service that does not sync each commit. It must lose
data, which shows that the drill can fail. Exits with 1 if a guarantee was violated, or if the last
part lost nothing.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from tests.acceptance.forked import Forked
from tests.eventually import PATIENCE
from tests.power.drill import cut, record, unsynced
from tests.programs import FUSE, exit_without

ROUND = 100
SECONDS = 12.0
LOSS_SECONDS = 2.0
"""What was lost does not come, however long one waits."""
show = Console(highlight=False, markup=False, soft_wrap=True).print


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--sqlite", type=int, default=1000, help="cuts on SQLite")
    parser.add_argument("--postgresql", type=int, default=100, help="cuts on PostgreSQL")
    parser.add_argument("--careless", type=int, default=20, help="cuts without synced commits")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    exit_without(*FUSE)
    show(f"seed {options.seed}")
    broken = [*drill("SQLite", options.sqlite, options.seed)]
    broken += drill("PostgreSQL", options.postgresql, options.seed)
    lost = [*drill("SQLite, synchronous = NORMAL", options.careless, options.seed)]
    if options.careless and not lost:
        show("WRONG: the drill does not notice that data is lost")
    return 1 if broken or (options.careless and not lost) else 0


def drill(title: str, cuts: int, seed: int) -> Iterator[str]:
    """Make `cuts` cuts; yield the problems."""
    started, made, wrong = time.monotonic(), 0, 0
    while made < cuts:
        count = min(ROUND, cuts - made)
        folder = Path(tempfile.mkdtemp(prefix="bridge-power-"))
        program = unsynced if "NORMAL" in title else Forked
        patience = LOSS_SECONDS if program is unsynced else PATIENCE
        run = record(folder, SECONDS, server=title == "PostgreSQL", program=program)
        chance = random.Random(f"{title} {seed} {made}")
        first, last = run.events[0][0], run.events[-1][0]
        moments = sorted(chance.randrange(first, last) for _ in range(count))
        for moment, problems in cut(run, moments, seed, folder, patience):
            wrong += bool(problems)
            for problem in problems:
                show(f"{title}, cut at {(moment - first) / 1e9:.3f} s: {problem}")
            yield from problems
        made += count
        shutil.rmtree(folder)
        show(f"{title}: {made} cuts, {wrong} lost data, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
