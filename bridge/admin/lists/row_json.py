"""The rows of lists in JSON, with their causes in words; pages of one item show the same."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from bridge.admin.causes import cause_of
from bridge.admin.lists.attention import AttentionRow
from bridge.admin.lists.deliveries import ListedDelivery
from bridge.admin.lists.orders import OrderRow
from bridge.queue.listing_rows import DeliveryRow, MessageRow
from bridge.store.records.exceptions import ExceptionSubject

_CAUSE: Final = ("cause", "cause_text", "action")
MESSAGE_FIELDS: Final = (*(field.name for field in fields(MessageRow)), *_CAUSE)
DELIVERY_FIELDS: Final = (
    *(field.name for field in fields(DeliveryRow)),
    *_CAUSE,
    *("latency", "waits_for"),
)


def as_json(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the JSON forms of rows of any list."""
    return [_JSON[type(row)](row) for row in rows]


def message_json(row: MessageRow) -> dict[str, Any]:
    code = row.code or row.error_code
    cause = cause_of(ExceptionSubject.MESSAGE, row.state, code, row.detail, row.error_place)
    return {**asdict(row), "cause": code, "cause_text": cause.words, "action": cause.action}


def delivery_json(listed: ListedDelivery) -> dict[str, Any]:
    row = listed.row
    cause = cause_of(ExceptionSubject.DELIVERY, row.state, row.code, row.detail)
    return {
        **asdict(row),
        "cause": row.code,
        "cause_text": cause.words,
        "action": cause.action,
        "latency": listed.latency,
        "waits_for": listed.waits_for,
    }


def _order_json(row: OrderRow) -> dict[str, Any]:
    last = {"id": row.last_delivery, "state": row.last_delivery_state}
    return {
        **{name: getattr(row, name) for name in ("id", "site", "state", "first_at")},
        "first_message": row.first_message,
        "last_message": row.last_message,
        "report": None if row.report is None else asdict(row.report),
        "last_delivery": last if row.last_delivery else None,
    }


def _attention_json(row: AttentionRow) -> dict[str, Any]:
    cause = cause_of(ExceptionSubject(row.subject), "", row.code)
    return {**asdict(row), **asdict(cause)}


_JSON: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    MessageRow: message_json,
    ListedDelivery: delivery_json,
    OrderRow: _order_json,
    AttentionRow: _attention_json,
}
