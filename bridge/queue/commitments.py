"""
Storage commitment: the confirmations of a PACS that it keeps the objects of a delivery (PS3.4 J).

A request is stored before it is sent, so its answer finds it, also in another process and after a
crash. The delivery is done when the objects are stored; it does not wait for the answer, and later
results of its report do not wait either. An answer is stored as a further reply of the delivery.

A request that is refused, or that has no answer in time, is made again with a new transaction UID;
no object is sent again. After `MAX_REQUESTS` the result needs attention. An answer to an earlier
request still counts. Objects that the PACS does not keep are sent again, the others are not; after
`MAX_FAILURES` answers of this kind the result needs attention.

Blocking.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import SystemRandom
from typing import Any, Final

from pydicom.dataset import Dataset
from sqlalchemy import Connection, Row, delete, func, insert, select, update

from bridge.queue import attempts
from bridge.queue.attempts import Attempt, AttemptKind
from bridge.queue.errors import IllegalTransition, NoSuchRow, StateChanged
from bridge.queue.operations import retry_delivery
from bridge.queue.statements import DELIVERY, DELIVERY_BODY
from bridge.queue.states import QueueState, RetryPolicy
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.records import exceptions
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.tables import STORAGE_COMMITMENTS

MAX_REQUESTS: Final = 20
"""Requests for the same objects, after which no other is made."""
MAX_FAILURES: Final = 3
"""Answers that objects are not kept, after which they are not sent again."""
COMMITTED: Final = "committed"
"""The code of an answer that all objects are kept."""
NOT_COMMITTED: Final = "not_committed"
"""The code of an answer that objects are not kept, and of the exception after the last one."""
OUTSTANDING: Final = "commitment_outstanding"
"""The code of a result that the PACS has not confirmed in time."""
REFUSED: Final = "commitment_refused"
"""The code of a refused request, and of the exception after the last one."""
_BATCH: Final = 500
_RANDOM: Final = SystemRandom()

_COMMITMENT: Final = STORAGE_COMMITMENTS.c


class CommitmentState(StrEnum):
    WAITING = "waiting"
    REFUSED = "refused"  # the PACS did not take the request
    OUTSTANDING = "outstanding"  # no answer to the last request
    REPLACED = "replaced"  # a later request is for the same objects
    COMMITTED = "committed"
    FAILED = "failed"  # `instances` are those that are not kept
    REPEATED = "repeated"  # failed, and the delivery was queued again
    RESENT = "resent"  # failed, and the objects were stored and asked for again
    GIVEN_UP = "given_up"  # failed, and the result needs attention


_UNANSWERED: Final = tuple(
    state.value
    for state in (CommitmentState.WAITING, CommitmentState.REFUSED, CommitmentState.OUTSTANDING)
)
"""The states of the latest request of a delivery before its answer."""
_NOT_KEPT: Final = (CommitmentState.FAILED.value, CommitmentState.REPEATED.value)
"""The states of a request whose objects are to be sent again."""
_FAILURES: Final = (*_NOT_KEPT, CommitmentState.RESENT.value, CommitmentState.GIVEN_UP.value)
"""The states of requests for objects that were not kept."""


@dataclass(frozen=True, slots=True)
class CommitmentRequest:
    """A stored request of a delivery; `instances` are SOP Instance UIDs."""

    transaction: str
    delivery_id: int
    instances: frozenset[str]


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
        Store a request for the instances of a delivery that were sent; return its transaction UID.

        It replaces earlier requests of the delivery.
        """
        own = _COMMITMENT.delivery_id == delivery_id
        with self._database.write() as connection:
            for before, after in (
                (_UNANSWERED, CommitmentState.REPLACED),
                (_NOT_KEPT, CommitmentState.RESENT),
            ):
                connection.execute(
                    update(STORAGE_COMMITMENTS)
                    .where(own, _COMMITMENT.state.in_(before))
                    .values(state=after.value)
                )
            return self._insert(connection, delivery_id, destination, " ".join(instances), 1)

    def _insert(
        self,
        connection: Connection,
        delivery_id: int,
        destination: str,
        instances: str,
        requests: int,
    ) -> str:
        transaction = f"2.25.{uuid.uuid4().int}"
        values = {
            "transaction_uid": transaction,
            "delivery_id": delivery_id,
            "destination": destination,
            "instances": instances,
            "state": CommitmentState.WAITING.value,
            "requested_at": self._clock(),
            "requests": requests,
        }
        connection.execute(insert(STORAGE_COMMITMENTS).values(values))
        return transaction

    def refuse(self, transaction: str, status: int | None = None, reply: bytes = b"") -> None:
        """
        Note that the PACS refused a request, which is then made again.

        `status` and `reply` are stored as a further reply of the delivery, if they are given.
        """
        own = _COMMITMENT.transaction_uid == transaction
        is_waiting = _COMMITMENT.state == CommitmentState.WAITING.value
        with self._database.write() as connection:
            delivery_id = connection.scalar(
                update(STORAGE_COMMITMENTS)
                .where(own, is_waiting)
                .values(state=CommitmentState.REFUSED.value)
                .returning(_COMMITMENT.delivery_id)
            )
            if delivery_id is not None and status is not None:
                stored = Attempt(
                    delivery_id,
                    AttemptKind.REPLY,
                    self._clock(),
                    REFUSED,
                    f"{status:04X}",
                    reply=reply,
                )
                attempts.add(connection, [stored])

    def not_kept(self, delivery_id: int) -> frozenset[str]:
        """
        Return the instances of a delivery that are to be sent again because they are not kept.

        Empty: nothing is known, so all are sent.
        """
        with self._database.read() as connection:
            found = connection.scalar(
                select(_COMMITMENT.instances)
                .where(_COMMITMENT.delivery_id == delivery_id)
                .where(_COMMITMENT.state.in_(_NOT_KEPT))
            )
        return frozenset((found or "").split())

    def payload(self, delivery_id: int) -> bytes:
        """Return the stored objects of a delivery; empty if they are deleted."""
        query = select(DELIVERY_BODY.c.payload).where(DELIVERY_BODY.c.delivery_id == delivery_id)
        with self._database.read() as connection:
            return bytes(connection.scalar(query) or b"")

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
            if row.answered_at is not None:
                return True
            missing = [
                instance
                for instance in row.instances.split()
                if instance in answer.failed or instance not in answer.kept
            ]
            connection.execute(update(STORAGE_COMMITMENTS).where(own).values(answered_at=now))
            reasons = sorted({f"{reason:04X}" for reason in answer.failed.values()})
            stored = Attempt(
                row.delivery_id,
                AttemptKind.REPLY,
                now,
                NOT_COMMITTED if missing else COMMITTED,
                " ".join(reasons),
                reply=answer.reply,
            )
            attempts.add(connection, [stored])
            self._settle(connection, row.delivery_id, answer, missing)
        return True

    def _settle(
        self,
        connection: Connection,
        delivery_id: int,
        answer: CommitmentAnswer,
        missing: Sequence[str],
    ) -> None:
        """Apply an answer to the latest request, which may be a later one for the same objects."""
        own = (_COMMITMENT.delivery_id == delivery_id, _COMMITMENT.state.in_(_UNANSWERED))
        latest = connection.execute(
            select(STORAGE_COMMITMENTS).where(*own).with_for_update()
        ).first()
        if latest is None:
            return
        now = self._clock()
        change = update(STORAGE_COMMITMENTS).where(
            _COMMITMENT.transaction_uid == latest.transaction_uid
        )
        asked = latest.instances.split()
        if not_kept := [instance for instance in asked if instance in missing]:
            connection.execute(
                change.values(
                    state=CommitmentState.FAILED.value,
                    instances=" ".join(not_kept),
                    answered_at=now,
                )
            )
        elif answer.kept.issuperset(asked):
            connection.execute(
                change.values(state=CommitmentState.COMMITTED.value, answered_at=now)
            )
            kind = ExceptionSubject.DELIVERY
            exceptions.replace_all(connection, kind, [delivery_id], [], now)

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
        state = CommitmentState.REPEATED if is_sent else CommitmentState.GIVEN_UP
        with self._database.write() as connection:
            changed = connection.execute(
                update(STORAGE_COMMITMENTS)
                .where(_COMMITMENT.transaction_uid == transaction)
                .where(_COMMITMENT.state == CommitmentState.FAILED.value)
                .values(state=state.value)
            )
            if changed.rowcount and not is_sent:
                exceptions.add(
                    connection,
                    ExceptionSubject.DELIVERY,
                    [(delivery_id, NOT_COMMITTED)],
                    self._clock(),
                )
        return is_sent

    def repeat_requests(
        self, destination: str, within: float, retry: RetryPolicy
    ) -> list[CommitmentRequest]:
        """
        Store requests in place of those that were refused or have no answer; return them.

        The first answer may take `within` (s). Later requests follow after the intervals of
        `retry`; after the last one the result needs attention. On several nodes each request is
        returned once.
        """
        renewed: list[CommitmentRequest] = []
        late = [row for row in self._candidates(destination, within) if self._is_due(row, retry)]
        for row in late:
            is_last = row.requests >= MAX_REQUESTS
            state = CommitmentState.OUTSTANDING if is_last else CommitmentState.REPLACED
            with self._database.write() as connection:
                changed = connection.execute(
                    update(STORAGE_COMMITMENTS)
                    .where(_COMMITMENT.transaction_uid == row.transaction_uid)
                    .where(_COMMITMENT.state == row.state)
                    .values(state=state.value)
                )
                if not changed.rowcount:
                    continue
                if is_last:
                    code = REFUSED if row.state == CommitmentState.REFUSED else OUTSTANDING
                    kind = ExceptionSubject.DELIVERY
                    exceptions.add(connection, kind, [(row.delivery_id, code)], self._clock())
                    continue
                transaction = self._insert(
                    connection, row.delivery_id, destination, row.instances, row.requests + 1
                )
            instances = frozenset(row.instances.split())
            renewed.append(CommitmentRequest(transaction, row.delivery_id, instances))
        return renewed

    def _candidates(self, destination: str, within: float) -> Sequence[Row[Any]]:
        """Return requests without an answer, but the first ones only after `within` (s)."""
        is_refused = _COMMITMENT.state == CommitmentState.REFUSED.value
        is_waiting = _COMMITMENT.state == CommitmentState.WAITING.value
        is_late = _COMMITMENT.requested_at < self._clock() - round(within * 1000)
        query = (
            select(STORAGE_COMMITMENTS)
            .where(_COMMITMENT.destination == destination)
            .where(is_refused | (is_waiting & ((_COMMITMENT.requests > 1) | is_late)))
            .order_by(_COMMITMENT.requested_at)
            .limit(_BATCH)
        )
        with self._database.read() as connection:
            return connection.execute(query).all()

    def _is_due(self, row: Row[Any], retry: RetryPolicy) -> bool:
        wait = retry.delay(row.requests, _RANDOM)
        return bool(row.requested_at < self._clock() - round(wait * 1000))


def forget(connection: Connection, delivery_ids: Sequence[int]) -> None:
    """Delete the requests of deliveries that are deleted."""
    if delivery_ids:
        own = _COMMITMENT.delivery_id.in_(delivery_ids)
        connection.execute(delete(STORAGE_COMMITMENTS).where(own))


def _count_failures(connection: Connection, delivery_id: int) -> int:
    return (
        connection.scalar(
            select(func.count())
            .select_from(STORAGE_COMMITMENTS)
            .where(_COMMITMENT.delivery_id == delivery_id, _COMMITMENT.state.in_(_FAILURES))
        )
        or 0
    )
