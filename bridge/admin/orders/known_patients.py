"""What is known of a patient under a number: the last correction, completed by the orders."""

from dataclasses import dataclass

from sqlalchemy import Connection

from bridge.orders.order import Patient
from bridge.orders.patients import IDENTIFYING
from bridge.store.records import order_index, patient_records


@dataclass(frozen=True, slots=True)
class KnownPatient:
    """A patient to be compared with others; '' is unknown."""

    mrn: str
    name: str
    birth_date: str
    sex: str


def known_patient(connection: Connection, patient: Patient) -> KnownPatient:
    """Return what is known under a number; of a merged one, as it was before the merge."""
    corrections = patient_records.demographics(connection, [patient])
    orders = order_index.find_by_patient(connection, [patient])
    orders.sort(key=lambda order: -order.last_message)
    known = [update.tags for update in corrections.values()]
    known += [order.tags for order in orders if not order.moved_away]
    values = (next((str(tags[tag]) for tags in known if tags.get(tag)), "") for tag in IDENTIFYING)
    return KnownPatient(patient[1], *values)
