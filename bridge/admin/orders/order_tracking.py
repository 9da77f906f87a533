"""
Order tracking: orders with their reports, and the timeline from received message to delivery.

Reads the order index and the outbox. Times in ms, None if unknown. The `kind` and `code` of a
timeline step are codes; the web app contains their texts. Blocking.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Select, and_, select

from bridge.admin.messages.message_content import DESCRIPTIONS, attempt_view
from bridge.admin.messages.message_index import spellings
from bridge.queue.attempts import AttemptKind, of_deliveries
from bridge.queue.deliveries import NOT_CONNECTED
from bridge.queue.listing_rows import DeliveryRow, MessageRow
from bridge.queue.queries import listed_delivery
from bridge.queue.statements import DELIVERY
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.records import order_index, patient_records
from bridge.store.tables import KNOWN_REPORTS, ORDERS
from mappings.hl7.refusals import AckCode

_LIMIT = 100
_ORDER, _KNOWN = ORDERS.c, KNOWN_REPORTS.c
_SELECT: Final[Select[Any]] = (
    select(
        *(_ORDER[name] for name in ("id", "site", "mrn", "accession", "state", "placer", "filler")),
        _ORDER.report_id.label("ordered_in"),
        _ORDER.first_message,
        _ORDER.last_message,
        _ORDER.state_changed_at.label("closed_at"),
        _KNOWN.report_id.label("seen_in"),
        *(_KNOWN[name] for name in ("status", "addenda", "changed_at")),
    )
    .join_from(
        ORDERS,
        KNOWN_REPORTS,
        and_(*(_KNOWN[name] == _ORDER[name] for name in ("site", "accession", "mrn"))),
        isouter=True,
    )
    .limit(_LIMIT)
)


_SHORTEST_BEGINNING = 3
_LAST = "z" * 20
"""Sorts behind digits and letters in each collation."""


def find_orders(
    database: Database, accessions: Collection[str], visible_sites: Collection[str] | None = None
) -> list[dict[str, Any]]:
    """
    Return the orders with one of these accessions; `report_id` is '' if there is no report.

    `visible_sites` limits the sites; None permits all.
    """
    with database.read() as connection:
        return [
            _order(row)
            for site in _sites(connection, visible_sites)
            for accession in sorted(accessions)
            for row in connection.execute(
                _SELECT.where(_ORDER.site == site, _ORDER.accession == accession)
            ).mappings()
        ]


def similar_accessions(
    database: Database, number: str, visible_sites: Collection[str] | None = None, limit: int = 10
) -> list[str]:
    """Return accessions that begin with a number of at least three characters, in any case."""
    beginnings = [text for text in spellings(number) if len(text) >= _SHORTEST_BEGINNING]
    with database.read() as connection:
        found = {
            accession
            for site in _sites(connection, visible_sites)
            for beginning in beginnings
            for accession in connection.scalars(
                select(_ORDER.accession)
                .where(_ORDER.site == site)
                .where(_ORDER.accession >= beginning, _ORDER.accession < beginning + _LAST)
                .distinct()
                .order_by(_ORDER.accession)
                .limit(limit)
            )
            if accession.startswith(beginning)
        }
    return sorted(found)[:limit]


def find_orders_of_patient(
    database: Database, mrn: str, visible_sites: Collection[str] | None = None
) -> list[dict[str, Any]]:
    """Return a patient's orders, last changed first; after a merge, also the survivor's."""
    with database.read() as connection:
        sites = _sites(connection, visible_sites)
        survivors = patient_records.survivors(connection, {(site, mrn) for site in sites})
        return [
            _order(row)
            for site in sites
            for patient in sorted({mrn, survivors.get((site, mrn), mrn)})
            for row in connection.execute(
                _SELECT.where(_ORDER.site == site, _ORDER.mrn == patient).order_by(
                    _ORDER.last_message.desc()
                )
            ).mappings()
        ]


def report_deliveries(database: Database, reports: Collection[str]) -> list[DeliveryRow]:
    """Return the deliveries of these reports, oldest first."""
    columns = [DELIVERY.c[name] for name in DeliveryRow.__slots__]
    statement = select(*columns).where(DELIVERY.c.report_id.in_(sorted(reports)))
    with database.read() as connection:
        rows = connection.execute(statement.order_by(DELIVERY.c.id).limit(_LIMIT)).mappings()
        return [listed_delivery(row) for row in rows]


def attempts_of(
    database: Database, deliveries: Iterable[DeliveryRow], *, with_texts: bool
) -> dict[int, list[dict[str, Any]]]:
    """Return the failed attempts and further replies of deliveries, by delivery id."""
    found = of_deliveries(database, [delivery.id for delivery in deliveries])
    return {
        number: [attempt_view(attempt, with_texts=with_texts) for attempt in stored]
        for number, stored in found.items()
    }


def _sites(connection: Connection, visible: Collection[str] | None) -> Sequence[str]:
    return order_index.sites(connection) if visible is None else sorted(visible)


def _order(row: Any) -> dict[str, Any]:
    order = dict(row)
    seen, ordered = order.pop("seen_in"), order.pop("ordered_in")
    return {**order, "report_id": seen or ordered or ""}


Orders = Sequence[Mapping[str, Any]]
_OPEN = frozenset({QueueState.QUEUED, QueueState.CLAIMED})


Attempts = Mapping[int, Sequence[Mapping[str, Any]]]
"""The attempts of deliveries, as `message_content.attempt_view` returns them."""


def message_timeline(
    row: MessageRow,
    orders: Orders,
    deliveries: Iterable[DeliveryRow],
    edits: Iterable[Mapping[str, Any]] = (),
    *,
    attempts: Attempts,
    refusal: str = "",
) -> list[dict[str, Any]]:
    """
    Return the steps of one message, in causal order: edits, the message, reports, deliveries.

    `refusal` is the text with which we refused the message.
    """
    return [
        *_edited_from(row, edits),
        *_message_steps(row, refusal),
        *_resent_as(row, edits),
        *_report_steps(orders),
        *(step for delivery in deliveries for step in delivery_steps(delivery, attempts)),
    ]


def _message_steps(row: MessageRow, refusal: str = "") -> Iterator[dict[str, Any]]:
    about = {"message": row.id}
    yield _step("received", row.received_at, name=row.listener, code=row.message_type, **about)
    acknowledgment = {"name": row.acknowledgment.value, "code": row.ack_code}
    yield _step("acknowledged", row.received_at, **acknowledgment, **about)
    if row.state is QueueState.REFUSED:
        at = row.settled_at or row.received_at
        yield _step("refused", at, code=row.ack_code, text=_refusal(row, refusal), **about)
        return
    yield _step(row.state.value, row.settled_at, code=row.code, count=row.attempts, **about)


def _refusal(row: MessageRow, text: str) -> str:
    """Return why we refused a message: code, place and text."""
    description = DESCRIPTIONS.get(row.error_code, "")
    named = f"{row.error_code} {description}".strip() or row.code
    place = f" at {row.error_place}" if row.error_place else ""
    return f"{named}{place}" + (f": {text}" if text and text != description else "")


def _edited_from(row: MessageRow, edits: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for edit in edits:
        if edit["message_id"] == row.id:
            yield _step("edited", edit["at"], name=edit["email"], message=edit["origin_id"])


def _resent_as(row: MessageRow, edits: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for edit in edits:
        if edit["origin_id"] == row.id:
            yield _step("sent_again", edit["at"], name=edit["email"], message=edit["message_id"])


def _report_steps(orders: Orders) -> Iterator[dict[str, Any]]:
    reports = {order["report_id"]: order for order in orders if order["report_id"]}
    for report, state in reports.items():
        yield _step("report", state["changed_at"], name=report, code=state["status"] or "")


def delivery_steps(row: DeliveryRow, attempts: Attempts) -> Iterator[dict[str, Any]]:
    """Yield the steps of a delivery: each failed attempt, and how it ended or goes on."""
    about = {"name": row.destination, "delivery": row.id}
    yield _step("composed", row.created_at, code=row.event, **about)
    stored = attempts.get(row.id, ())
    failed = [attempt for attempt in stored if attempt["kind"] == AttemptKind.ATTEMPT.value]
    for attempt in failed:
        yield _step(
            "attempt",
            attempt["at"],
            code=attempt["code"],
            text=attempt["reason"],
            retry_at=attempt["retry_at"],
            **about,
        )
    if row.acknowledged_at is not None:
        yield _step("sent", row.sent_at, count=row.attempts, **about)
        yield _step("accepted", row.acknowledged_at, **about)
    elif row.state not in _OPEN:
        yield _step(row.state.value, row.settled_at, code=row.code, text=row.detail, **about)
    for attempt in stored:
        if attempt not in failed:
            kind = "further_reply" if attempt["code"] in _POSITIVE else "refused_later"
            yield _step(kind, attempt["at"], code=attempt["code"], text=attempt["reason"], **about)
    if row.state in _OPEN:
        yield _pending_step(row, about, was_tried=bool(failed) or row.sent_at is not None)


_POSITIVE = frozenset({AckCode.ACCEPT.value, AckCode.COMMIT_ACCEPT.value})


def _pending_step(row: DeliveryRow, about: dict[str, Any], *, was_tried: bool) -> dict[str, Any]:
    """Return what comes next for a delivery that is not finished."""
    if row.state is QueueState.CLAIMED:
        return _step("sending", row.sent_at, count=row.attempts, **about)
    if row.code == NOT_CONNECTED:
        return _step("no_connection", row.settled_at, text=row.detail, **about)
    kind = "next_attempt" if was_tried else "waiting"
    return _step(kind, row.not_before or None, retry_at=row.not_before or None, **about)


def _step(kind: str, at: int | None, **about: Any) -> dict[str, Any]:
    step = {"kind": kind, "at": at, "name": "", "code": "", "text": "", "count": 0}
    return {**step, "delivery": None, "message": None, "retry_at": None, **about}
