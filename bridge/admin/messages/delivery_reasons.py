"""Why a receiver has not accepted a delivery, from the attempts that are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bridge.admin.messages.message_content import reason_of
from bridge.queue import attempts
from bridge.queue.attempts import Attempt, AttemptKind
from bridge.queue.commitments import COMMITTED
from bridge.queue.deliveries import NOT_CONNECTED
from bridge.queue.listing_rows import DeliveryRow
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.records.exceptions import ExceptionSubject
from mappings.hl7.refusals import AckCode


def with_reasons(
    database: Database, rows: Sequence[DeliveryRow], *, with_texts: bool
) -> list[dict[str, Any]]:
    """
    Return rows of a list, each with `reason`: why the receiver has not accepted the delivery, or
    has refused it later; '' if it has accepted it.
    """
    last = attempts.last_of_deliveries(database, [row.id for row in rows])
    return [{**asdict(row), "reason": _reason(row, last, with_texts)} for row in rows]


def _reason(row: DeliveryRow, last: Mapping[int, Attempt], with_texts: bool) -> str:
    attempt = last.get(row.id)
    is_reply = attempt is not None and attempt.kind is AttemptKind.REPLY
    if attempt is None or (row.state is QueueState.DONE and not is_reply):
        return "" if row.state is QueueState.DONE else row.detail
    if row.code == NOT_CONNECTED and row.state is QueueState.QUEUED:
        return row.detail
    found = reason_of(attempt, with_texts=with_texts)
    if not is_reply or row.state is not QueueState.DONE:
        return found
    if attempt.code in _POSITIVE:
        return ""
    return f"refused after it was accepted: {attempt.code} {found}".rstrip()


def exception_reason(database: Database, row: Mapping[str, Any], *, with_texts: bool) -> str:
    """Return what the receiver wrote about a result that it refused later; '' for others."""
    if row["kind"] != ExceptionSubject.DELIVERY:
        return ""
    stored = attempts.of_deliveries(database, [row["row_id"]]).get(row["row_id"], [])
    found = [
        attempt
        for attempt in stored
        if attempt.kind is AttemptKind.REPLY
        and f"{attempt.code} {attempt.detail}".strip() == row["code"]
    ]
    return reason_of(found[-1], with_texts=with_texts) if found else ""


_POSITIVE = frozenset({AckCode.ACCEPT.value, AckCode.COMMIT_ACCEPT.value, COMMITTED})
