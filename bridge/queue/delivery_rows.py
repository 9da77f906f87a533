"""
Between the rows of deliveries and what the outbox hands out and is told.

Pure: no statement runs here.
"""

import json
from typing import Any

from sqlalchemy import Row

from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome, Release
from bridge.queue.settlements import Settlement
from bridge.queue.states import Event


def columns(release: Release, key: int, now: int) -> dict[str, Any]:
    """Lay a release out, in its lane."""
    return {
        "destination": release.destination,
        "lane": key,
        "report_id": release.report_id,
        "release_key": release.release_key,
        "event": release.event,
        "orders": json.dumps(release.orders, ensure_ascii=False),
        "release_at": release.release_at,
        "created_at": now,
    }


def claimed(row: Row[Any]) -> ClaimedDelivery:
    """Read a row that was claimed."""
    return ClaimedDelivery(
        delivery_id=row.id,
        destination=row.destination,
        report_id=row.report_id,
        release_key=row.release_key,
        event=row.event,
        orders=json.loads(row.orders),
        control_id=row.control_id,
        payload=None if row.payload is None else bytes(row.payload),
        attempts=row.attempts,
        release_at=row.release_at,
        created_at=row.created_at,
        tries=row.tries or 0,
    )


def settlement(outcome: DeliveryOutcome, now: int) -> Settlement:
    """Say what an outcome makes of its row."""
    due = outcome.retry_at if outcome.retry_at is not None else now
    return Settlement.of(
        outcome.delivery_id, outcome.event, outcome.failure, outcome.code, outcome.detail, due
    )


def answer(outcome: DeliveryOutcome, now: int) -> tuple[int, bytes, int | None, int | None, int]:
    """Give what is kept of an attempt: its delivery, reply, times and count."""
    acknowledged = now if outcome.event is Event.ACCEPTED else None
    return outcome.delivery_id, outcome.reply or b"", outcome.sent_at, acknowledged, outcome.tries
