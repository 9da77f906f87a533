"""The blocking half of the ledger: write groups of arrivals in one transaction.

Tuples and the driver's own cursor, no ORM, no object for each row. Within the caller's
transaction; decides nothing but leaves that to `admission`.

A storage failure answers for its batch and leaves nothing open; one arrival that cannot be
stored answers for itself alone. Knows no loop, no thread and no waiting.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.queue.ledger.arrivals import Arrival, MessageFlag, Receipt
from bridge.queue.ledger.deduplication import (
    LEDGER_DIALECTS,
    NEW_MESSAGE,
    AdmissionDecision,
    LedgerDialect,
    Row,
    decide,
    insert_new,
    stored_digest,
)
from bridge.queue.payload_blobs import PayloadBlobs
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.errors import Conflict, Lost, StatementRefused, StoreError, StoreUnavailable
from bridge.workers.offload import LARGE

_KEY_REUSED = ("205", "MSH-10")  # HL7 table 0357: duplicate key identifier


def admit(path: LedgerDialect, cursor: Any, arrivals: Sequence[Arrival]) -> list[Receipt]:
    """Store what is new, look up what is not; give one receipt for each arrival, in order."""
    identities = [each.identity for each in arrivals]
    rulings = decide(arrivals, path.known(cursor, identities))
    rows = [
        _row(arrival, ruling)
        for arrival, ruling in zip(arrivals, rulings, strict=True)
        if ruling.is_new
    ]
    ids = iter(path.insert(cursor, rows) if rows else ())
    new_ids = [next(ids) if ruling.is_new else 0 for ruling in rulings]
    copies = {_original(ruling, new_ids) for ruling in rulings if not ruling.is_new}
    acks = path.retransmitted(cursor, sorted(copies)) if copies else {}
    return [
        _receipt(arrival, ruling, message_id)
        if ruling.is_new
        else _repeated(_original(ruling, new_ids), acks)
        for arrival, ruling, message_id in zip(arrivals, rulings, new_ids, strict=True)
    ]


def admit_new(cursor: Any, arrivals: Sequence[Arrival]) -> list[Receipt]:
    """Store arrivals on PostgreSQL in one statement; store and return nothing if one is known."""
    ids = insert_new(cursor, [_row(arrival, NEW_MESSAGE) for arrival in arrivals])
    return [
        _receipt(each, NEW_MESSAGE, number) for each, number in zip(arrivals, ids, strict=bool(ids))
    ]


def _row(arrival: Arrival, ruling: AdmissionDecision) -> Row:
    """Lay an arrival out as `arrival_statements.COLUMNS` says."""
    refused = ruling.reused and arrival.refuse_reuse is not None
    lanes = (*arrival.lanes, None, None)
    code, place = _KEY_REUSED if refused else (arrival.error_code, arrival.error_place)
    return (
        arrival.received_at,
        arrival.listener,
        arrival.identity,
        stored_digest(arrival.digest),
        ruling.edition,
        arrival.message_type,
        arrival.mapping,
        arrival.mapping_version,
        lanes[0],
        lanes[1],
        _flags(arrival, ruling),
        arrival.refuse_reuse_code if refused else arrival.ack_code,
        arrival.acknowledgment.value,
        code,
        place,
        QueueState.REFUSED.value if refused else arrival.state.value,
        arrival.payload,
        arrival.refuse_reuse if refused else arrival.ack,
    )


def _flags(arrival: Arrival, ruling: AdmissionDecision) -> int:
    flags = int(arrival.flags)
    if ruling.reused:
        flags |= MessageFlag.REUSED_CONTROL_ID.value
    return flags | MessageFlag.CORRECTED.value if ruling.edition else flags


def _receipt(arrival: Arrival, ruling: AdmissionDecision, message_id: int) -> Receipt:
    """Say what a new message's sender is to be told."""
    if arrival.refuse_reuse is not None and ruling.reused:
        ack, code = arrival.refuse_reuse, arrival.refuse_reuse_code
    else:
        ack, code = arrival.ack, arrival.ack_code
    return Receipt(message_id, ack, code, duplicate=False, reused=ruling.reused)


def _repeated(original: int, acks: Mapping[int, tuple[bytes, str]]) -> Receipt:
    ack, code = acks[original]
    return Receipt(original, ack, code, duplicate=True, reused=False)


def _original(ruling: AdmissionDecision, new_ids: Sequence[int]) -> int:
    """Give the id of the message that a copy repeats."""
    if ruling.stored is not None:
        return ruling.stored
    assert ruling.twin is not None  # noqa: S101  # what is not new is one or the other
    return new_ids[ruling.twin]


_TRIES = 3  # of a batch that lost a race against another node, or its connection

GroupResult = Sequence[Receipt] | BaseException


@dataclass(slots=True)
class ArrivalGroup:
    """Arrivals that are kept all or none, and who waits for them."""

    arrivals: Sequence[Arrival]
    settle: Callable[[GroupResult], object]
    size: int


class ArrivalWriter:
    """Writes batches, one at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._path = LEDGER_DIALECTS[database.dialect]
        self._writer = database.writer(urgent=True)
        self._blobs = PayloadBlobs(database)
        self.commit_seconds = 0.0
        """Seconds of the last commit."""
        self._in_one_statement = database.dialect == "postgresql"

    def close(self) -> None:
        """Let the database's connection go."""
        self._writer.close()
        self._blobs.close()

    def write(self, groups: Sequence[ArrivalGroup]) -> Sequence[GroupResult]:
        """
        Store a batch; whatever goes wrong, nothing of it stays open and everyone is told.

        Gives an answer for each group. Never raises.
        """
        for _ in range(_TRIES):
            try:
                return self.write_together(groups)
            except (Conflict, Lost):
                continue  # another node stored a copy meanwhile, or we did: now it will be found
            except StoreUnavailable as error:
                return [error] * len(groups)
            except Exception:  # noqa: BLE001  # one of them cannot be stored: find out which
                break
        try:
            return self._keep_apart(groups)
        except Exception as error:  # noqa: BLE001  # the thread must live, and the callers know
            return [_as_store_error(error)] * len(groups)

    def write_large(self, group: ArrivalGroup) -> GroupResult:
        """Store one group beside all others: large contents in chunks, then rows. Never raises."""
        try:
            arrivals = [
                self._blobs.store(each) if len(each.payload) >= LARGE else each
                for each in group.arrivals
            ]
        except Exception as error:  # noqa: BLE001  # as above
            return _as_store_error(error)
        (answer,) = self.write([replace(group, arrivals=arrivals)])
        return answer

    def write_together(self, groups: Sequence[ArrivalGroup]) -> list[GroupResult]:
        """Store a batch in one transaction, or nothing of it. Raises what stood in the way."""
        arrivals = [arrival for group in groups for arrival in group.arrivals]
        receipts = self._keep_new(arrivals)
        if not receipts:
            with self._writer.transaction() as cursor:
                receipts = admit(self._path, cursor, arrivals)
                written = time.perf_counter()
            self.commit_seconds = time.perf_counter() - written
        return answers_of(groups, receipts)

    def _keep_new(self, arrivals: Sequence[Arrival]) -> list[Receipt]:
        """Let a server store what looks new in one statement; nothing where one is not new."""
        if not self._in_one_statement or not _differ(arrivals):
            return []
        began = time.perf_counter()
        with self._writer.single() as cursor:
            receipts = admit_new(cursor, arrivals)
        self.commit_seconds = time.perf_counter() - began
        return receipts

    def _keep_apart(self, groups: Sequence[ArrivalGroup]) -> list[GroupResult]:
        with self._database.write() as connection:
            return [self._keep_one(connection, group) for group in groups]

    def _keep_one(self, connection: Any, group: ArrivalGroup) -> GroupResult:
        try:
            with self._database.savepoint(connection):
                cursor = self._database.driver_connection(connection).cursor()
                return admit(self._path, cursor, group.arrivals)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  # only this one is at fault
            return _as_store_error(error)


def answers_of(groups: Sequence[ArrivalGroup], receipts: Sequence[Receipt]) -> list[GroupResult]:
    """Give each group the receipts of its arrivals; they are in one order."""
    if len(receipts) == len(groups):  # nearly always: one each
        return [[receipt] for receipt in receipts]
    following = iter(receipts)
    return [[next(following) for _ in group.arrivals] for group in groups]


def _differ(arrivals: Sequence[Arrival]) -> bool:
    """Whether none of a batch can be a copy of another."""
    return len(arrivals) == 1 or len({each.identity for each in arrivals}) == len(arrivals)


def _as_store_error(error: Exception) -> StoreError:
    """Say no more of an unforeseen error than its kind: its words may quote the row."""
    return error if isinstance(error, StoreError) else StatementRefused(type(error).__name__)
