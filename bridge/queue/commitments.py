"""
Storage commitment: the confirmations of a PACS that it keeps the objects of a delivery (PS3.4 J).

A request is stored before it is sent, so its answer finds it, also in another process and after a
crash. The delivery is done when the objects are stored; it does not wait for the answer, and later
results of its report do not wait either. An answer is stored as a further reply of the delivery.
If the PACS does not keep the objects, they are sent again, and after `MAX_FAILURES` answers of this
kind the result needs attention, as it does when no answer comes in time.

Blocking.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydicom.dataset import Dataset
from sqlalchemy import Connection, delete, func, insert, select, update

from bridge.queue import attempts
from bridge.queue.attempts import Attempt, AttemptKind
from bridge.queue.errors import IllegalTransition, NoSuchRow, StateChanged
from bridge.queue.operations import retry_delivery
from bridge.queue.statements import DELIVERY
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.records import exceptions
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.tables import STORAGE_COMMITMENTS

MAX_FAILURES: Final = 3
"""Answers that objects are not kept, after which they are not sent again."""
COMMITTED: Final = "committed"
"""The code of an answer that all objects are kept."""
NOT_COMMITTED: Final = "not_committed"
"""The code of an answer that objects are not kept, and of the exception after the last one."""
OUTSTANDING: Final = "commitment_outstanding"
"""The code of a result that the PACS has not confirmed in time."""
_BATCH: Final = 500

_COMMITMENT: Final = STORAGE_COMMITMENTS.c


class CommitmentState(StrEnum):
    WAITING = "waiting"
    COMMITTED = "committed"
    FAILED = "failed"
    REPEATED = "repeated"  # failed, and the delivery was queued again or needs attention
    OUTSTANDING = "outstanding"  # no answer in time


_UNANSWERED: Final = (CommitmentState.WAITING.value, CommitmentState.OUTSTANDING.value)


@dataclass(frozen=True, slots=True)
class CommitmentAnswer:
    """
    The answer of a PACS, an N-EVENT-REPORT: the instances that it keeps, and reasons of failures.

    `failed` has Failure Reason (0008,1197) by SOP Instance UID. `reply` is shown on the page of the
    delivery; it contains no patient data.
    """

    transaction: str
    kept: frozenset[str]
    failed: Mapping[str, int]
    reply: bytes


_REASONS: Final = {
    0x0110: "processing failure",
    0x0112: "no such object",
    0x0119: "another class",
    0x0122: "class not supported",
    0x0131: "transaction UID used before",
    0x0213: "out of resources",
}
"""Failure reasons of PS3.3 C.14."""

_SUCCESS: Final = 0x0000
_PROCESSING_FAILURE: Final = 0x0110
_NO_SUCH_TRANSACTION: Final = 0x0112


def read_answer(information: Dataset) -> CommitmentAnswer:
    """
    Read the Event Information of an N-EVENT-REPORT (PS3.4 J.3.3).

    Raises AttributeError, ValueError or TypeError if a required attribute is absent or wrong.
    """
    kept = [str(one.ReferencedSOPInstanceUID) for one in information.get(_KEPT) or []]
    failed = {
        str(one.ReferencedSOPInstanceUID): int(one.FailureReason)
        for one in information.get(_FAILED) or []
    }
    lines = [f"kept {uid}" for uid in kept]
    lines += [
        f"{reason:04X} {_REASONS.get(reason, 'not kept')}: {uid}" for uid, reason in failed.items()
    ]
    transaction = str(information.TransactionUID)
    return CommitmentAnswer(transaction, frozenset(kept), failed, "\n".join(lines).encode())


_KEPT: Final = "ReferencedSOPSequence"
_FAILED: Final = "FailedSOPSequence"


class Commitments:
    def __init__(self, database: Database, clock: Callable[[], int]) -> None:
        """`clock` is in milliseconds."""
        self._database = database
        self._clock = clock

    def begin(self, delivery_id: int, destination: str, instances: Sequence[str]) -> str:
        """
        Store a request for the instances of a delivery; return its transaction UID.

        It replaces earlier requests of the delivery that have no answer.
        """
        transaction = f"2.25.{uuid.uuid4().int}"
        values = {
            "transaction_uid": transaction,
            "delivery_id": delivery_id,
            "destination": destination,
            "instances": " ".join(instances),
            "state": CommitmentState.WAITING.value,
            "requested_at": self._clock(),
        }
        own = _COMMITMENT.delivery_id == delivery_id
        with self._database.write() as connection:
            connection.execute(
                delete(STORAGE_COMMITMENTS).where(own, _COMMITMENT.state.in_(_UNANSWERED))
            )
            connection.execute(insert(STORAGE_COMMITMENTS).values(values))
        return transaction

    def withdraw(self, transaction: str) -> None:
        """Delete a request that the PACS has refused."""
        with self._database.write() as connection:
            connection.execute(
                delete(STORAGE_COMMITMENTS).where(_COMMITMENT.transaction_uid == transaction)
            )

    def take(self, information: Dataset) -> int:
        """Store the Event Information of an N-EVENT-REPORT; return the status for the PACS."""
        try:
            is_known = self.record(read_answer(information))
        except (AttributeError, ValueError, TypeError, StoreError):
            return _PROCESSING_FAILURE
        return _SUCCESS if is_known else _NO_SUCH_TRANSACTION

    def record(self, answer: CommitmentAnswer) -> bool:
        """Store an answer; False if there is no such request. A repeated answer changes nothing."""
        now = self._clock()
        own = _COMMITMENT.transaction_uid == answer.transaction
        query = select(STORAGE_COMMITMENTS).where(own).with_for_update()
        with self._database.write() as connection:
            row = connection.execute(query).first()
            if row is None:
                return False
            if row.state not in _UNANSWERED:
                return True
            is_kept = not answer.failed and answer.kept.issuperset(row.instances.split())
            state = CommitmentState.COMMITTED if is_kept else CommitmentState.FAILED
            connection.execute(
                update(STORAGE_COMMITMENTS).where(own).values(state=state.value, answered_at=now)
            )
            reasons = sorted({f"{reason:04X}" for reason in answer.failed.values()})
            stored = Attempt(
                row.delivery_id,
                AttemptKind.REPLY,
                now,
                COMMITTED if is_kept else NOT_COMMITTED,
                " ".join(reasons),
                reply=answer.reply,
            )
            attempts.add(connection, [stored])
            if is_kept:
                kind = ExceptionSubject.DELIVERY
                exceptions.replace_all(connection, kind, [row.delivery_id], [], now)
        return True

    def repeat_failed(self, destination: str) -> int:
        """
        Queue deliveries again whose objects are not kept; return the number.

        A delivery that is being sent, or waits, is left for the next call.
        """
        repeated = 0
        with self._database.read() as connection:
            failed = connection.execute(
                select(_COMMITMENT.transaction_uid, _COMMITMENT.delivery_id, DELIVERY.c.state)
                .join_from(STORAGE_COMMITMENTS, DELIVERY, DELIVERY.c.id == _COMMITMENT.delivery_id)
                .where(_COMMITMENT.destination == destination)
                .where(_COMMITMENT.state == CommitmentState.FAILED.value)
                .where(DELIVERY.c.state == QueueState.DONE.value)
                .limit(_BATCH)
            ).all()
        for row in failed:
            repeated += self._repeat(row.transaction_uid, row.delivery_id)
        return repeated

    def _repeat(self, transaction: str, delivery_id: int) -> bool:
        with self._database.read() as connection:
            failures = _count_failures(connection, delivery_id)
        is_sent = failures < MAX_FAILURES
        if is_sent:
            try:
                retry_delivery(self._database, delivery_id, expected_state=QueueState.DONE)
            except (StateChanged, IllegalTransition, NoSuchRow):
                return False
        now, code = self._clock(), NOT_COMMITTED
        with self._database.write() as connection:
            connection.execute(
                update(STORAGE_COMMITMENTS)
                .where(_COMMITMENT.transaction_uid == transaction)
                .values(state=CommitmentState.REPEATED.value)
            )
            if not is_sent:
                exceptions.add(connection, ExceptionSubject.DELIVERY, [(delivery_id, code)], now)
        return is_sent

    def note_outstanding(self, destination: str, within: float) -> int:
        """Add exceptions for requests without an answer within this time (s); return the number."""
        now = self._clock()
        late = (
            _COMMITMENT.destination == destination,
            _COMMITMENT.state == CommitmentState.WAITING.value,
            _COMMITMENT.requested_at < now - round(within * 1000),
        )
        with self._database.write() as connection:
            ids = connection.scalars(
                update(STORAGE_COMMITMENTS)
                .where(*late)
                .values(state=CommitmentState.OUTSTANDING.value)
                .returning(_COMMITMENT.delivery_id)
            ).all()
            codes = [(delivery_id, OUTSTANDING) for delivery_id in ids]
            exceptions.add(connection, ExceptionSubject.DELIVERY, codes, now)
        return len(ids)


def forget(connection: Connection, delivery_ids: Sequence[int]) -> None:
    """Delete the requests of deliveries that are deleted."""
    if delivery_ids:
        own = _COMMITMENT.delivery_id.in_(delivery_ids)
        connection.execute(delete(STORAGE_COMMITMENTS).where(own))


def _count_failures(connection: Connection, delivery_id: int) -> int:
    failed = (CommitmentState.FAILED.value, CommitmentState.REPEATED.value)
    return (
        connection.scalar(
            select(func.count())
            .select_from(STORAGE_COMMITMENTS)
            .where(_COMMITMENT.delivery_id == delivery_id, _COMMITMENT.state.in_(failed))
        )
        or 0
    )
