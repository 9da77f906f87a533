"""
`python -m tests.sweep`: fail every call of every main story, with every error (`make sweep`).

Disk calls are failed by the file system of the power drill, system calls by strace. Exits with 1
where a promise was broken or the service could not be started again.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from tests.sweep.stories import STORIES
from tests.sweep.sweep import Swept, installed, sweep, sweep_migration
from tests.sweep.system_calls import AVAILABLE, sweep_calls

show = Console(highlight=False, markup=False, soft_wrap=True).print
STORY_NUMBERS = 1_000_000
"""Orders of a story: more than any story has faults."""


def main() -> int:
    """Run all stories; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("stories", nargs="*", default=[*STORIES, "migration"])
    parser.add_argument("--step", type=int, default=1, help="fail every N-th call only")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bridge-sweep-"))
    wrong = 0
    for place, story in enumerate(asked.stories):
        first = STORY_NUMBERS * (1 + place) + 1
        own = folder / story
        own.mkdir()
        if story == "migration":
            wrong += report(story, "disk", partial(sweep_migration, own, asked.step))
            continue
        with installed(own) as running:
            wrong += report(story, "disk", partial(sweep, running, story, first, asked.step))
            if AVAILABLE:
                second = first + STORY_NUMBERS // 2
                calls = partial(sweep_calls, running, story, second, own / "trace", asked.step)
                wrong += report(story, "system calls", calls)
    return 1 if wrong else 0


def report(story: str, what: str, run: Callable[[], Swept]) -> int:
    """Run a part, print a line about it, and return how many promises it broke."""
    started = time.monotonic()
    swept = run()
    for problem in swept.wrong:
        show(f"WRONG: {story}, {what}: {problem}")
    show(
        f"{story}, {what}: {swept.calls} calls, {swept.faults} faults, {swept.restarts} restarts, "
        f"{len(swept.wrong)} broken promises, {time.monotonic() - started:.0f} s"
    )
    return len(swept.wrong)


if __name__ == "__main__":
    sys.exit(main())
