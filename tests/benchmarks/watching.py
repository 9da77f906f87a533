"""
The cost of watching reports: the change feed with few and many open reports, and the status query.

A round of the feed is the request of a follower after one report has changed. A round of the status
query requests every open report once, in the poller's batches, while another client reads.
"""

import statistics
import threading
from pathlib import Path

from bridge.delivery.status_poll import BatchSize
from tests.benchmarks.api import Caller, identity, launch_body
from tests.benchmarks.filling import fill_engine
from tests.benchmarks.installation import DIALECTS, Installation, Postgres, installed
from tests.benchmarks.load import percentile
from tests.benchmarks.tables import Options, show

FEW, MANY = 1000, 50_000
FEEDS = 60


def _feed(caller: Caller, prefix: str) -> float:
    """Return the median milliseconds of a round in which one report has changed."""
    took, cursor = [], 0
    while page := caller.http.get("/api/report/changes", params={"after": cursor}).json():
        cursor = page["cursor"]
        if not page["changes"]:
            break
    for number in range(FEEDS):
        caller.post("/api/report/launch/clinical", launch_body(f"{prefix}{number}"))
        address = f"/api/report/changes?after={cursor}&wait=5"
        took.append(caller.timed(address))
        cursor = caller.http.get("/api/report/changes", params={"after": cursor}).json()["cursor"]
    return statistics.median(took)


class OtherClient:
    """Reads a report repeatedly on its own thread."""

    def __init__(self, at: Installation) -> None:
        self._caller = Caller(at)
        self._caller.post(
            "/api/report/launch/clinical", launch_body("BY", KeyFindings="Clear. " * 50)
        )
        self._ending = threading.Event()
        self.took: list[float] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        path = "/api/report/content?SiteID=SITE1&PatientMRN=MBY&Accession=BY"
        while not self._ending.wait(0.02):
            self.took.append(self._caller.timed(path) / 1000)

    def stop(self) -> float:
        """Stop; return the p99 of the latencies in milliseconds."""
        self._ending.set()
        self._thread.join()
        return percentile(self.took, 0.99)

    def start(self) -> "OtherClient":
        self._thread.start()
        return self


def _round(at: Installation, caller: Caller, count: int) -> tuple[float, float, float]:
    """Return the seconds of a round, and another client's p99 without and during it."""
    alone = OtherClient(at).start()
    threading.Event().wait(3)
    quiet = alone.stop()
    other_client, seconds = OtherClient(at).start(), 0.0
    pace, first = BatchSize(), 1
    while first <= count:
        numbers = range(first, min(first + pace.size, count + 1))
        orders = [identity(f"FA{number}", f"FM{number // 5}") for number in numbers]
        took = caller.timed("/api/report/status", {"clinicalInfo": orders}) / 1000
        seconds, first = seconds + took, numbers.stop
        pace.record(len(numbers), took)
    return seconds, quiet, other_client.stop()


def _turn(folder: Path, postgres: Postgres | None, many: int) -> tuple[float, ...]:
    with installed(folder, postgres, (("engine",),)) as at:
        caller = Caller(at)
        caller.post("/api/report/launch/clinical", launch_body("FIRST"))
        fill_engine(at.house.home, FEW)
        few = _feed(caller, "F")
    with installed(folder, postgres, (("engine",),)) as at:
        caller = Caller(at)
        caller.post("/api/report/launch/clinical", launch_body("FIRST"))
        fill_engine(at.house.home, many)
        much = _feed(caller, "F")
        return few, much, much / few, *_round(at, caller, many)


def main(folder: Path, options: Options) -> None:
    """Measure on both databases, in turn, and print."""
    server, many = Postgres(folder / "postgres"), options.count or MANY
    found: dict[str, list[tuple[float, ...]]] = {}
    try:
        for _ in range(options.rounds):
            for dialect in DIALECTS:
                postgres = server if dialect == "PostgreSQL" else None
                found.setdefault(dialect, []).append(_turn(folder, postgres, many))
    finally:
        server.close()
    rows = [
        (
            dialect,
            f"{many:,}",
            *(f"{statistics.median(each):.2f}" for each in zip(*turns, strict=True)),
        )
        for dialect, turns in found.items()
    ]
    columns = (
        "database", "open reports", f"feed ms, {FEW:,}", "feed ms, all", "ratio",
        "status round s", "other client's p99 quiet ms", "during it ms",
    )  # fmt: skip
    show(f"watching, medians of {options.rounds} rounds", columns, rows)
