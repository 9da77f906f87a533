"""
Results that went out under the wrong patient while two numbers were merged, and their corrections.

A correction withdraws the result under the survivor's number and sends it under the patient's own,
through the outbox and by the definition of each destination, after what was queued before. A
definition may have no message that withdraws a result: then only the result is sent, and a person
must tell the receiver what is wrong.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from bridge import active_settings
from bridge.active_settings import active_sources
from bridge.contract import OrderKey
from bridge.delivery.composer import DEMOGRAPHICS, RETRACTABLE_EVENTS
from bridge.delivery.delivery_history import correction_key, order_part
from bridge.delivery.destination_settings import make_destination
from bridge.delivery.dicom_objects import sent_objects
from bridge.errors import BridgeError
from bridge.orders.order import Order
from bridge.queue.operations import FollowingDelivery, send_following
from bridge.queue.statements import DELIVERY, DELIVERY_BODY
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.records import order_index
from bridge.store.records.identifier_changes import UndoneChange
from config import Settings
from mappings.language.diagnostics import MappingErrors
from mappings.outbound.results import ResultEvent

_ROW: Final = DELIVERY.c

Receivers = Mapping[str, Collection[ResultEvent]]
"""The events for which the definitions of each destination have a message."""


class Correction(StrEnum):
    """What a correction sends to a receiver."""

    BOTH = "both"
    RESULT_ONLY = "result_only"
    """The definition has no message that withdraws a result."""
    NOTHING = "nothing"
    """The destination was removed, or its definition has no message for the result either."""


def receivers_of(settings: Settings, database: Database) -> Receivers:
    """Return the destinations of the active settings. Blocking."""
    active = active_settings.current(settings, database)
    find = active_sources(settings, database)
    found: dict[str, Collection[ResultEvent]] = {}
    for section in active.destination:
        try:
            compiled = make_destination(active, section, find)
        except (BridgeError, MappingErrors):  # its deliveries are parked with the reason
            found[section.name] = frozenset(ResultEvent)
        else:
            found[section.name] = {event for one in compiled.mappings for event in one.events}
    return found


def _correction_of(row: Row[Any], receivers: Receivers) -> Correction:
    events = receivers.get(row.destination, ())
    withdrawal, _, sent_as = _events_of(row)
    if sent_as not in events:
        return Correction.NOTHING
    return Correction.BOTH if withdrawal in events else Correction.RESULT_ONLY


def _events_of(row: Row[Any]) -> tuple[ResultEvent, ResultEvent, ResultEvent]:
    """
    Return the events that withdraw a result and send it again.

    A receiver that has had a signed text gets the next one as a correction: the last event.
    """
    if ResultEvent(row.event) in _SIGNED:
        return ResultEvent.RETRACTION, ResultEvent.FINAL, ResultEvent.CORRECTION
    return ResultEvent.CANCELLATION, ResultEvent.PRELIMINARY, ResultEvent.PRELIMINARY


_SIGNED: Final = RETRACTABLE_EVENTS[ResultEvent.RETRACTION]
_TEXTS: Final = _SIGNED | RETRACTABLE_EVENTS[ResultEvent.CANCELLATION]


@dataclass(frozen=True, slots=True)
class SentResult:
    """
    A result that a receiver has accepted under the survivor's number, or will get; times in ms.

    `is_corrected`: a correction was queued. `correction` is what one sends.
    """

    delivery_id: int
    destination: str
    report_id: str
    accession: str
    event: str
    control_id: str
    sent_at: int | None
    is_corrected: bool
    correction: Correction


def wrong_results(
    connection: Connection,
    receivers: Receivers,
    mrn: str,
    own: str,
    since: int,
    reports: Mapping[str, str],
    change_id: int = 0,
) -> list[SentResult]:
    """
    Return the results of reports (accessions by report id) of the patient `own` that were sent as
    those of `mrn`, or wait as such.

    `since` is the time of the merge (ms). `change_id` is the undone merge, if it was undone.
    """
    return [
        _sent_result(row, receivers, reports[row.report_id], corrected)
        for rows, corrected in _sent(connection, mrn, own, since, reports, change_id)
        for row in rows
    ]


def _sent_result(
    row: Row[Any], receivers: Receivers, accession: str, corrected: Collection[str]
) -> SentResult:
    return SentResult(
        row.id,
        row.destination,
        row.report_id,
        accession,
        row.event,
        row.control_id,
        row.sent_at,
        row.destination in corrected,
        _correction_of(row, receivers),
    )


def _sent(
    connection: Connection, mrn: str, own: str, since: int, reports: Collection[str], change_id: int
) -> Iterable[tuple[list[Row[Any]], Collection[str]]]:
    """Yield for each report the deliveries under a number, and the corrected destinations."""
    for report_id in sorted(reports):
        columns = (*DELIVERY.c, DELIVERY_BODY.c.payload)
        body = DELIVERY.outerjoin(DELIVERY_BODY, DELIVERY_BODY.c.delivery_id == _ROW.id)
        query = select(*columns).select_from(body).where(_ROW.report_id == report_id)
        rows = connection.execute(query.order_by(_ROW.id)).all()
        wrong = [
            row
            for row in rows
            if (_is_sent_since(row, since) or _is_written(row))
            and ResultEvent(row.event) in _TEXTS
            and not _is_correction(row, 0)
            and _names(row, mrn, own)
        ]
        corrected = {
            row.destination for row in rows if change_id and _is_correction(row, change_id)
        }
        yield wrong, corrected


def _is_sent_since(row: Row[Any], since: int) -> bool:
    return row.state == QueueState.DONE.value and (row.sent_at or row.settled_at or 0) >= since


def _is_written(row: Row[Any]) -> bool:
    """True if a message waits that will be sent as it was written."""
    return row.state in _WAITING and row.payload is not None


_WAITING: Final = frozenset({QueueState.QUEUED, QueueState.CLAIMED, QueueState.PARKED})


def _names(row: Row[Any], mrn: str, own: str) -> bool:
    """
    True if a message names the survivor's number and not only the patient's `own` one.

    A result that waits is written with the number that is right at that time.
    """
    message = b"" if row.payload is None else bytes(row.payload)
    if documents := sent_objects(message):
        return any(document.patient == mrn for document in documents)
    if _has_word(message, own):
        return _has_word(message, mrn)
    orders = json.loads(row.orders)["orders"]
    listed = any(str(order.get("PatientMRN", "")) == mrn for order in orders)
    return listed or _has_word(message, mrn)


def _has_word(message: bytes, number: str) -> bool:
    """True if a message has a number that is not a part of a longer one, such as a time."""
    return re.search(rb"(?<!\w)" + re.escape(number.encode()) + rb"(?!\w)", message) is not None


def _is_correction(row: Row[Any], change_id: int) -> bool:
    number = f"{change_id}-" if change_id else ""
    return str(row.release_key).startswith(f"{row.report_id}:merge-{number}")


@dataclass(frozen=True, slots=True)
class Corrections:
    """
    How many messages were queued, and to which destinations they are not complete.

    Those in `result_only` cannot withdraw a result, those in `nothing` get no message.
    """

    queued: int
    result_only: Sequence[str]
    nothing: Sequence[str]


def send_corrections(
    database: Database,
    connection: Connection,
    receivers: Receivers,
    change: UndoneChange,
    now: int,
) -> Corrections:
    """
    Queue corrections of the results of an undone merge.

    Repeated calls queue nothing twice. An order that has moved on gets none.
    """
    keys = {
        OrderKey(change.site, change.prior_mrn, accession): accession
        for accession in change.returned
    }
    orders = order_index.find(connection, keys)
    reports = {order.report_id: order for order in orders.values() if order.report_id}
    queued = 0
    found: defaultdict[Correction, set[str]] = defaultdict(set)
    for rows, _ in _sent(
        connection, change.mrn, change.prior_mrn, change.merged_at, reports, change.id
    ):
        for row in _last_of_each(rows):
            order = reports[row.report_id]
            former = change.returned[order.key.accession]
            both = _correction(row, order, change, former.demographics, former.echo)
            correction = _correction_of(row, receivers)
            found[correction].add(row.destination)
            sent = {Correction.BOTH: both, Correction.RESULT_ONLY: both[1:]}.get(correction, [])
            queued += send_following(database, connection, row.id, sent, now) if sent else 0
    incomplete = (sorted(found[one]) for one in (Correction.RESULT_ONLY, Correction.NOTHING))
    return Corrections(queued, *incomplete)


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
    withdrawal, result, _ = _events_of(row)
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
    return [
        FollowingDelivery(
            correction_key(
                row.report_id, change.id, order_part(row.release_key), withdraws=withdraws
            ),
            event.value,
            json.dumps(value),
        )
        for withdraws, event, value in ((True, withdrawal, wrong), (False, result, right))
    ]


def _with_patient(
    tags: Mapping[str, Any], demographics: Mapping[str, Any], mrn: str
) -> dict[str, Any]:
    others = {tag: value for tag, value in tags.items() if tag not in DEMOGRAPHICS}
    return {**others, **demographics, "PatientMRN": mrn}
