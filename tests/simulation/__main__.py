"""
`python -m tests.simulation`: run schedules of each story on simulated time (`make simulate`).

A seed has a hundred schedules. If one of them breaks a promise, the smallest plan that breaks one
is printed with its steps, and the command that repeats it. Exits with 1 in that case.
"""

import argparse
import sys
import time
from collections import Counter
from contextlib import nullcontext

from rich.console import Console

from tests.simulation.bugs import BUGS, names
from tests.simulation.simulation import BATCH, STORIES, Result, search

show = Console(highlight=False, markup=False, soft_wrap=True).print
TRACE_LINES = 60


def main() -> int:
    """Run the stories; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--story", choices=list(STORIES), help="one story instead of all")
    parser.add_argument("--schedules", type=int, default=10_000, help="schedules of each story")
    parser.add_argument("--seed", type=int, help="repeat this seed instead")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--bug", choices=names(), help="build a bug into the product")
    options = parser.parse_args()
    found_by, bug = BUGS[options.bug] if options.bug else (None, nullcontext)
    story = options.story or found_by
    first = options.first if options.seed is None else options.seed
    count = 1 if options.seed is not None else max(1, options.schedules // BATCH)
    with bug():
        runs = [run(item, first, count, options.bug) for item in ([story] if story else STORIES)]
    return 0 if all(runs) else 1


def run(story: str, first: int, count: int, bug: str | None) -> bool:
    """Run the seeds of a story until a promise is broken; return whether none was."""
    began, faults = time.monotonic(), Counter[str]()
    schedules, steps, number, result = 0, 0, first, Result()
    for number in range(first, first + count):
        result = search(story, number)
        schedules += result.schedules
        steps += result.steps
        faults += result.faults
        if result.problems:
            show_problem(story, number, result, bug)
            break
    else:
        show(f"{story}: {schedules} schedules, {steps} steps, no promise broken")
    show(f"  faults: {', '.join(f'{kind} {n}' for kind, n in sorted(faults.items()))}")
    show(f"  seeds {first} to {number}, {time.monotonic() - began:.0f} s")
    return not result.problems


def show_problem(story: str, number: int, result: Result, bug: str | None) -> None:
    """Print the smallest plan that was found, its last steps and the command that repeats it."""
    show(f"{story}: PROMISE BROKEN after {result.schedules} schedules of seed {number}")
    for problem in result.problems:
        show(f"  {problem}")
    show(f"  plan: {result.plan}")
    for line in result.trace[-TRACE_LINES:]:
        show(f"  {line}")
    repeat = f"--story {story} --seed {number}" + (f" --bug {bug}" if bug else "")
    show(f"  to repeat: .venv/bin/python -m tests.simulation {repeat}")


if __name__ == "__main__":
    sys.exit(main())
