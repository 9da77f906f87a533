"""Check of a message's patients before it is acknowledged.

* A merge that closes a circle is refused with AE 205.
* If the listener does not redirect, a message that names a merged identifier gets AE 204.
* A message with the numbers of several known patients in PID-3 is refused with AE 205.
* If the listener refuses conflicts, a message with another patient for a known order gets AE 204.

The check knows only messages that are applied. The rules are checked again when the message itself
is applied: a message that contradicts a merge that was still queued, or that was accepted while the
database could not be read, is parked then. Reads the database: call it on a thread.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import Connection

from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.intake.receive.verdict import Router
from bridge.orders.addressing import (
    names_merged_patient,
    numbers_by_order,
    orders_of_others,
    patients_in_identifiers,
    redirected_to_survivor,
    with_number,
)
from bridge.orders.order import Patient, Survivors
from bridge.orders.patients import MergedIdentity, is_of_other_person, survivor_tags
from bridge.orders.rules import ADDRESSED_ACTIONS, CREATING_ACTIONS
from bridge.redaction import describe
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.records import order_index, patient_records
from config.listeners import Acknowledge, MergedPatients, PatientConflict
from mappings.hl7.header import peek
from mappings.hl7.refusals import DuplicateKeyIdentifier, MessageRefusal, UnknownKeyIdentifier
from mappings.inbound.events import OrderAction, OrderEvent
from mappings.language.diagnostics import Issue
from mappings.language.scope import ListenerDefaults

_MERGES = b"\rMRG", b"\nMRG"  # other text can contain MRG, such as 4MRGN
_CHANGE = re.compile(rb"[\r\n]ORC[^\r\n](?!NW)")
_PATIENTS = b"\rPID", b"\nPID"
_PATIENT_BYTES = 4096  # of PID, which are searched for identifiers
_IDENTIFIERS = 3  # PID-3
_SLICE_BYTES = 256 * 2**10  # bytes that are searched at once, in about 50 µs
_PAUSE_SECONDS = 0.0002  # seconds between two slices, so that other threads get the GIL


class PatientCheck:
    """Checks the patients of one listener's messages (a `MessageCheck`)."""

    def __init__(self, policy: ListenerPolicy, database: Database) -> None:
        """Messages are read with the policy's definitions."""
        self._log = structlog.get_logger("intake").bind(listener=policy.name)
        self._database = database
        self.use(policy)

    def use(self, policy: ListenerPolicy) -> None:
        """Use another policy from now on."""
        self._policy = policy
        self._router = Router(policy)
        self._refuses = policy.merged is MergedPatients.REFUSE
        self._refuses_conflicts = policy.patient_conflict is PatientConflict.REFUSE
        self._latest = (b"", self._refuses)

    def applies_to(self, payload: bytes) -> bool:
        """True if the database must be read for a message."""
        latest, answer = self._latest  # called twice in a row for each message
        if latest is not payload:
            answer = self._refuses or _has_merge(payload) or _has_several_numbers(payload)
            answer |= self._refuses_conflicts and _has_change(payload)
            self._latest = payload, answer
        return answer

    def issues(self, payload: bytes) -> tuple[Issue, ...]:
        """Return the issues of a message. Blocks if the database must be read."""
        if not self.applies_to(payload):
            return ()
        try:
            events = self._events(payload)
        except Exception:  # noqa: BLE001  # the evaluation maps the message, too, and refuses it
            return ()
        try:
            found = self._refusals(events)
        except StoreError as error:  # the message is parked when it is applied
            self._log.warning(
                "patients not checked before the acknowledgment", error=describe(error)
            )
            return ()
        return tuple(Issue(e.place, e.error_code.value, e.text, refusal=e) for e in found)

    def _refusals(self, events: Sequence[OrderEvent]) -> list[MessageRefusal]:
        patients = {(event.site, mrn) for event in events for mrn in (event.mrn, *event.other_mrns)}
        with self._database.read() as connection:
            survivors, moves = patient_records.find_merges_and_transfers(connection, patients)
            if names_several_patients(connection, events, survivors):
                return [DuplicateKeyIdentifier("PID-3")]
            if (
                self._refuses_conflicts
                and not moves
                and self._has_conflict(
                    connection,
                    [redirected_to_survivor(order_event, survivors) for order_event in events],
                )
            ):
                return [UnknownKeyIdentifier("PID-3")]
        if not survivors:
            return []
        if self._refuses and names_merged_patient(events, survivors):
            return [UnknownKeyIdentifier("PID-3")]
        return [DuplicateKeyIdentifier("MRG-1")] if _closes_circle(events, survivors) else []

    def _has_conflict(self, connection: Connection, events: Sequence[OrderEvent]) -> bool:
        changes = [
            event for event in events if event.action in ADDRESSED_ACTIONS - CREATING_ACTIONS
        ]
        index, others = order_index.find_with_others(connection, numbers_by_order(changes))
        return any(orders_of_others(change, index, others) for change in changes)

    def _events(self, payload: bytes) -> Sequence[OrderEvent]:
        header, policy = peek(payload), self._policy
        defaults = ListenerDefaults(policy.site, policy.time_zone, datetime.now(UTC))
        return policy.read(self._router.route(header), payload, defaults)


def _has_merge(payload: bytes) -> bool:
    """Search for a segment MRG in slices, with pauses between them."""
    if len(payload) <= _SLICE_BYTES:
        return any(merge in payload for merge in _MERGES)
    for end in range(_SLICE_BYTES, len(payload) + _SLICE_BYTES, _SLICE_BYTES):
        start = max(0, end - _SLICE_BYTES - len(_MERGES[0]) + 1)
        if any(payload.find(merge, start, end) >= 0 for merge in _MERGES):
            return True
        time.sleep(_PAUSE_SECONDS)  # large messages are evaluated on a thread
    return False


def _has_several_numbers(payload: bytes) -> bool:
    """
    True if PID-3 has two numbers of one type and authority. Only such messages are looked up.

    Numbers without type need an authority. Other segment names or separators are read when the
    message is applied.
    """
    begin = max(payload.find(name, 0, _SLICE_BYTES) for name in _PATIENTS)
    if begin < 0 or not payload.startswith(b"MSH"):
        return False
    separator, component, repetition = payload[3:4], payload[4:5], payload[5:6]
    fields = payload[begin + 1 : begin + _PATIENT_BYTES].split(separator, 4)
    if len(fields) <= _IDENTIFIERS or repetition not in fields[_IDENTIFIERS]:
        return False
    authorities: dict[bytes, tuple[bytes, bytes]] = {}
    for identifier in fields[_IDENTIFIERS].split(repetition):
        number, _, _, authority, kind, *_ = [*identifier.split(component), *[b""] * 5]
        kind = kind.strip() or authority
        first, known = authorities.setdefault(kind, (number, authority))
        if kind and number != first and (not authority or not known or authority == known):
            return True
    return False


def _has_change(payload: bytes) -> bool:
    """True if a message has an ORC that is not NW, or is large."""
    return len(payload) > _SLICE_BYTES or _CHANGE.search(payload) is not None


def _closes_circle(events: Iterable[OrderEvent], survivors: Survivors) -> bool:
    return any(
        event.action is OrderAction.PATIENT_MERGE
        and survivors.get((event.site, event.mrn)) == event.prior_mrn
        for event in events
    )


def merged_patient_check(policy: ListenerPolicy, database: Database) -> PatientCheck | None:
    """Return the check for merged patients; None if the listener only stores."""
    checks = policy.acknowledge is not Acknowledge.STORED
    return PatientCheck(policy, database) if checks else None


def names_several_patients(
    connection: Connection, events: Sequence[OrderEvent], survivors: Mapping[Patient, str]
) -> bool:
    """True if PID-3 of an event has the numbers of several patients."""
    return any(
        identified_event(connection, event, survivors) is None
        for event in events
        if event.other_mrns
    )


def identified_event(
    connection: Connection, event: OrderEvent, survivors: Mapping[Patient, str]
) -> OrderEvent | None:
    """
    Return an event with the number of its known patient; None if it names several patients.

    The first number in PID-3 may be new. It is the known patient's if name, date of birth and sex
    do not contradict that. An undone merge is about each of its numbers.
    """
    if event.action is OrderAction.PATIENT_UNMERGE:
        return event
    patients = patients_in_identifiers(event, survivors)
    known = patient_records.known_patients(connection, patients) if patients else set()
    if len(known) > 1:
        return None
    own = (event.site, survivors.get((event.site, event.mrn), event.mrn))
    if not known or own in known:
        return event
    (patient,) = known
    if is_of_other_person(event, MergedIdentity(_known_tags(connection, patient))):
        return None
    return with_number(event, patient[1])


def _known_tags(connection: Connection, patient: Patient) -> Sequence[Mapping[str, Any]]:
    """Read what is known of a patient: the last correction, and else the orders."""
    demographics = patient_records.demographics(connection, [patient])
    tags = demographics[patient].tags if patient in demographics else {}
    orders = order_index.find_by_patient(connection, [patient])
    return survivor_tags(tags, {}, [order.tags for order in orders if not order.moved_away])
