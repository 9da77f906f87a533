"""Select messages and deliveries: by numbers, by filters, and many at once for replay and retry.

Order is kept as for a single one: each takes the place of its id among what is unfinished.

For commands. Messages are found by the index of numbers, which the service keeps up to date;
deliveries by the reports of the orders that a number leads to.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import func, select, text

from bridge.admin.message_subjects import Belongings
from bridge.console.message_index import NumberKind
from bridge.console.message_search import MessageQuery, find_orders_and_messages, search_messages
from bridge.errors import BridgeError
from bridge.queue import queries
from bridge.queue.listing_rows import DeliveryRow, MessageRow
from bridge.queue.statements import MESSAGE
from bridge.store.database import Database
from config import Settings

PAGE = 5000
Rows = Sequence[MessageRow] | Sequence[DeliveryRow]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which ones: what `queries.Filter` chooses, until a time (ms), with a code, so many."""

    wanted: queries.Filter
    until: int | None = None
    code: str | None = None
    limit: int | None = None

    @property
    def narrows(self) -> bool:
        """Whether anything is asked for at all: a slip must not replay everything."""
        wanted = self.wanted
        criteria = (
            wanted.state,
            wanted.source,
            wanted.report_id,
            wanted.since,
            self.until,
            self.code,
        )
        return any(each is not None for each in criteria)


@dataclass(frozen=True, slots=True)
class Done:
    """What came of one."""

    row_id: int
    trouble: str = ""
    overtaken: int = 0


def chosen(
    database: Database, choice: Choice, look: Callable[[Database, queries.Filter], Rows]
) -> list[int]:
    """Give the ids of what is chosen, oldest first."""
    ids: list[int] = []
    wanted = replace(choice.wanted, limit=PAGE)
    while True:
        rows = look(database, wanted)
        ids += [row.id for row in rows if _fits(row, choice)]
        if len(rows) < PAGE:
            return sorted(ids)[: choice.limit]
        wanted = replace(wanted, before=rows[-1].id)


def _fits(row: MessageRow | DeliveryRow, choice: Choice) -> bool:
    if isinstance(row, MessageRow):
        came, codes = row.received_at, {row.code, row.error_code}
    else:
        came, codes = row.created_at, {row.code, row.detail}
    in_time = choice.until is None or came <= choice.until
    return in_time and (choice.code is None or choice.code in codes)


def one_by_one(
    ids: Sequence[int],
    again: Callable[[int], int | None],
    rate: float,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Done]:
    """
    Do each in its order, at most `rate` a second (0: no limit); a trouble stops nobody else.

    They begin so far apart, however long each takes; what is late is not made up for by a rush.
    """
    due = clock()
    for row_id in ids:
        if (early := due - clock()) > 0:
            sleep(early)
        due = max(due, clock()) + (1 / rate if rate else 0)
        try:
            yield Done(row_id, overtaken=again(row_id) or 0)
        except BridgeError as error:
            yield Done(row_id, str(error))


_INDEXED_TO = text("SELECT max(message_id) FROM message_number_cursor WHERE name = 'console'")


def messages(
    database: Database, kind: NumberKind, number: str, wanted: queries.Filter
) -> Sequence[MessageRow]:
    """List the messages that have a number, newest first."""
    query = MessageQuery(
        kind=kind,
        number=number,
        state=wanted.state,
        listener=wanted.source,
        since=wanted.since,
        before=wanted.before,
    )
    found: list[MessageRow] = []
    while (left := wanted.limit - len(found)) > 0:
        page = search_messages(database, replace(query, limit=left))
        found += page.rows
        if page.further is None:
            break
        query = replace(query, before=page.further)
    return found


def not_indexed(database: Database) -> int:
    """Count the newest messages that the service has not indexed yet."""
    with database.read() as connection:
        newest = connection.execute(select(func.max(MESSAGE.c.id))).scalar() or 0
        indexed = connection.execute(_INDEXED_TO).scalar() or 0
    return max(0, newest - indexed)


def deliveries(
    settings: Settings, database: Database, kind: NumberKind, number: str, wanted: queries.Filter
) -> Sequence[DeliveryRow]:
    """List the deliveries with a control id, or for the orders that a number leads to."""
    if kind is NumberKind.CONTROL:
        return queries.deliveries(database, replace(wanted, control_id=number.strip()))
    orders, _ = find_orders_and_messages(
        database, Belongings(settings, database), kind, number.strip(), None
    )
    reports = frozenset(each["report_id"] for each in orders) - {""}
    return queries.deliveries(database, replace(wanted, reports=reports)) if reports else []
