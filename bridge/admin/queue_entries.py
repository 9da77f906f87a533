"""Entries of the queues for commands: messages, deliveries and exceptions."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bridge.admin import message_replay
from bridge.admin.audit_events import audited, recorded, relayed
from bridge.admin.channel_operations import charset_of, require_channel, stopped_destinations
from bridge.admin.message_replay import BatchReplay, RequeueResult, RowQuery, Selection
from bridge.admin.search.message_content import error_line, message_text, reply_errors
from bridge.admin.search.order_tracking import attempts_of
from bridge.admin.search.queue_search import exception_reason, with_reasons
from bridge.audit.events import operator
from bridge.queue import operations, queries
from bridge.store.databases import bridge_database
from bridge.store.records import exceptions, reconcile_rounds
from bridge.store.records.exceptions import ExceptionSubject
from config import load
from config.sections import ChannelKind


def list_messages(home: Path, query: RowQuery) -> tuple[list[dict[str, Any]], int]:
    """
    List messages, newest first; a search by number is audited.

    Return the rows and, for a search by number, how many new messages are not indexed yet. Raises
    NoSuchChannel if nothing is found and the listener does not exist.
    """
    not_indexed = 0
    with bridge_database(home) as database:
        if query.number is None:
            rows: Sequence[Any] = queries.messages(database, query.filter)
        else:
            target = ("messages", f"by {query.number[0]} number")
            with audited(home, database, "search", target):
                rows = message_replay.messages_by_number(database, *query.number, query.filter)
            not_indexed = message_replay.count_not_indexed(database)
    if not rows:
        require_channel(home, ChannelKind.LISTENER, query.source)
    return [asdict(row) for row in rows], not_indexed


def show_message(home: Path, message_id: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a message's row, and the texts of the message and its acknowledgment; audited."""
    with (
        bridge_database(home) as database,
        audited(home, database, "read", ("message", str(message_id))),
    ):
        detail = queries.message(database, message_id)
        charset = charset_of(load(home), database, detail.row.listener)
    texts = {
        "payload": message_text(detail.payload, charset),
        "ack": message_text(detail.ack, charset),
    }
    return {**asdict(detail.row), "notes": detail.notes}, texts


def select_messages(home: Path, ids: Sequence[int] | None, chosen: Selection) -> list[int]:
    """
    Return these ids, or those of the selected messages, oldest first.

    Raises NoSuchChannel if nothing is selected and the listener does not exist.
    """
    if ids:
        return sorted(ids)
    with bridge_database(home) as database:
        found = message_replay.selected_ids(database, chosen, queries.messages)
    if not found:
        require_channel(home, ChannelKind.LISTENER, chosen.source)
    return found


def replay_messages(
    home: Path, ids: Sequence[int], chosen: Selection, rate: float
) -> Iterator[RequeueResult]:
    """Queue messages again in the order of their ids, `rate` per second; each is audited."""
    with bridge_database(home) as database, relayed(home, database):
        replay = BatchReplay(load(home), database, chosen.chosen_state)

        def replay_one(row_id: int) -> int:
            with recorded(database, "replay", ("message", str(row_id))):
                return replay(row_id)

        yield from message_replay.requeue_each(ids, replay_one, rate)


def list_deliveries(home: Path, query: RowQuery) -> list[dict[str, Any]]:
    """
    List deliveries, newest first; a search by number is audited.

    Raises NoSuchChannel if nothing is found and the destination does not exist.
    """
    with bridge_database(home) as database:
        if query.number is None:
            rows: Sequence[Any] = queries.deliveries(database, query.filter)
        else:
            target = ("deliveries", f"by {query.number[0]} number")
            with audited(home, database, "search", target):
                rows = message_replay.deliveries_by_number(
                    load(home), database, *query.number, query.filter
                )
        found = with_reasons(database, rows, with_texts=True)
    if not rows:
        require_channel(home, ChannelKind.DESTINATION, query.source)
    return found


def show_delivery(home: Path, delivery_id: int) -> tuple[dict[str, Any], dict[str, str]]:
    """
    Return a delivery's row with its attempts, and the texts of its message and of the last reply.

    Audited.
    """
    with (
        bridge_database(home) as database,
        audited(home, database, "read", ("delivery", str(delivery_id))),
    ):
        detail = queries.delivery(database, delivery_id)
        (row,) = with_reasons(database, [detail.row], with_texts=True)
        found = attempts_of(database, [detail.row], with_texts=True).get(delivery_id, [])
    row["errors"] = reply_errors(detail.reply or b"", with_texts=True)
    row["attempts_made"] = [with_own_times(attempt) for attempt in found]
    return row, {
        "payload": message_text(detail.payload),
        "reply": message_text(detail.reply),
        "errors_of_last_reply": "\n".join(map(error_line, row["errors"])),
        "failed_attempts": "\n".join(map(_attempt_line, row["attempts_made"])),
    }


def with_own_times(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """Return an attempt with its times in ISO 8601."""
    return {**attempt, "at": _iso(attempt["at"]), "retry_at": _iso(attempt["retry_at"])}


def _iso(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _attempt_line(attempt: Mapping[str, Any]) -> str:
    what = "reply after the first one" if attempt["kind"] == "reply" else "attempt"
    reason = f": {attempt['reason']}" if attempt["reason"] else ""
    line = f"{attempt['at']}  {what}  {attempt['code']}{reason}"
    if attempt["retry_at"]:
        line += f"  (next attempt {attempt['retry_at']})"
    return line if attempt["errors"] or not attempt["reply"] else f"{line}\n    {attempt['reply']}"


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
            else message_replay.selected_ids(database, chosen, queries.deliveries)
        )
        if not found:
            require_channel(home, ChannelKind.DESTINATION, chosen.source)
        return found, stopped_destinations(home, database, found)


def retry_deliveries(
    home: Path, ids: Sequence[int], chosen: Selection, rate: float
) -> Iterator[RequeueResult]:
    """Queue deliveries again in the order of their ids, `rate` per second; each is audited."""
    with bridge_database(home) as database, relayed(home, database):

        def retry_one(row_id: int) -> None:
            with recorded(database, "retry", ("delivery", str(row_id))):
                operations.retry_delivery(database, row_id, expected_state=chosen.chosen_state)

        yield from message_replay.requeue_each(ids, retry_one, rate)


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
