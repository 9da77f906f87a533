"""Deliveries for commands: list, show, select, retry and skip them."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bridge.admin.audit_events import audited, recorded, relayed
from bridge.admin.channels import require_channel, stopped_destinations
from bridge.admin.queue import selection
from bridge.admin.queue.selection import RequeueResult, RowQuery, Selection
from bridge.console.message_view import message_text
from bridge.monitoring.channels import ChannelKind
from bridge.queue import operations, queries
from bridge.wiring.stores import bridge_database
from config import load


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
                rows = selection.deliveries_by_number(
                    load(home), database, *query.number, query.filter
                )
    if not rows:
        require_channel(home, ChannelKind.DESTINATION, query.source)
    return [asdict(each) for each in rows]


def show_delivery(home: Path, delivery_id: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a delivery's row, and the texts of its message and of the last reply; audited."""
    with (
        bridge_database(home) as database,
        audited(home, database, "read", ("delivery", str(delivery_id))),
    ):
        detail = queries.delivery(database, delivery_id)
    return asdict(detail.row), {
        "payload": message_text(detail.payload),
        "reply": message_text(detail.reply),
    }


def select_deliveries(
    home: Path, ids: Sequence[int] | None, chosen: Selection
) -> tuple[list[int], list[str]]:
    """
    Return these ids, or those of the selected deliveries, oldest first; and notes.

    A note names a destination that sends nothing at present. Raises NoSuchChannel if nothing is
    selected and the destination does not exist.
    """
    with bridge_database(home) as database:
        found = sorted(ids) if ids else selection.selected_ids(database, chosen, queries.deliveries)
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

        yield from selection.requeue_each(ids, retry_one, rate)


def skip_delivery(home: Path, delivery_id: int) -> None:
    """Cancel one delivery; audited."""
    with (
        bridge_database(home) as database,
        audited(home, database, "skip", ("delivery", str(delivery_id))),
    ):
        operations.skip_delivery(database, delivery_id)
