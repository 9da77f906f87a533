"""
Results that went out under the wrong patient while two numbers were merged, and their corrections.

A correction withdraws the result under the survivor's number and sends it under the patient's own,
through the outbox and by the definition of each destination, after what was queued before.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from bridge.contract import OrderKey
from bridge.delivery.composer import DEMOGRAPHICS, RETRACTABLE_EVENTS
from bridge.delivery.delivery_history import order_part
from bridge.orders.order import Order
from bridge.queue.operations import FollowingDelivery, send_following
from bridge.queue.statements import DELIVERY, DELIVERY_BODY
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.records import order_index
from bridge.store.records.identifier_changes import UndoneChange
from mappings.outbound.results import ResultEvent

_ROW: Final = DELIVERY.c
_SIGNED: Final = RETRACTABLE_EVENTS[ResultEvent.RETRACTION]
_TEXTS: Final = _SIGNED | RETRACTABLE_EVENTS[ResultEvent.CANCELLATION]


@dataclass(frozen=True, slots=True)
class SentResult:
    """
    A result that a receiver has accepted under the survivor's number; times in ms.

    `is_corrected`: a message that withdraws it was queued.
    """

    delivery_id: int
    destination: str
    report_id: str
    accession: str
    event: str
    control_id: str
    sent_at: int | None
    is_corrected: bool


def wrong_results(
    connection: Connection, mrn: str, since: int, reports: Mapping[str, str], change_id: int = 0
) -> list[SentResult]:
    """
    Return the results of reports (accessions by report id) that were sent as those of `mrn`.

    `since` is the time of the merge (ms). `change_id` is the undone merge, if it was undone.
    """
    return [
        _sent_result(row, mrn, reports[row.report_id], corrected)
        for rows, corrected in _sent(connection, mrn, since, reports, change_id)
        for row in rows
    ]


def _sent_result(row: Row[Any], mrn: str, accession: str, corrected: Collection[str]) -> SentResult:
    return SentResult(
        row.id,
        row.destination,
        row.report_id,
        accession,
        row.event,
        row.control_id,
        row.sent_at,
        row.destination in corrected,
    )


def _sent(
    connection: Connection, mrn: str, since: int, reports: Collection[str], change_id: int
) -> Iterable[tuple[list[Row[Any]], Collection[str]]]:
    """Yield for each report the deliveries under a number, and the corrected destinations."""
    for report_id in sorted(reports):
        columns = (*DELIVERY.c, DELIVERY_BODY.c.payload)
        body = DELIVERY.outerjoin(DELIVERY_BODY, DELIVERY_BODY.c.delivery_id == _ROW.id)
        query = select(*columns).select_from(body).where(_ROW.report_id == report_id)
        rows = connection.execute(query.order_by(_ROW.id)).all()
        own = [
            row
            for row in rows
            if row.state == QueueState.DONE.value
            and ResultEvent(row.event) in _TEXTS
            and (row.sent_at or row.settled_at or 0) >= since
            and not _is_correction(row, 0)
            and _names(row, mrn)
        ]
        corrected = {
            row.destination for row in rows if change_id and _is_correction(row, change_id)
        }
        yield own, corrected


def _names(row: Row[Any], mrn: str) -> bool:
    """True if a message names a number: a result that waited was sent with the survivor's."""
    orders = json.loads(row.orders)["orders"]
    in_message = row.payload is not None and mrn.encode() in bytes(row.payload)
    return any(str(order.get("PatientMRN", "")) == mrn for order in orders) or in_message


_WITHDRAWN, _RIGHT = "withdrawn", "right"


def _key(row: Row[Any], change_id: int, part: str) -> str:
    order = order_part(row.release_key)
    return f"{row.report_id}:merge-{change_id}-{part}:{order}"


def _is_correction(row: Row[Any], change_id: int) -> bool:
    number = f"{change_id}-" if change_id else ""
    return str(row.release_key).startswith(f"{row.report_id}:merge-{number}")


def send_corrections(
    database: Database, connection: Connection, change: UndoneChange, now: int
) -> int:
    """
    Queue corrections of the results of an undone merge; return how many messages are new.

    Repeated calls queue nothing twice. An order that has moved on gets none.
    """
    keys = {
        OrderKey(change.site, change.prior_mrn, accession): accession
        for accession in change.returned
    }
    orders = order_index.find(connection, keys)
    reports = {order.report_id: order for order in orders.values() if order.report_id}
    queued = 0
    for rows, _ in _sent(connection, change.mrn, change.merged_at, reports, change.id):
        for row in _last_of_each(rows):
            order = reports[row.report_id]
            former = change.returned[order.key.accession]
            following = _correction(row, order, change, former.demographics, former.echo)
            queued += send_following(database, connection, row.id, following, now)
    return queued


def _last_of_each(rows: Iterable[Row[Any]]) -> list[Row[Any]]:
    """Return the last delivery of each destination and order."""
    return list({(row.destination, row.lane): row for row in rows}.values())


def _correction(
    row: Row[Any],
    order: Order,
    change: UndoneChange,
    survivor: Mapping[str, Any],
    echo: Iterable[str],
) -> list[FollowingDelivery]:
    """Return the message that withdraws a result, and the one under the right patient."""
    content = json.loads(row.orders)
    is_signed = ResultEvent(row.event) in _SIGNED
    withdrawal = ResultEvent.RETRACTION if is_signed else ResultEvent.CANCELLATION
    wrong = {
        **content,
        "orders": [_with_patient(tags, survivor, change.mrn) for tags in content["orders"]],
        "identity": [line for line in echo if line[:3].upper() in {"MSH", "PID"}],
    }
    own = {tag: order.tags[tag] for tag in DEMOGRAPHICS if tag in order.tags}
    right = {
        **content,
        "orders": [_with_patient(tags, own, change.prior_mrn) for tags in content["orders"]],
    }
    result = ResultEvent.FINAL if is_signed else ResultEvent.PRELIMINARY
    return [
        FollowingDelivery(_key(row, change.id, part), event.value, json.dumps(value))
        for part, event, value in (
            (_WITHDRAWN, withdrawal, wrong),
            (_RIGHT, result, right),
        )
    ]


def _with_patient(
    tags: Mapping[str, Any], demographics: Mapping[str, Any], mrn: str
) -> dict[str, Any]:
    others = {tag: value for tag, value in tags.items() if tag not in DEMOGRAPHICS}
    return {**others, **demographics, "PatientMRN": mrn}
