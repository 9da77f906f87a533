"""
`make bench`: run all benchmarks; `python -m tests.benchmarks PART…` runs some of them.

It prints medians and ratios of one run; only the ratios are comparable between machines.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.benchmarks import (
    ab,
    applied,
    console,
    intake,
    latency,
    presses,
    removal,
    results,
    single,
    start,
    worklist,
)
from tests.benchmarks.tables import Options

ROUNDS = 5

PARTS: Mapping[str, Callable[[Path, Options], None]] = {
    "intake": intake.main,
    "single": single.main,
    "applied": applied.main,
    "latency": latency.main,
    "results": results.main,
    "start": start.main,
    "removal": removal.main,
    "console": console.main,
    "presses": presses.main,
    "worklist": worklist.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--count", type=int, default=0, help="amount of data of a part; 0: its default"
    )
    parser.add_argument(
        "--folder", help="folder for data directories and databases; default: a temporary one"
    )
    options = parser.parse_args()
    unknown = set(options.parts) - PARTS.keys()
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for part in options.parts or PARTS:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            PARTS[part](Path(folder), Options(options.rounds, options.count))


if __name__ == "__main__":
    if sys.argv[1:2] == ["ab"]:
        ab.main(sys.argv[2:])
    else:
        main()
