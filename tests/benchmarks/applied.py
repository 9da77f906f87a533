"""
From a frame to its order on the worklist: rate and latency.

The benchmark reads the engine's table from outside, so it sees an order after its commit.
"""

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from sqlalchemy import text

from bridge.store.database import Database
from config import load
from tests.benchmarks.installation import (
    ARRANGEMENTS,
    DIALECTS,
    Installation,
    Postgres,
    installed,
)
from tests.benchmarks.load import Run, drip, drive, percentile
from tests.benchmarks.mixed import mixed, orders
from tests.benchmarks.tables import Options, show

PACES = {"100/s": (100, 10.0)}
BACKLOG = 20_000
PACE, SECONDS = 100.0, 10.0
"""Messages a second beside a backlog, and the duration in seconds."""
LOOK_EVERY = 0.001
PATIENCE = 180.0
"""Seconds without another order after which a run fails."""
SENT_TOGETHER = 50_000
"""Frames that are built before they are sent: a million would fill the sender's memory."""

GONE = 5.0
"""Seconds after which a missing key counts as drawn and not committed."""

_SEEN = "SELECT pk, accession FROM engine_report_order WHERE pk > {0}"
_LATE = " UNION ALL SELECT pk, accession FROM engine_report_order WHERE pk = ANY({0})"
_LAST = text("SELECT coalesce(max(pk), 0) FROM engine_report_order")


class Watch:
    """
    Records when each order becomes visible, on its own thread and connection.

    It queries new keys and the keys that it has skipped (transactions need not commit in the order
    of their keys). It uses the driver directly to take little CPU time from the service.
    """

    def __init__(self, house_home: Path) -> None:
        self._database = Database(load(house_home).engine_database_url())
        self.seen: dict[str, float] = {}
        with self._database.read() as connection:
            self._last = int(connection.execute(_LAST).scalar_one())
        self._passed: dict[int, float] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with closing(self._database.dedicated_connection()) as connection:
            if self._database.dialect == "sqlite":
                while not self._ending.wait(LOOK_EVERY):
                    self._note(connection.execute(_SEEN.format("?"), (self._last,)).fetchall())
                return
            connection.autocommit = True
            connection.execute("SET enable_seqscan = off")  # a new table has no statistics
            while not self._ending.wait(LOOK_EVERY):
                late = [list(self._passed)] if self._passed else []
                query = _SEEN.format("%s") + (_LATE.format("%s") if late else "")
                self._note(connection.execute(query, [self._last, *late]).fetchall())

    def _note(self, rows: Sequence[tuple[int, str]]) -> None:
        now, known = time.perf_counter(), self._last
        self._last = max([known, *(key for key, _ in rows)])
        self._passed |= dict.fromkeys(range(known + 1, self._last + 1), now)
        for key, accession in rows:
            self.seen.setdefault(accession, now)
            self._passed.pop(key, None)
        for key in [key for key, since in self._passed.items() if since < now - GONE]:
            del self._passed[key]

    def wait_for(self, count: int) -> float:
        """Wait until `count` orders are visible; return the time of the last one."""
        known, deadline = 0, time.monotonic() + PATIENCE
        while (seen := len(self.seen)) < count:
            if seen > known:
                known, deadline = seen, time.monotonic() + PATIENCE
            if time.monotonic() > deadline:
                raise AssertionError(f"{seen} of {count} orders were applied")
            time.sleep(0.01)
        return max(self.seen.values())

    @contextmanager
    def running(self) -> Iterator["Watch"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            self._thread.join()
            self._database.dispose()


@dataclass(frozen=True, slots=True)
class Applied:
    """One run: orders a second, frame to order in seconds, CPU and memory of the service, MiB."""

    rate: float
    delays: list[float]
    cpu: float
    memory: float
    beside: float
    acks: Run


def pace(at: Installation, rate: float, seconds: float, first: int) -> Applied:
    """Send at a steady pace; measure the delay of each order from its due time."""
    count = int(rate * seconds)

    def load_it() -> Run:
        return drip(at.house.mllp_port, rate, seconds, first)

    due = {
        accession: (number - first) / rate
        for number in range(first, first + count)
        for accession in orders(mixed(), [number])
    }
    run, seen, cpu = _watched(at, len(due), load_it)
    delays = [seen[accession] - run.began - when for accession, when in due.items()]
    took = max(seen.values()) - run.began
    return Applied(len(due) / took, delays, cpu / len(due), at.memory(), at.beside(), run)


def backlog(at: Installation, count: int, first: int) -> Applied:
    """Send a backlog as fast as the ACKs allow, and wait until it is applied."""

    def load_it() -> Run:
        total = Run()
        for start in range(first, first + count, SENT_TOGETHER):
            some = min(SENT_TOGETHER, first + count - start)
            part = drive(at.house.mllp_port, 10, 32, some, start)
            total.began = total.began or part.began
            total.seconds += part.seconds
            total.latencies += part.latencies
        return total

    return _until_applied(at, count, first, load_it)


def paced_backlog(at: Installation, count: int, first: int) -> Applied:
    """Build up a backlog, and send at 100/s while it is applied; measure the latter's ACKs."""
    meanwhile = int(PACE * SECONDS)

    def load_it() -> Run:
        run = drive(at.house.mllp_port, 10, 32, count, first)
        acks = drip(at.house.mllp_port, PACE, SECONDS, first + count)
        return Run(run.seconds, run.began, acks.latencies)

    return _until_applied(at, count + meanwhile, first, load_it)


def _until_applied(at: Installation, count: int, first: int, load_it: Callable[[], Run]) -> Applied:
    expected = len(orders(mixed(), range(first, first + count)))
    run, seen, cpu = _watched(at, expected, load_it)
    took = max(seen.values()) - run.began
    return Applied(expected / took, [], cpu / expected, at.memory(), at.beside(), run)


def _watched(
    at: Installation, count: int, work: Callable[[], Run]
) -> tuple[Run, dict[str, float], float]:
    watch = Watch(at.house.home)
    before = at.cpu()
    with watch.running():
        run = work()
        watch.wait_for(count)
    return run, watch.seen, at.cpu() - before


def measure(folder: Path, count: int, rounds: int) -> dict[tuple[str, str], list[Applied]]:
    """Interleave the databases and arrangements round by round, each with a new data directory."""
    found: dict[tuple[str, str], list[Applied]] = {}
    server = Postgres(folder / "postgres")
    try:
        for _ in range(rounds):
            for dialect, arrangement in product(DIALECTS, ARRANGEMENTS):
                postgres = server if dialect == "PostgreSQL" else None
                with installed(folder, postgres, ARRANGEMENTS[arrangement]) as at:
                    for name, result in _loads(at, count):
                        found.setdefault((f"{dialect}, {arrangement}", name), []).append(result)
    finally:
        server.close()
    return found


def _loads(at: Installation, count: int) -> Iterator[tuple[str, Applied]]:
    backlog(at, 500, 0)
    first = 1_000_000
    for name, (rate, seconds) in PACES.items():
        yield name, pace(at, rate, seconds, first)
        first += 1_000_000
    yield f"backlog of {count:,}", backlog(at, count, first)
    yield f"100/s beside {count:,}", paced_backlog(at, count, 2 * first)


def main(folder: Path, options: Options) -> None:
    found = measure(folder, options.count or BACKLOG, options.rounds)
    rows = []
    for (installation, name), runs in found.items():
        delays = [(percentile(r.delays, 0.5), percentile(r.delays, 0.99)) for r in runs if r.delays]
        middle = [statistics.median(column) for column in zip(*delays, strict=True)] or [0, 0]
        ack = statistics.median(run.acks.percentile(0.99) for run in runs)
        rows.append(
            (
                installation,
                name,
                f"{statistics.median(run.rate for run in runs):.0f}",
                *(f"{item:.1f}" if item else "" for item in middle),
                f"{ack:.1f}",
                f"{1e6 * statistics.median(run.cpu for run in runs):.0f}",
                f"{max(run.memory for run in runs):.0f}",
                f"{max(run.beside for run in runs):.0f}",
            )
        )
    columns = (
        "database, processes",
        "load",
        "orders/s",
        "p50 ms",
        "p99 ms",
        "ACK p99",
        "CPU µs",
        "MiB",
        "beside",
    )
    show(f"from frame to order, medians of {options.rounds} rounds", columns, rows)
