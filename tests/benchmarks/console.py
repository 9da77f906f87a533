"""
The lists of the console on a year of traffic: each filter's index, on both databases.

The stored data is that of `seeding`. `--count` is the number of messages; the default of ten
million takes 30 GB. Each case is a first page, a page deep in the list, a count, or the ids for a
background job; the plans of its statements follow the table.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection

from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import UNLIMITED, Access, ListDefinition, ListRequest
from bridge.admin.lists.messages import MessageList
from bridge.admin.lists.orders import OrderList
from bridge.store.database import Database
from tests.benchmarks.installation import Postgres
from tests.benchmarks.seeding import FREQUENT, indexed, seed
from tests.benchmarks.tables import Options, show
from tests.bridge.query_plans import plan_of, recorded_statements
from tests.databases import fresh_file, migrate

MESSAGES: Final = 10_000_000
REPEATED: Final = 20
_PLACE: Final = 0.98
"""The slowest of `REPEATED` runs but one, of all runs."""

Run = Callable[[Connection], object]


def main(folder: Path, options: Options) -> None:
    """Measure all cases on SQLite, then on PostgreSQL."""
    count = options.count or MESSAGES
    for name, databases in (("SQLite", _sqlite), ("PostgreSQL", _postgresql)):
        with databases(folder) as database:
            seed(database, count, time.time_ns() // 1_000_000)
            _measure(name, database, count, options.rounds)


@contextmanager
def _sqlite(folder: Path) -> Iterator[Database]:
    database = Database(fresh_file(folder / "lists.db"))
    yield database
    database.dispose()
    (folder / "lists.db").unlink()


@contextmanager
def _postgresql(folder: Path) -> Iterator[Database]:
    server = Postgres(folder / "postgres")
    try:
        address = server.database()
        migrate(address)
        database = Database(address)
        yield database
        database.dispose()
    finally:
        server.close()


def _measure(name: str, database: Database, count: int, rounds: int) -> None:
    rows, plans = [], []
    for case, run in _cases(count).items():
        taken = sorted(_seconds(database, run) for _ in range(max(REPEATED, rounds)))
        slowest = taken[int(len(taken) * _PLACE) - 1]
        rows.append((case, f"{taken[len(taken) // 2] * 1e3:.1f}", f"{slowest * 1e3:.1f}"))
        plans.append(f"{case}\n" + "\n".join(_plans(database, run)))
    show(f"lists, {count:,} messages, {name}", ("", "p50 ms", "p98 ms"), rows)
    sys.stdout.write("\n\n".join(plans) + "\n\n")


def _seconds(database: Database, run: Run) -> float:
    began = time.perf_counter()
    with database.read() as connection:
        run(connection)
    return time.perf_counter() - began


def _plans(database: Database, run: Run) -> Iterator[str]:
    with recorded_statements(database) as statements, database.read() as connection:
        run(connection)
    with database.read() as connection:
        for statement in statements:
            yield plan_of(connection, statement)


def _cases(count: int) -> dict[str, Run]:
    messages, deliveries, orders = MessageList(), DeliveryList(), OrderList()
    number = max(indexed(count))
    small = Access(frozenset({"SITE2"}))
    filters: dict[str, tuple[ListDefinition[Any], dict[str, Any], Access]] = {
        "all": (messages, {}, UNLIMITED),
        "channel": (messages, {"channel": "orders"}, UNLIMITED),
        "rare channel": (messages, {"channel": "spare"}, UNLIMITED),
        "rare type": (messages, {"type": "ADT^A40"}, UNLIMITED),
        "rare type of a rare channel": (
            messages,
            {"type": "ADT^A40", "channel": "spare"},
            UNLIMITED,
        ),
        "rare type of a small site": (messages, {"type": "ADT^A40"}, small),
        "small site": (messages, {}, small),
        "parked": (messages, {"state": "parked"}, UNLIMITED),
        "refused in a channel": (messages, {"state": "refused", "channel": "spare"}, UNLIMITED),
        "absent modality": (messages, {"absent": "Modality"}, UNLIMITED),
        "absent modality of a rare type": (
            messages,
            {"absent": "Modality", "type": "ADT^A40"},
            UNLIMITED,
        ),
        "order": (messages, {"number": f"A{number}", "kind": "order"}, UNLIMITED),
        "frequent patient": (messages, {"number": FREQUENT, "kind": "patient"}, UNLIMITED),
        "words that nothing has": (messages, {"text": "locked"}, UNLIMITED),
        "deliveries": (deliveries, {}, UNLIMITED),
        "deliveries of a destination": (deliveries, {"destination": "ris"}, UNLIMITED),
        "parked deliveries": (deliveries, {"state": "parked"}, UNLIMITED),
        "deliveries of a small site": (deliveries, {}, small),
        "sent message": (deliveries, {"control_id": f"D{number // 5}"}, UNLIMITED),
        "orders": (orders, {}, UNLIMITED),
        "order by number": (orders, {"number": f"A{number}"}, UNLIMITED),
        "orders of a small site": (orders, {}, small),
    }
    return {
        f"{case}, {name}": run
        for case, (listed, asked, access) in filters.items()
        for name, run in _runs(listed, asked, access, count).items()
    }


def _runs(
    listed: ListDefinition[Any], filters: dict[str, Any], access: Access, count: int
) -> dict[str, Run]:
    middle = ListRequest(filters, before=count // 2)
    return {
        "first page": lambda connection: listed.page(connection, ListRequest(filters), access),
        "deep page": lambda connection: listed.page(connection, middle, access),
        "oldest first": lambda connection: listed.page(
            connection, ListRequest(filters, descending=False), access
        ),
        "count": lambda connection: listed.count(connection, filters, access),
        "ids": lambda connection: listed.ids_after(connection, filters, access, 0, count, 500),
    }
