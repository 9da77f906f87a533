"""
The lists of the console on a year of traffic: each filter's index, on both databases.

The stored data is that of `seeding`. `--count` is the number of messages; the default of ten
million takes 30 GB. Each case is a first page, a page deep in the list, a count, or the ids for a
background job, or a sort by a column; the plans of its statements follow the table. The last table
is that of a receiver that refuses everything.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, text

from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import UNLIMITED, Access, ListDefinition, ListRequest
from bridge.admin.lists.messages import MessageList
from bridge.admin.lists.orders import WAITING_CHOICES, OrderList
from bridge.admin.overview import attention
from bridge.store.database import Database
from config import Settings
from tests.benchmarks.installation import Postgres
from tests.benchmarks.seeding import FREQUENT, SENDER, WORD, indexed, seed
from tests.benchmarks.tables import Options, show
from tests.bridge.query_plans import plan_of, recorded_statements
from tests.databases import fresh_file, migrate

MESSAGES: Final = 10_000_000
REPEATED: Final = 20
REFUSED: Final = 20_000
"""More results than are sorted: a receiver that refuses everything."""
_HOUR: Final = 3_600_000
_PLACE: Final = 0.98
"""The slowest of `REPEATED` runs but one, of all runs."""

Query = Callable[[Connection], object]
Run = Callable[[Database], object]


def main(folder: Path, options: Options) -> None:
    """Measure all cases on SQLite, then on PostgreSQL."""
    count = options.count or MESSAGES
    for name, databases in (("SQLite", _sqlite), ("PostgreSQL", _postgresql)):
        with databases(folder) as database:
            seed(database, count, time.time_ns() // 1_000_000)
            title = f"lists, {count:,} messages, {name}"
            _measure(title, database, _cases(count), options.rounds)
            _refuse_newest(database)
            _measure(f"{title}, {REFUSED:,} refused results", database, _refused(), options.rounds)


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


def _refuse_newest(database: Database) -> None:
    """Park the newest results, as if a receiver had refused each of them."""
    newest = "id > (SELECT max(id) FROM delivery) - :number"
    change = f"UPDATE delivery SET state = 'parked', code = 'AE' WHERE {newest}"  # noqa: S608  # our own names
    with database.write() as connection:
        connection.execute(text(change), {"number": REFUSED})
        connection.execute(text("ANALYZE"))


def _refused() -> dict[str, Run]:
    orders, deliveries = OrderList(), DeliveryList()
    return {
        **_runs("parked deliveries", deliveries, {"state": "parked"}, UNLIMITED, REFUSED),
        **_runs("orders that wait: receiver", orders, {"waiting": "receiver"}, UNLIMITED, REFUSED),
        "what needs attention": _attention,
    }


def _attention(database: Database) -> object:
    return attention.groups(
        Settings(home=Path("/none")), database, UNLIMITED, time.time_ns() // 1_000_000
    )


def _measure(title: str, database: Database, cases: dict[str, Run], rounds: int) -> None:
    rows, plans = [], []
    for case, run in cases.items():
        taken = sorted(_seconds(database, run) for _ in range(max(REPEATED, rounds)))
        slowest = taken[int(len(taken) * _PLACE) - 1]
        rows.append((case, f"{taken[len(taken) // 2] * 1e3:.1f}", f"{slowest * 1e3:.1f}"))
        plans.append(f"{case}\n" + "\n".join(_plans(database, run)))
    show(title, ("", "p50 ms", "p98 ms"), rows)
    sys.stdout.write("\n\n".join(plans) + "\n\n")


def _seconds(database: Database, run: Run) -> float:
    began = time.perf_counter()
    run(database)
    return time.perf_counter() - began


def _plans(database: Database, run: Run) -> Iterator[str]:
    with recorded_statements(database) as statements:
        run(database)
    with database.read() as connection:
        for statement in statements:
            yield plan_of(connection, statement)


def _cases(count: int) -> dict[str, Run]:
    """Return each filter and sort of each list, and what needs attention."""
    messages, deliveries, orders = MessageList(), DeliveryList(), OrderList()
    number = max(indexed(count))
    small = Access(frozenset({"SITE2"}))
    now = time.time_ns() // 1_000_000
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
        "parked or refused": (messages, {"state": ["failed"]}, UNLIMITED),
        "not finished": (messages, {"state": ["open"]}, UNLIMITED),
        "ignored": (messages, {"state": "ignored"}, UNLIMITED),
        "refused in a channel": (messages, {"state": "refused", "channel": "spare"}, UNLIMITED),
        "cause in a channel": (
            messages,
            {"state": "parked", "cause": "not_taken", "channel": "orders"},
            UNLIMITED,
        ),
        "absent modality": (messages, {"absent": "Modality"}, UNLIMITED),
        "absent modality of a rare type": (
            messages,
            {"absent": "Modality", "type": "ADT^A40"},
            UNLIMITED,
        ),
        "order": (messages, {"number": f"A{number}", "kind": "order"}, UNLIMITED),
        "frequent patient": (messages, {"number": FREQUENT, "kind": "patient"}, UNLIMITED),
        "name": (messages, {"name": WORD}, UNLIMITED),
        "sender": (messages, {"sender": SENDER}, UNLIMITED),
        "definition": (messages, {"definition": "orders"}, UNLIMITED),
        "version that nothing has": (messages, {"version": "none"}, UNLIMITED),
        "flag that nothing has": (messages, {"flags": "corrected"}, UNLIMITED),
        "edited": (messages, {"edited": True}, UNLIMITED),
        "last hour": (messages, {"since": now - _HOUR}, UNLIMITED),
        "words that nothing has": (messages, {"text": "locked"}, UNLIMITED),
        "deliveries": (deliveries, {}, UNLIMITED),
        "deliveries of a destination": (deliveries, {"destination": "ris"}, UNLIMITED),
        "deliveries of an event": (deliveries, {"event": "final"}, UNLIMITED),
        "parked deliveries": (deliveries, {"state": "parked"}, UNLIMITED),
        "deliveries of a report": (deliveries, {"report": f"r{number}"}, UNLIMITED),
        "deliveries of a small site": (deliveries, {}, small),
        "accepted results": (deliveries, {"state": "done", "accepted_since": 0}, UNLIMITED),
        "results accepted in the last hour": (
            deliveries,
            {"accepted_since": now - _HOUR},
            UNLIMITED,
        ),
        "sent message": (deliveries, {"control_id": f"D{number // 5}"}, UNLIMITED),
        "deliveries with words that nothing has": (deliveries, {"text": "locked"}, UNLIMITED),
        "orders": (orders, {}, UNLIMITED),
        "order by number": (orders, {"number": f"A{number}"}, UNLIMITED),
        "order by report": (orders, {"report": f"r{number}"}, UNLIMITED),
        "orders of a small site": (orders, {}, small),
        "orders on hold": (orders, {"state": "held"}, UNLIMITED),
        "orders with a draft": (orders, {"report_status": "Draft"}, UNLIMITED),
        **{
            f"orders that wait: {name}": (orders, {"waiting": name}, UNLIMITED)
            for name in WAITING_CHOICES
        },
    }
    found = {
        name: run
        for case, (listed, asked, access) in filters.items()
        for name, run in _runs(case, listed, asked, access, count).items()
    }
    sorted_by: dict[str, tuple[ListDefinition[Any], dict[str, Any]]] = {
        "parked": (messages, {"state": "parked"}),
        "parked deliveries": (deliveries, {"state": "parked"}),
        "orders that wait for a receiver": (orders, {"waiting": "receiver"}),
    }
    for case, (listed, asked) in sorted_by.items():
        for column in listed.sorts:
            found[f"{case}, by {column}"] = _page(
                listed, ListRequest(asked, sort=column), UNLIMITED
            )
    return found | {"what needs attention": _attention}


def _reading(query: Query) -> Run:
    def run(database: Database) -> object:
        with database.read() as connection:
            return query(connection)

    return run


def _page(listed: ListDefinition[Any], request: ListRequest, access: Access) -> Run:
    return _reading(lambda connection: listed.page(connection, request, access))


def _runs(
    case: str,
    listed: ListDefinition[Any],
    filters: dict[str, Any],
    access: Access,
    count: int,
) -> dict[str, Run]:
    found = {
        "first page": _page(listed, ListRequest(filters), access),
        "deep page": _page(listed, ListRequest(filters, before=count // 2), access),
        "oldest first": _page(listed, ListRequest(filters, descending=False), access),
        "count": _reading(lambda connection: listed.count(connection, filters, access)),
        "ids": _reading(
            lambda connection: listed.ids_after(connection, filters, access, 0, count, 500)
        ),
    }
    return {f"{case}, {name}": run for name, run in found.items()}
