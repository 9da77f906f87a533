"""
Retention on PostgreSQL: a partition of a million messages, and the rows of a partial one.

The stored data is that of `growth`. `--count` is the number of messages; the default takes 3 GB.
"""

import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import text

from bridge.queue.retention.policy import prune
from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.postgresql.partitions import SIZE, partitions
from tests.benchmarks.installation import Postgres, cpu_seconds
from tests.benchmarks.seeding import seed
from tests.benchmarks.tables import Options, show

ROWS = 10_000
"""Messages beyond the partition, which are removed row by row."""

_COUNT = text("SELECT count(*) FROM message")


def main(folder: Path, options: Options) -> None:
    """Remove the partition, then the remaining rows, and print the CPU time per message."""
    server = Postgres(folder / "postgres")
    try:
        database = Database(server.database())
        upgrade(database)
        now = time.time_ns() // 1_000_000
        seed(database, options.count or SIZE + ROWS, now)

        def remove_rows() -> None:
            prune(database, now + 1)

        def remove_partition() -> None:
            with database.read() as connection:
                last = partitions(connection)[0].high
                came = text("SELECT received_at FROM message WHERE id = :id")
                first_young = connection.execute(came, {"id": last}).scalar_one()
            prune(database, first_young)

        rows = [
            (name, *_measured(server, database, work))
            for name, work in (("partition", remove_partition), ("row by row", remove_rows))
        ]
        show("retention", ("messages", "", "gone", "/s", "CPU µs each, with the server's"), rows)
        database.dispose()
    finally:
        server.close()


def _measured(
    server: Postgres, database: Database, work: Callable[[], None]
) -> tuple[str, str, str, str]:
    began, spent, before = time.perf_counter(), _spent(server), _count(database)
    work()
    took, cost = time.perf_counter() - began, _spent(server) - spent
    gone = before - _count(database)
    return "PostgreSQL", f"{gone:,}", f"{gone / took:.0f}", f"{cost / gone * 1e6:.0f}"


def _spent(server: Postgres) -> float:
    return time.process_time() + sum(map(cpu_seconds, server.pids()))


def _count(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(_COUNT).scalar_one())
