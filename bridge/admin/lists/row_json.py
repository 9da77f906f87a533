"""The rows of lists in JSON, with their causes in words; pages of one item show the same."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any, Final

from bridge.admin.causes import cause_of
from bridge.admin.lists.attention import AttentionRow
from bridge.admin.lists.deliveries import ListedDelivery
from bridge.admin.lists.orders import OrderRow
from bridge.admin.lists.steps import StepRow
from bridge.queue.listing_rows import DeliveryRow, MessageRow
from bridge.store.records.exceptions import ExceptionSubject

_CAUSE: Final = ("cause", "cause_text", "action")
MESSAGE_FIELDS: Final = (*(field.name for field in fields(MessageRow)), *_CAUSE)
DELIVERY_FIELDS: Final = (
    *(field.name for field in fields(DeliveryRow)),
    *_CAUSE,
    *("latency", "waits_for"),
)
_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "messages": {
        "time": "received_at",
        "channel": "listener",
        "type": "message_type",
        "ack": "ack_code",
        "definition": "mapping",
        "version": "mapping_version",
    },
    "deliveries": {
        "time": "created_at",
        "report": "report_id",
        "sent": "sent_at",
        "accepted": "acknowledged_at",
    },
}
"""Columns that the lists call by other names than their rows."""
_SPANS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "messages": {"took": ("received_at", "settled_at"), "age": ("received_at", "")},
    "deliveries": {"waited": ("created_at", "acknowledged_at"), "age": ("created_at", "")},
}
"""Columns with the time between two others; '': until now."""


def columns_of(list_name: str) -> frozenset[str]:
    """Return the columns of a list that are not read from content."""
    known = {"messages": MESSAGE_FIELDS, "deliveries": DELIVERY_FIELDS}[list_name]
    return frozenset({*known, *_COLUMNS[list_name], *_SPANS[list_name]})


def cell(list_name: str, row: Mapping[str, Any], column: str, now: int) -> str:
    """
    Return a column of a row as text: times in ISO 8601 and UTC, spans in seconds, causes in words.

    `row` is that of `message_json` or `delivery_json`; `now` is in ms.
    """
    if column in _SPANS[list_name]:
        begin, end = _SPANS[list_name][column]
        until = now if not end else row[end]
        return "" if until is None else f"{max(0, until - row[begin]) / 1000:.3f}"
    if column == "cause":
        return str(row["cause_text"] or row["cause"])
    name = _COLUMNS[list_name].get(column, column)
    value = row.get(name)
    if isinstance(value, int) and (name.endswith("_at") or name == "not_before"):
        return _iso(value)
    return "" if value is None else str(value)


def _iso(moment: int) -> str:
    if not moment:
        return ""
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds")


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
        **{name: getattr(row, name) for name in ("sentence", "waits_for", "tone")},
    }


def _attention_json(row: AttentionRow) -> dict[str, Any]:
    cause = cause_of(ExceptionSubject(row.subject), "", row.code)
    return {**asdict(row), **asdict(cause)}


_JSON: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    MessageRow: message_json,
    ListedDelivery: delivery_json,
    OrderRow: _order_json,
    AttentionRow: _attention_json,
    StepRow: asdict,
}
