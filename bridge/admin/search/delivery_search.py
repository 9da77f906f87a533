"""
Queries of deliveries: a filtered list, and the results that receivers have accepted.

As in `bridge.admin.search.message_search`: criteria without an index are searched in a window of
ids, newest first, so that a page costs the same on any number of rows. Blocking.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, false, func, or_, select

from bridge.admin.search.message_index import delivery_sites
from bridge.admin.search.message_search import ID_WINDOW
from bridge.admin.search.reply_reasons import reason_of
from bridge.queue import attempts
from bridge.queue.attempts import Attempt, AttemptKind
from bridge.queue.deliveries import NOT_CONNECTED
from bridge.queue.listing_rows import DeliveryRow
from bridge.queue.queries import ATTENTION, in_state, is_sortable, listed_delivery, listing_key
from bridge.queue.retention.rows import newest_id
from bridge.queue.statements import DELIVERY
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.records.exceptions import ExceptionSubject
from mappings.hl7.tables import AckCode


@dataclass(frozen=True, slots=True)
class DeliveryQuery:
    """Criteria for deliveries; None matches all. `before` is an id, exclusive."""

    state: QueueState | None = None
    destination: str | None = None
    report_id: str | None = None
    before: int | None = None
    limit: int = 50
    sites: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Rows, newest first; `further` is the `before` of the next page, None after the last one."""

    rows: Sequence[DeliveryRow]
    further: int | None


def search_deliveries(database: Database, query: DeliveryQuery) -> DeliveryPage:
    with database.read() as connection:
        newest = newest_id(connection, DELIVERY)
        high = newest + 1 if query.before is None else query.before
        sortable = is_sortable(connection, DELIVERY, query.state)
        indexed = query.report_id is not None or query.state in ATTENTION or sortable
        floor = 0 if indexed else max(0, high - ID_WINDOW)
        key = listing_key(DELIVERY, by_state=sortable)
        statement = (
            select(*(DELIVERY.c[name] for name in DeliveryRow.__slots__), DELIVERY.c.orders)
            .where(key >= floor, key < high, *_conditions(query))
            .order_by(key.desc())
            .limit(query.limit)
        )
        found = [dict(row) for row in connection.execute(statement).mappings()]
    further = _next_before(found, query.limit, floor)
    rows = [listed_delivery(each) for each in found if _is_visible(each.pop("orders"), query.sites)]
    return DeliveryPage(rows, further)


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


_POSITIVE = frozenset({AckCode.ACCEPT.value, AckCode.COMMIT_ACCEPT.value})


def _conditions(query: DeliveryQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.state is not None:
        conditions += in_state(DELIVERY, query.state)
    if query.destination is not None:
        conditions.append(DELIVERY.c.destination == query.destination)
    if query.report_id is not None:
        conditions.append(DELIVERY.c.report_id == query.report_id)
    if query.sites is not None:
        # A text search removes most rows of other sites; `_is_visible` decides on the parsed JSON.
        texts = (f'"SiteID": {json.dumps(each, ensure_ascii=False)}' for each in query.sites)
        contained = (DELIVERY.c.orders.contains(text, autoescape=True) for text in texts)
        conditions.append(or_(false(), *contained))
    return conditions


def _next_before(found: Sequence[Mapping[str, Any]], limit: int, floor: int) -> int | None:
    if len(found) == limit:
        return int(found[-1]["id"])
    return floor if floor > 1 else None


def _is_visible(orders: str, sites: frozenset[str] | None) -> bool:
    """True if all sites of a delivery are among `sites`; None permits all sites."""
    if sites is None:
        return True
    of_delivery = delivery_sites(json.loads(orders))
    return bool(of_delivery) and sites.issuperset(of_delivery)


_ACCEPTED_COLUMNS = (
    *("id", "destination", "report_id", "event"),
    *("code", "attempts", "acknowledged_at"),
)


@dataclass(frozen=True, slots=True)
class AcceptedDeliveryQuery:
    """
    Criteria for accepted deliveries; None matches all.

    Times in ms; `until` and `before` are exclusive.
    """

    sites: frozenset[str] | None = None
    destination: str | None = None
    report_id: str | None = None
    since: int | None = None
    until: int | None = None
    before: int | None = None
    limit: int = 100


def accepted_deliveries(database: Database, query: AcceptedDeliveryQuery) -> dict[str, Any]:
    """Return `rows`, newest first, and the `before` of the next page in `further`."""
    accepted_at = DELIVERY.c.acknowledged_at
    conditions = [DELIVERY.c.state == QueueState.DONE.value, accepted_at.is_not(None)]
    if query.destination is not None:
        conditions.append(DELIVERY.c.destination == query.destination)
    if query.report_id is not None:
        conditions.append(DELIVERY.c.report_id == query.report_id)
    if query.since is not None:
        conditions.append(accepted_at >= query.since)
    if query.until is not None:
        conditions.append(accepted_at < query.until)
    with database.read() as connection:
        newest = connection.execute(select(func.max(DELIVERY.c.id))).scalar() or 0
        high = newest + 1 if query.before is None else query.before
        floor = 0 if query.report_id is not None else max(0, high - ID_WINDOW)
        statement = select(*(DELIVERY.c[name] for name in _ACCEPTED_COLUMNS), DELIVERY.c.orders)
        ranged = statement.where(DELIVERY.c.id >= floor, DELIVERY.c.id < high, *conditions)
        found = connection.execute(ranged.order_by(DELIVERY.c.id.desc()).limit(query.limit))
        rows = [dict(row) for row in found.mappings()]
    further = _next_before(rows, query.limit, floor)
    visible = [each for each in rows if _is_visible(each.pop("orders"), query.sites)]
    return {"rows": visible, "further": further}
