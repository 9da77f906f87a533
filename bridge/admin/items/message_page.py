"""
The page of one message: its row, timeline, edits and orders; its content; its neighbours.

`message_content` contains patient data: show it to users who may read content only, and do not log
it. The rest contains none but accession numbers, which are left out without the permission `find`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from bridge.admin.access.permissions import Permission
from bridge.admin.items.message_patients import MessagePatient
from bridge.admin.lists.listing import Access
from bridge.admin.lists.row_json import as_json
from bridge.admin.messages.message_content import edits_of
from bridge.admin.messages.message_index import read_numbers
from bridge.admin.messages.message_tree import content_of
from bridge.admin.orders import order_tracking, steps
from bridge.admin.orders.page import report_changes
from bridge.queue.listing_rows import DeliveryRow, MessageDetail
from bridge.queue.states import TRANSITIONS, QueueEvent, QueueState
from bridge.store.database import Database
from bridge.store.records import patient_records
from bridge.store.records.report_events import STATUS_SEEN, ReportEventRow
from mappings.inbound.definition import Subjects
from parsers.dicom_file import is_dicom

_MAX_REPORTS: Final = 20
Orders = Sequence[Mapping[str, Any]]
"""Orders, as `order_tracking.find_orders` returns them."""
_ACTIONS: Final = {"replay": QueueEvent.REPLAYED, "cancel": QueueEvent.CANCELLED}


def message_page(
    database: Database, detail: MessageDetail, subjects: Subjects, access: Access
) -> dict[str, Any]:
    """
    Return `row`, `timeline`, `edits`, `orders` and `may` of a message.

    `orders` are those that the message is about; `may` are the actions that its state and the
    user's permissions allow now. The caller has checked that the user may see the message.
    """
    row = detail.row
    orders = _orders(database, detail, subjects, access)
    edits = edits_of(database, row.id)
    deliveries, attempts = _deliveries(database, orders, access)
    timeline = steps.in_order(
        [
            *steps.message_steps([row], {row.id: edits}),
            *steps.copy_steps("message", row.id, edits),
            *steps.report_steps(_report_events(database, orders)),
            *steps.delivery_steps(deliveries, attempts),
        ]
    )
    return {
        "row": as_json([row])[0],
        "timeline": [asdict(step) for step in timeline],
        "edits": edits,
        "orders": orders_json(orders, access),
        "may": _may(detail, access),
    }


def _deliveries(
    database: Database, orders: Orders, access: Access
) -> tuple[Sequence[DeliveryRow], steps.Attempts]:
    """Return the deliveries of the reports of orders, with their attempts."""
    found = order_tracking.report_deliveries(database, _reports(orders))
    reads = Permission.BODIES in access.permissions
    return found, order_tracking.attempts_of(database, found, with_texts=reads)


def _report_events(database: Database, orders: Orders) -> list[ReportEventRow]:
    """Return the changes of the reports of orders, else their last known states."""
    events: list[ReportEventRow] = []
    for report_id in sorted(_reports(orders))[:_MAX_REPORTS]:
        with database.read() as connection:
            stored = report_changes(connection, report_id)
        events += stored
        if not stored:
            order = next(order for order in orders if order["report_id"] == report_id)
            if order["status"] and order["changed_at"] is not None:
                last = (order["site"], report_id, order["changed_at"], STATUS_SEEN, order["status"])
                events.append(ReportEventRow(*last))
    return events


def _reports(orders: Orders) -> set[str]:
    return {order["report_id"] for order in orders} - {""}


def message_content(
    detail: MessageDetail, charset: str, patients: Sequence[MessagePatient]
) -> dict[str, Any]:
    """
    Return text, tree, acknowledgment, patients, calls and notes of a message.

    `charset` is the codec of its listener, for a message without MSH-18. `calls` are those to the
    report engine, with what it answered; `notes` are codes of what happened. The acknowledgment of
    a DICOM message is its status.
    """
    status = f"Status {detail.row.ack_code}".encode()
    reply = status if is_dicom(detail.payload) else detail.ack
    return {
        **content_of(detail.payload, charset, reply),
        "patients": [asdict(patient) for patient in patients],
        "calls": [call._asdict() for call in detail.notes.calls],
        "notes": list(detail.notes.codes),
        "damaged": detail.is_damaged,
    }


def orders_json(orders: Sequence[Mapping[str, Any]], access: Access) -> list[dict[str, Any]]:
    """Return orders for links: `id`, `site`, `report_id`, and `accession` if the user may find."""
    names = ["id", "site", "report_id"]
    names += ["accession"] if Permission.FIND in access.permissions else []
    return [{name: order[name] for name in names} for order in orders]


def permitted(
    actions: Mapping[str, QueueEvent], state: QueueState, access: Access
) -> Collection[str]:
    """Return the actions that a state and the permission to operate allow."""
    if Permission.OPERATE not in access.permissions:
        return []
    return [name for name, event in actions.items() if (state, event) in TRANSITIONS]


def may_edit(access: Access) -> bool:
    return {Permission.EDIT, Permission.BODIES} <= access.permissions


def _may(detail: MessageDetail, access: Access) -> list[str]:
    found = [*permitted(_ACTIONS, detail.row.state, access)]
    is_editable = not (detail.is_damaged or is_dicom(detail.payload))
    found += ["edit"] if may_edit(access) and is_editable else []
    return [*found, *(["content"] if Permission.BODIES in access.permissions else [])]


def _orders(
    database: Database, detail: MessageDetail, subjects: Subjects, access: Access
) -> list[dict[str, Any]]:
    numbers = read_numbers(detail.payload).with_subjects(subjects)
    found = order_tracking.find_orders(database, numbers.order, access.sites)
    # A merge gives the orders of a number to its survivor; the message still names the number.
    named = [(order["site"], mrn) for order in found for mrn in numbers.patient]
    with database.read() as connection:
        survivors = patient_records.survivors(connection, named)
    owners = {*named, *((site, mrn) for (site, _), mrn in survivors.items())}
    return [order for order in found if (order["site"], order["mrn"]) in owners]
