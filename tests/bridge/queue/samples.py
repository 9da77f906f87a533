"""Sample arrivals and deliveries. Their content is invented and short."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from sqlalchemy import text

from bridge import index_key
from bridge.queue import arrivals, queries
from bridge.queue.arrivals import Arrival
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.deliveries import DeliveryRequest
from bridge.queue.digests import digest
from bridge.queue.inbox import Inbox
from bridge.queue.log_tables import pull_new
from bridge.queue.states import QueueEvent, QueueState
from bridge.store.database import Database
from tests.bridge.queue.conftest import Intake

NOW = 1_700_000_000_000
"""A point in time, ms."""

_numbers = count(1)

index_key.install(bytes(range(index_key.KEY_BYTES)))  # for processes that import this module


def arrival(
    control_id: str | None = None,
    *,
    patient: str | tuple[str, ...] = "1001",
    content: str = "",
    **changes: Any,
) -> Arrival:
    """Return an order of a patient, or a merge of two, with a unique control id."""
    name = control_id or f"C{next(_numbers)}"
    payload = f"MSH|^~\\&|RIS|{name}\rPID|{patient}|{content}".encode()
    patients = (patient,) if isinstance(patient, str) else patient
    values: dict[str, Any] = {
        "listener": "ris-orders",
        "identity": arrivals.sequential64(b"ris-orders", b"RIS", b"NORTH", name.encode()),
        "digest": digest(payload),
        "payload": payload,
        "lanes": tuple(arrivals.lane("SITE1", item) for item in patients),
        "message_type": "ORM^O01",
        "mapping": "orders",
        "mapping_version": "0123456789abcdef",
        "ack": f"MSH|^~\\&|ACK\rMSA|AA|{name}".encode(),
        "ack_code": "AA",
        "state": QueueState.QUEUED,
        "received_at": NOW,
    }
    return Arrival(**{**values, **changes})


def refused(control_id: str | None = None, **changes: Any) -> Arrival:
    values: dict[str, Any] = {
        "ack": b"MSH|^~\\&|ACK\rMSA|AE|",
        "ack_code": "AE",
        "state": QueueState.REFUSED,
        "lanes": (),
        "error_code": "101",
        "error_place": "PID-3.1",
    }
    return arrival(control_id, **{**values, **changes})


def release(
    key: str | None = None, *, report: str = "R1", destination: str = "ris-results"
) -> DeliveryRequest:
    return DeliveryRequest(
        destination=destination,
        report_id=report,
        release_key=key or f"K{next(_numbers)}",
        event="final",
        release_at=NOW,
        orders=[{"Accession": "A1"}],
    )


def ids_of(claimed: Sequence[ClaimedMessage]) -> list[int]:
    return [message.message_id for message in claimed]


def enqueue(intake: Intake, *patients: str | tuple[str, ...]) -> list[int]:
    receipts = intake.enqueue(*(arrival(patient=patient) for patient in patients))
    return [receipt.message_id for receipt in receipts]


def settle_all(inbox: Inbox, *message_ids: int) -> None:
    """Settle claimed messages as applied."""
    inbox.settle(
        [MessageOutcome(identifier, QueueEvent.ACCEPTED) for identifier in message_ids], NOW
    )


def state_of(store: Database, message_id: int) -> QueueState:
    return queries.message(store, message_id).row.state


def count_of(store: Database) -> int:
    pull_new(store)
    with store.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM message")).scalar_one())
