"""
The blocking part of the ledger: write groups of arrivals in one transaction.

Uses tuples and the driver's cursor, without an ORM, because it runs for each message.
`deduplication` decides which arrivals are new. A storage failure fails the whole batch and leaves
no open transaction; an arrival that cannot be stored fails alone. No loop, no threads.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.queue.digests import stored_digest
from bridge.queue.ledger.arrivals import Arrival, MessageFlag, Receipt
from bridge.queue.ledger.deduplication import (
    LEDGER_DIALECTS,
    NEW_MESSAGE,
    AdmissionDecision,
    LedgerDialect,
    Row,
    decide,
    insert_new,
)
from bridge.queue.payload_blobs import PayloadBlobs
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.errors import Conflict, Lost, StatementRefused, StoreError, StoreUnavailable
from bridge.workers.offload import LARGE

_KEY_REUSED = ("205", "MSH-10")  # HL7 table 0357: duplicate key identifier


def admit(statements: LedgerDialect, cursor: Any, arrivals: Sequence[Arrival]) -> list[Receipt]:
    """Store new arrivals and look up retransmits; return one receipt for each arrival, in order."""
    identities = [each.identity for each in arrivals]
    decisions = decide(arrivals, statements.known(cursor, identities))
    rows = [
        _row(arrival, decision)
        for arrival, decision in zip(arrivals, decisions, strict=True)
        if decision.is_new
    ]
    ids = iter(statements.insert(cursor, rows) if rows else ())
    new_ids = [next(ids) if decision.is_new else 0 for decision in decisions]
    originals = {_original_id(decision, new_ids) for decision in decisions if decision.is_copy}
    acks = statements.retransmitted(cursor, sorted(originals)) if originals else {}
    receipts: list[Receipt] = []
    for arrival, decision, message_id in zip(arrivals, decisions, new_ids, strict=True):
        if decision.first_part is not None:
            receipts.append(receipts[decision.first_part])
        elif decision.is_copy:
            receipts.append(_repeated_receipt(_original_id(decision, new_ids), acks))
        else:
            receipts.append(_receipt(arrival, decision, message_id))
    return receipts


def admit_new(cursor: Any, arrivals: Sequence[Arrival]) -> list[Receipt]:
    """Store arrivals on PostgreSQL in one statement; store and return nothing if one is known."""
    ids = insert_new(cursor, [_row(arrival, NEW_MESSAGE) for arrival in arrivals])
    return [
        _receipt(each, NEW_MESSAGE, message_id)
        for each, message_id in zip(arrivals, ids, strict=bool(ids))
    ]


def _row(arrival: Arrival, decision: AdmissionDecision) -> Row:
    """Return an arrival as a row of `deduplication.COLUMNS`."""
    refused = decision.reused and arrival.refuse_reuse is not None
    lanes = (*arrival.lanes, None, None)
    code, place = _KEY_REUSED if refused else (arrival.error_code, arrival.error_place)
    return (
        arrival.received_at,
        arrival.listener,
        arrival.identity,
        stored_digest(arrival.digest),
        decision.edition,
        arrival.message_type,
        arrival.mapping,
        arrival.mapping_version,
        lanes[0],
        lanes[1],
        _flags(arrival, decision),
        arrival.refuse_reuse_code if refused else arrival.ack_code,
        arrival.acknowledgment.value,
        code,
        place,
        QueueState.REFUSED.value if refused else arrival.state.value,
        arrival.payload,
        arrival.refuse_reuse if refused else arrival.ack,
    )


def _flags(arrival: Arrival, decision: AdmissionDecision) -> int:
    flags = int(arrival.flags)
    if decision.reused:
        flags |= MessageFlag.REUSED_CONTROL_ID.value
    return flags | MessageFlag.CORRECTED.value if decision.edition else flags


def _receipt(arrival: Arrival, decision: AdmissionDecision, message_id: int) -> Receipt:
    if arrival.refuse_reuse is not None and decision.reused:
        ack, code = arrival.refuse_reuse, arrival.refuse_reuse_code
    else:
        ack, code = arrival.ack, arrival.ack_code
    return Receipt(message_id, ack, code, duplicate=False, reused=decision.reused)


def _repeated_receipt(original: int, acks: Mapping[int, tuple[bytes, str]]) -> Receipt:
    ack, code = acks[original]
    return Receipt(original, ack, code, duplicate=True, reused=False)


def _original_id(decision: AdmissionDecision, new_ids: Sequence[int]) -> int:
    """Return the id of the message that a retransmit repeats."""
    if decision.stored is not None:
        return decision.stored
    assert decision.batch_position is not None  # noqa: S101  # a retransmit has one of the two
    return new_ids[decision.batch_position]


_MAX_TRIES = 3  # tries of a batch that conflicted with another node or lost its connection

GroupResult = Sequence[Receipt] | BaseException


@dataclass(slots=True)
class ArrivalGroup:
    """Arrivals that are stored all or none, and the callback for the result."""

    arrivals: Sequence[Arrival]
    on_stored: Callable[[GroupResult], object]
    size: int


class ArrivalWriter:
    """Writes batches, one at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._statements = LEDGER_DIALECTS[database.dialect]
        self._writer = database.writer(urgent=True)
        self._blobs = PayloadBlobs(database)
        self.commit_seconds = 0.0
        """Duration of the last commit."""
        self._is_postgresql = database.dialect == "postgresql"

    def close(self) -> None:
        """Close the database connection."""
        self._writer.close()
        self._blobs.close()

    def write(self, groups: Sequence[ArrivalGroup]) -> Sequence[GroupResult]:
        """
        Store a batch; return a result for each group. Never raises.

        After an error nothing stays open, and each group gets a result.
        """
        for _ in range(_MAX_TRIES):
            try:
                return self.write_together(groups)
            except (Conflict, Lost):
                continue  # the next attempt finds the copy that was stored meanwhile
            except StoreUnavailable as error:
                return [error] * len(groups)
            except Exception:  # noqa: BLE001  # one arrival cannot be stored: find out which
                break
        try:
            return self._write_separately(groups)
        except Exception as error:  # noqa: BLE001  # the thread must survive; callers get the error
            return [_as_store_error(error)] * len(groups)

    def write_large(self, group: ArrivalGroup) -> GroupResult:
        """
        Store one group concurrently with the batches: large payloads in chunks, then rows. Never
        raises.
        """
        try:
            arrivals = [
                self._blobs.store(arrival) if len(arrival.payload) >= LARGE else arrival
                for arrival in group.arrivals
            ]
        except Exception as error:  # noqa: BLE001  # as above
            return _as_store_error(error)
        (result,) = self.write([replace(group, arrivals=arrivals)])
        return result

    def write_together(self, groups: Sequence[ArrivalGroup]) -> list[GroupResult]:
        """Store a batch in one transaction, or nothing of it. Raises the error."""
        arrivals = [arrival for group in groups for arrival in group.arrivals]
        receipts = self._write_new(arrivals)
        if not receipts:
            with self._writer.transaction() as cursor:
                receipts = admit(self._statements, cursor, arrivals)
                written = time.perf_counter()
            self.commit_seconds = time.perf_counter() - written
        return results_of(groups, receipts)

    def _write_new(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """Store a batch in one statement on PostgreSQL; return nothing if an arrival is known."""
        if not self._is_postgresql or not _are_distinct(arrivals):
            return []
        began = time.perf_counter()
        with self._writer.single() as cursor:
            receipts = admit_new(cursor, arrivals)
        self.commit_seconds = time.perf_counter() - began
        return receipts

    def _write_separately(self, groups: Sequence[ArrivalGroup]) -> list[GroupResult]:
        with self._database.write() as connection:
            return [self._write_one(connection, group) for group in groups]

    def _write_one(self, connection: Any, group: ArrivalGroup) -> GroupResult:
        try:
            with self._database.savepoint(connection):
                cursor = self._database.driver_connection(connection).cursor()
                return admit(self._statements, cursor, group.arrivals)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  # only this group fails
            return _as_store_error(error)


def results_of(groups: Sequence[ArrivalGroup], receipts: Sequence[Receipt]) -> list[GroupResult]:
    """Return the receipts of each group; both are in the same order."""
    if len(receipts) == len(groups):  # the usual case: one arrival per group
        return [[receipt] for receipt in receipts]
    following = iter(receipts)
    return [[next(following) for _ in group.arrivals] for group in groups]


def _are_distinct(arrivals: Sequence[Arrival]) -> bool:
    """True if no arrival of a batch can be a copy of another."""
    return len(arrivals) == 1 or len({arrival.identity for arrival in arrivals}) == len(arrivals)


def _as_store_error(error: Exception) -> StoreError:
    """Hide the text of an unexpected error: it may quote the row."""
    return error if isinstance(error, StoreError) else StatementRefused(type(error).__name__)
