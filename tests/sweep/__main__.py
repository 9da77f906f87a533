"""
`python -m tests.sweep`: fail every call of every main scenario, with every error (`make sweep`).

Disk calls are failed by the file system of the power drill, system calls by strace. Exits with 1
if a guarantee was violated or the service did not start again.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from tests.programs import FUSE, STRACE, exit_without
from tests.sweep.scenarios import SCENARIOS
from tests.sweep.sweep import Swept, installed, sweep, sweep_migration
from tests.sweep.system_calls import sweep_calls

show = Console(highlight=False, markup=False, soft_wrap=True).print
SCENARIO_NUMBERS = 1_000_000
"""Orders of a scenario: more than any scenario has faults."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("scenarios", nargs="*", default=[*SCENARIOS, "migration"])
    parser.add_argument("--step", type=int, default=1, help="fail every N-th call only")
    options = parser.parse_args()
    exit_without(*FUSE, STRACE)
    folder = Path(tempfile.mkdtemp(prefix="bridge-sweep-"))
    wrong = 0
    for place, scenario in enumerate(options.scenarios):
        first = SCENARIO_NUMBERS * (1 + place) + 1
        own = folder / scenario
        own.mkdir()
        if scenario == "migration":
            wrong += report(scenario, "disk", partial(sweep_migration, own, options.step))
            continue
        with installed(own) as running:
            wrong += report(
                scenario, "disk", partial(sweep, running, scenario, first, options.step)
            )
            second = first + SCENARIO_NUMBERS // 2
            calls = partial(sweep_calls, running, scenario, second, own / "trace", options.step)
            wrong += report(scenario, "system calls", calls)
    return 1 if wrong else 0


def report(scenario: str, what: str, run: Callable[[], Swept]) -> int:
    """Run a part, print a line about it, and return how many promises it broke."""
    started = time.monotonic()
    swept = run()
    for problem in swept.wrong:
        show(f"WRONG: {scenario}, {what}: {problem}")
    show(
        f"{scenario}, {what}: {swept.calls} calls, {swept.faults} faults, "
        f"{swept.restarts} restarts, {len(swept.wrong)} broken promises, "
        f"{time.monotonic() - started:.0f} s"
    )
    return len(swept.wrong)


if __name__ == "__main__":
    sys.exit(main())
