"""Received messages for commands: list, show, select and replay them."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bridge.admin.audit_events import audited, recorded, relayed
from bridge.admin.channels import charset_of, require_channel
from bridge.admin.queue import selection
from bridge.admin.queue.replay import BatchReplay
from bridge.admin.queue.selection import RequeueResult, RowQuery, Selection
from bridge.console.message_view import message_text
from bridge.monitoring.channels import ChannelKind
from bridge.queue import queries
from bridge.wiring.stores import bridge_database
from config import load


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
                rows = selection.messages_by_number(database, *query.number, query.filter)
            not_indexed = selection.count_not_indexed(database)
    if not rows:
        require_channel(home, ChannelKind.LISTENER, query.source)
    return [asdict(each) for each in rows], not_indexed


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
        found = selection.selected_ids(database, chosen, queries.messages)
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

        yield from selection.requeue_each(ids, replay_one, rate)
