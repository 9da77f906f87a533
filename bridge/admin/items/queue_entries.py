"""Entries of the queues for commands: messages, deliveries and exceptions."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from bridge.admin.audit_events import audited
from bridge.admin.background.commands import act
from bridge.admin.background.jobs import JobKind, JobRow
from bridge.admin.background.jobs import Selection as SelectedRows
from bridge.admin.channel_operations import charset_of, require_channel, stopped_destinations
from bridge.admin.find import find_orders_and_messages
from bridge.admin.items.delivery_page import delivery_content
from bridge.admin.items.message_page import message_content
from bridge.admin.items.message_patients import message_patients
from bridge.admin.items.message_trace import trace_message
from bridge.admin.lists.definitions import DELIVERIES, MESSAGES
from bridge.admin.lists.listing import MAX_VALUES, Filters, ids_in_order, iterate
from bridge.admin.messages import message_replay
from bridge.admin.messages.delivery_reasons import exception_reason, with_reasons
from bridge.admin.messages.message_index import NumberKind
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.audit.events import operator
from bridge.queue import operations, queries
from bridge.queue.listing_rows import DeliveryRow
from bridge.queue.log_tables import pull_new
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records import exceptions, reconcile_rounds
from bridge.store.records.exceptions import ExceptionSubject
from config import Settings, load
from config.sections import ChannelKind

STATES: Final = tuple(state.value for state in QueueState)
"""Names of the states of messages and deliveries."""


@dataclass(frozen=True, slots=True)
class RowQuery:
    """
    Filters of a list; times in ms.

    `source` is a listener or a destination, `state` one of `STATES`. `number` is a kind (`control`,
    `patient`, `order`) and a value. `more` are filters of the list by name.
    """

    state: str | None = None
    source: str | None = None
    number: tuple[str, str] | None = None
    report_id: str | None = None
    since: int | None = None
    before: int | None = None
    limit: int = 50
    more: Filters = field(default_factory=dict)

    def filters(self, source: str) -> dict[str, Any]:
        """Return the filters without the number; `source` is the filter of the channel."""
        named = {
            "state": self.state,
            source: self.source,
            "report": self.report_id,
            "since": self.since,
        }
        return {name: value for name, value in {**named, **self.more}.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Selection:
    """
    Rows to replay or retry, at most `limit`; None matches all.

    `source` is a listener or a destination. The times are in ms, inclusive. `code` is a result
    code, the error code of a message, or the detail of a delivery.
    """

    state: str | None = None
    source: str | None = None
    since: int | None = None
    until: int | None = None
    code: str | None = None
    limit: int | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether there is any filter. Without one, a slip would select everything."""
        filters = (self.state, self.source, self.since, self.until, self.code)
        return any(value is not None for value in filters)

    def filters(self, source: str) -> dict[str, Any]:
        """Return the filters of a list; `source` is the filter of the channel."""
        until = None if self.until is None else self.until + 1
        named = {
            "state": self.state,
            source: self.source,
            "cause": self.code,
            "since": self.since,
            "until": until,
        }
        return {name: value for name, value in named.items() if value is not None}


def list_messages(home: Path, query: RowQuery) -> tuple[list[dict[str, Any]], int]:
    """
    List messages, newest first; a search by number is audited.

    Return the rows and, for a search by number, how many new messages are not indexed yet. Raises
    NoSuchChannel if nothing is found and the listener does not exist.
    """
    not_indexed = 0
    with bridge_database(home) as database:
        pull_new(database)
        filters = query.filters("channel")
        if query.number is not None:
            filters |= dict(zip(("kind", "number"), query.number, strict=True))
        private = MESSAGES.private & filters.keys()
        with _searched(home, database, "messages", query, private):
            found = iterate(database, MESSAGES, filters, before=query.before)
            rows = list(islice(found, query.limit))
        if private:
            not_indexed = message_replay.count_not_indexed(database)
    if not rows:
        require_channel(home, ChannelKind.LISTENER, query.source)
    return [asdict(row) for row in rows], not_indexed


@contextmanager
def _searched(
    home: Path, database: Database, listed: str, query: RowQuery, private: Collection[str]
) -> Iterator[None]:
    """Record a search by a number or a name, without its value."""
    if not private:
        yield
        return
    by = f"by {query.number[0]} number" if query.number else f"by {min(private)}"
    with audited(home, database, "search", (listed, by)):
        yield


@dataclass(frozen=True, slots=True)
class ShownItem:
    """
    A message or delivery with its content, as its page shows it.

    `content` is that of `message_content` or `delivery_content`; `trace` that of `trace_message`,
    None if it was not requested.
    """

    row: dict[str, Any]
    content: Mapping[str, Any]
    trace: Mapping[str, Any] | None = None


def show_message(home: Path, message_id: int, *, with_trace: bool = False) -> ShownItem:
    """Return a message with its content and, if requested, its trace; audited."""
    settings = load(home)
    with (
        bridge_database(home) as database,
        audited(home, database, "read", ("message", str(message_id))),
    ):
        detail = queries.message(database, message_id)
        charset = charset_of(settings, database, detail.row.listener)
        subjects = MessageSubjects(settings, database)
        patients = message_patients(database, subjects, detail)
        trace = None
        if with_trace:
            mapping = subjects.definition(detail.row.mapping, detail.row.mapping_version)
            trace = trace_message(settings, database, mapping, detail)
        content = message_content(detail, charset, patients)
        return ShownItem(asdict(detail.row), content, trace)


def select_messages(home: Path, ids: Sequence[int] | None, chosen: Selection) -> list[int]:
    """
    Return these ids, or those of the selected messages, oldest first.

    Raises NoSuchChannel if nothing is selected and the listener does not exist.
    """
    if ids:
        return sorted(ids)
    with bridge_database(home) as database:
        pull_new(database)
        found = ids_in_order(database, MESSAGES, chosen.filters("channel"), chosen.limit)
    if not found:
        require_channel(home, ChannelKind.LISTENER, chosen.source)
    return found


def replay_messages(
    home: Path, ids: Sequence[int], chosen: Selection, rate: float
) -> Iterator[JobRow]:
    """Queue messages again in the order of their ids, `rate` per second; each is audited."""
    rows = SelectedRows("messages", ids=ids)
    return act(home, JobKind.REPLAY, rows, state=chosen.state, rate=rate)


def list_deliveries(home: Path, query: RowQuery) -> list[dict[str, Any]]:
    """
    List deliveries, newest first; a search by number is audited.

    Raises NoSuchChannel if nothing is found and the destination does not exist.
    """
    with bridge_database(home) as database:
        with _searched(home, database, "deliveries", query, ("number",) if query.number else ()):
            rows = _deliveries(load(home), database, query)
        found = with_reasons(database, rows, with_texts=True)
    if not rows:
        require_channel(home, ChannelKind.DESTINATION, query.source)
    return found


def _deliveries(settings: Settings, database: Database, query: RowQuery) -> list[DeliveryRow]:
    """Return deliveries; with a number, those with the control id or for the orders with it."""
    filters = query.filters("destination")
    if query.number is not None and query.number[0] == NumberKind.CONTROL:
        filters["control_id"] = query.number[1].strip()
    elif query.number is not None:
        kind, number = query.number
        subjects = MessageSubjects(settings, database)
        orders, _ = find_orders_and_messages(
            database, subjects, NumberKind(kind), number.strip(), None
        )
        reports = sorted({order["report_id"] for order in orders} - {""})
        if not reports:
            return []
        filters["report"] = reports[:MAX_VALUES]
    found = iterate(database, DELIVERIES, filters, before=query.before)
    return [listed.row for listed in islice(found, query.limit)]


def show_delivery(home: Path, delivery_id: int) -> ShownItem:
    """Return a delivery with its content; audited."""
    with (
        bridge_database(home) as database,
        audited(home, database, "read", ("delivery", str(delivery_id))),
    ):
        detail = queries.delivery(database, delivery_id)
        (row,) = with_reasons(database, [detail.row], with_texts=True)
        content = delivery_content(database, detail)
    attempts = [with_own_times(attempt) for attempt in content["attempts"]]
    return ShownItem(row, {**content, "attempts": attempts})


def with_own_times(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """Return an attempt with its times in ISO 8601."""
    return {**attempt, "at": _iso(attempt["at"]), "retry_at": _iso(attempt["retry_at"])}


def _iso(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def select_deliveries(
    home: Path, ids: Sequence[int] | None, chosen: Selection
) -> tuple[list[int], list[str]]:
    """
    Return these ids, or those of the selected deliveries, oldest first; and notes.

    A note names a destination that sends nothing at present. Raises NoSuchChannel if nothing is
    selected and the destination does not exist.
    """
    with bridge_database(home) as database:
        found = (
            sorted(ids)
            if ids
            else ids_in_order(database, DELIVERIES, chosen.filters("destination"), chosen.limit)
        )
        if not found:
            require_channel(home, ChannelKind.DESTINATION, chosen.source)
        return found, stopped_destinations(home, database, found)


def retry_deliveries(
    home: Path, ids: Sequence[int], chosen: Selection, rate: float
) -> Iterator[JobRow]:
    """Queue deliveries again in the order of their ids, `rate` per second; each is audited."""
    rows = SelectedRows("deliveries", ids=ids)
    return act(home, JobKind.RETRY, rows, state=chosen.state, rate=rate)


def skip_delivery(home: Path, delivery_id: int) -> None:
    """Cancel one delivery; audited."""
    with (
        bridge_database(home) as database,
        audited(home, database, "skip", ("delivery", str(delivery_id))),
    ):
        operations.skip_delivery(database, delivery_id)


_POLL_SECONDS: Final = 0.5
NEVER_COMPARED: Final = reconcile_rounds.NEVER_COMPARED
"""What the reconcile job does not compare."""


def list_exceptions(home: Path, limit: int) -> list[dict[str, Any]]:
    """List the exceptions that are not marked as seen, newest first."""
    with bridge_database(home) as database:
        rows = [asdict(exception) for exception in exceptions.list_unseen(database, limit)]
        return [{**row, "reason": exception_reason(database, row, with_texts=True)} for row in rows]


def mark_as_seen(
    home: Path,
    messages: Sequence[int],
    orders: Sequence[int],
    feeds: Sequence[int],
    deliveries: Sequence[int] = (),
) -> int:
    """
    Mark the exceptions of these rows as seen, all of them if no row is given; audited.

    Return how many were marked.
    """
    chosen = [
        *((ExceptionSubject.MESSAGE, message) for message in messages),
        *((ExceptionSubject.ORDER, order) for order in orders),
        *((ExceptionSubject.FEED, feed) for feed in feeds),
        *((ExceptionSubject.DELIVERY, delivery) for delivery in deliveries),
    ]
    target = ("exceptions", str(len(chosen) or "all"))
    with bridge_database(home) as database, audited(home, database, "mark as seen", target):
        return exceptions.mark_seen(database, chosen or None, _now_ms(), operator())


def reconcile_report(home: Path) -> dict[str, Any]:
    """Return what the last complete round (`last`) and the current one (`running`) compared."""
    with bridge_database(home) as database, database.read() as connection:
        last = reconcile_rounds.last_round(connection)
        running = reconcile_rounds.current_round(connection, 0)
    return {
        "last": None if last is None else reconcile_rounds.round_summary(last),
        "running": reconcile_rounds.round_summary(running),
    }


def reconcile_now(home: Path, timeout: float) -> bool:
    """
    Request a complete round from the running service and wait for it, `timeout` seconds at most.

    Return whether it ended in time. It continues if not.
    """
    with bridge_database(home) as database:
        with database.write() as connection:
            reconcile_rounds.request_round(connection, _now_ms())
        until, waiting = time.monotonic() + timeout, True
        while waiting and time.monotonic() < until:
            time.sleep(min(_POLL_SECONDS, timeout))
            with database.read() as connection:
                waiting = bool(reconcile_rounds.requested_since(connection))
    return not waiting


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
