"""
The patients that a message concerns, side by side: what it says of them, and what is known.

Contains patient data: show it to users who may read content only, and do not log it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from bridge.admin.messages.message_index import origin_of
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.admin.orders.known_patients import KnownPatient, known_patient
from bridge.orders.order import Patient, key_of
from bridge.orders.patients import IDENTIFYING
from bridge.queue.listing_rows import MessageDetail
from bridge.store.database import Database
from bridge.store.records import order_index, patient_records
from mappings.inbound.events import OrderEvent
from parsers.dicom_file import is_dicom

MOST_PATIENTS: Final = 10


@dataclass(frozen=True, slots=True)
class MessagePatient:
    """
    A patient of a message.

    `said` is what the message says, None if it names the number only, or not at all. `merged_into`
    is the survivor of a merged number, else ''. `orders` counts the known orders under the number.
    """

    site: str
    said: KnownPatient | None
    known: KnownPatient
    merged_into: str
    orders: int


def message_patients(
    database: Database, subjects: MessageSubjects, detail: MessageDetail
) -> list[MessagePatient]:
    """
    Return the patients whom a message names, their survivors, and those who have its orders.

    Those of the first groups of a large message; none of one that cannot be read.
    """
    if is_dicom(detail.payload):
        return []
    _, events = subjects.read(origin_of(detail))
    named = dict.fromkeys(
        (event.site, mrn) for event in events for mrn in (event.mrn, event.prior_mrn) if mrn
    )
    said = {(event.site, event.mrn): _said(event) for event in reversed(events)}
    with database.read() as connection:
        first = list(named)[:MOST_PATIENTS]
        survivors = patient_records.survivors(connection, first)
        others = [(site, mrn) for (site, _), mrn in survivors.items()]
        found = dict.fromkeys([*first, *others, *_owners(connection, events)])
        return [
            MessagePatient(
                patient[0],
                said.get(patient),
                known_patient(connection, patient),
                survivors.get(patient, ""),
                len(order_index.find_by_patient(connection, [patient])),
            )
            for patient in list(found)[:MOST_PATIENTS]
        ]


def _said(event: OrderEvent) -> KnownPatient:
    values = (str(event.clinical_info.get(tag) or "") for tag in IDENTIFYING)
    return KnownPatient(event.mrn, *values)


def _owners(connection: Connection, events: Sequence[OrderEvent]) -> list[Patient]:
    """Return the other patients who have an order with the numbers of one in the message."""
    wanted = {
        key_of(event): {event.placer, event.filler} - {""} for event in events if event.accession
    }
    _, others = order_index.find_with_others(connection, wanted)
    return sorted({order.patient for order in others if not order.moved_away})
