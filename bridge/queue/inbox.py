"""
The inbox: claim stored messages in the order of their lanes, and settle the outcomes.

Blocking: call from a thread. The worker applies the messages and decides on retries.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from zlib import crc32

from sqlalchemy import Connection, Row, func, select, text
from sqlalchemy.dialects.postgresql import insert

from bridge.queue import payload_blobs
from bridge.queue.claims import (
    ClaimedMessage,
    CurrentSession,
    Lease,
    MessageOutcome,
    Settlement,
    SettlementResult,
    no_heartbeat_session,
)
from bridge.queue.digests import is_intact
from bridge.queue.lanes import LaneClaim, LaneQueue, Lanes
from bridge.queue.log_tables import pull_new
from bridge.queue.statements import ACKNOWLEDGED, INBOX
from bridge.queue.wakeup import CLOCK_TOLERANCE_MS
from bridge.store.columns import one_of
from bridge.store.database import Database
from bridge.store.errors import Conflict, StoreError, StoreUnavailable
from bridge.store.statements import execute_keys, key_statement
from bridge.store.tables import APPLIED_COUNTS

_SET_AMBIGUOUS_ATTEMPTS = text(
    "UPDATE message SET ambiguous_attempts = :ambiguous_attempts WHERE id = :id"
)


def _write_ambiguous_attempts(connection: Connection, outcomes: Sequence[MessageOutcome]) -> None:
    counts = [
        {"id": message_outcome.message_id, "ambiguous_attempts": message_outcome.ambiguous_attempts}
        for message_outcome in outcomes
        if message_outcome.ambiguous_attempts is not None
    ]
    if counts:
        connection.execute(_SET_AMBIGUOUS_ATTEMPTS, counts)


LEASE_MS = 60_000
"""Lease of a claim in milliseconds, unless it is extended."""

_CLAIMED = key_statement("""
    SELECT m.id, b.payload, m.listener, m.mapping, m.mapping_version, m.lane_1, m.lane_2,
        m.attempts, m.received_at, m.flags, m.message_type, m.ambiguous_attempts, m.digest
    FROM message AS m LEFT JOIN message_body AS b ON b.message_id = m.id AND b.message_id IN :ids
    WHERE m.id IN :ids ORDER BY m.id
""")
_ADD_LANE = text("UPDATE message SET lane_2 = :lane WHERE id = :id AND lane_2 IS NULL")
_CORRECT_DUE_TIMES = text("""
    UPDATE message SET not_before = :now
    WHERE state = 'queued' AND blocked = 0 AND not_before > :now AND settled_at > :latest
""")

WriteRecords = Callable[[Connection, Sequence[Any]], None]
"""Writes the contents of outcome records in a transaction. Raises StoreError."""


def _ignore_records(_connection: Connection, _contents: Sequence[Any]) -> None:
    """Write nothing."""


@dataclass(frozen=True, slots=True)
class ClaimedBatch:
    """Messages of one claim, and what it left behind (see `bridge.queue.lanes.LaneClaim`)."""

    messages: list[ClaimedMessage]
    more: bool
    undecided: bool


class Inbox(LaneQueue):
    """
    The queue of received messages.

    A parked message does not block the later messages of its lanes: one malformed order must not
    hide later orders of the patient, whose senders received a positive acknowledgment.

    `write_records` writes the records of outcomes; `session` is that of the owner's heartbeat lock.
    """

    def __init__(
        self,
        database: Database,
        owner: str,
        *,
        lease: int = LEASE_MS,
        write_records: WriteRecords = _ignore_records,
        timer: Callable[[], float] = time.monotonic,
        session: CurrentSession = no_heartbeat_session,
    ) -> None:
        self._acknowledged = set[int]()  # messages whose acknowledgment was sent but is not stored
        self._write_records = write_records
        self._timer = timer
        self._session = session
        lanes = Lanes(
            database,
            INBOX,
            parked_block=False,
            timer=timer,
            are_acknowledged=self._acknowledged.issuperset,
            session=session,
        )
        super().__init__(database, owner, lanes, lease)

    def claim(self, now: int, limit: int) -> list[ClaimedMessage]:
        """Claim up to `limit` messages that no earlier message blocks, oldest first."""
        return self.claim_batch(now, limit).messages

    def expect_old_messages(self) -> None:
        """Include old messages in the next claims, because another process queued some."""
        self._lanes.expect_old_rows()

    def claim_batch(self, now: int, limit: int) -> ClaimedBatch:
        """As `claim`, and tell what was left behind. Claims nothing without a heartbeat session."""
        if self._session() is None:
            return ClaimedBatch([], more=False, undecided=True)
        try:
            claim, messages = self._claim(now, limit)
            while claim.scan_incomplete and not messages:
                claim, messages = self._claim(now, limit)
        except Conflict:  # another node has just claimed in one of the lanes
            return ClaimedBatch([], more=False, undecided=True)
        return self._batch(claim, messages)

    def _claim(self, now: int, limit: int) -> tuple[LaneClaim, list[ClaimedMessage]]:
        with self._database.write_without_sync() as connection:
            claim, messages = self._claim_and_read(connection, now, limit)
            rest = [] if claim.more else self._store_acknowledged(connection)
        self._acknowledged.difference_update(claim.acknowledged, rest)
        return claim, messages

    def acknowledged(self, message_ids: Sequence[int]) -> None:
        """
        Note which acknowledgments were sent; a claim stores it. From any thread.

        The claim of a message stores it without a further statement; a claim that leaves nothing
        stores the rest. After a power cut a message may be stored as `pending` although its
        acknowledgment was sent.
        """
        self._acknowledged.update(message_ids)

    def store_acknowledged(self) -> None:
        """Store all noted acknowledgments."""
        pull_new(self._database)
        with self._database.write() as connection:
            stored = self._store_acknowledged(connection)
        self._acknowledged.difference_update(stored)

    def _store_acknowledged(self, connection: Connection) -> list[int]:
        if ids := list(self._acknowledged):
            execute_keys(connection, ACKNOWLEDGED, ids)
        return ids

    def _claim_and_read(
        self, connection: Connection, now: int, limit: int
    ) -> tuple[LaneClaim, list[ClaimedMessage]]:
        lease = Lease(self.lease_from_now(), self._timer, self._session)
        claim = self._lanes.claim(
            connection,
            owner=self._owner,
            now=now,
            lease=self.lease,
            limit=limit,
        )
        rows = execute_keys(connection, _CLAIMED, claim.ids).all() if claim.ids else []
        return claim, [_claimed_message(row, lease.copy()) for row in rows]

    def lease_from_now(self) -> float:
        """Return the end of a lease that begins now, by the monotonic clock in seconds."""
        return self._timer() + self.lease / 1000

    def _batch(self, claim: LaneClaim, messages: Sequence[ClaimedMessage]) -> ClaimedBatch:
        """Read the payloads of the large messages after the transaction."""
        whole = [
            message if message.payload or message.is_damaged else self._with_payload(message)
            for message in messages
        ]
        return ClaimedBatch(whole, claim.more, claim.undecided)

    def _with_payload(self, claimed: ClaimedMessage) -> ClaimedMessage:
        try:
            with self._database.read() as connection:
                whole = payload_blobs.content(connection, claimed.message_id, b"")
        except StoreUnavailable as error:
            return replace(claimed, unreadable_code=error.code)
        return _verified(replace(claimed, payload=whole))

    def settle(self, outcomes: Sequence[MessageOutcome], now: int) -> SettlementResult:
        """
        Settle claimed messages that this worker still owns, and write their records.

        If settling all of them together fails, each message is settled in a separate transaction.
        """
        try:
            return self._settle(outcomes, now)
        except StoreUnavailable:
            raise
        except StoreError:
            if not any(message_outcome.records for message_outcome in outcomes):
                raise
        settled = [self._settle_alone(outcome, now) for outcome in outcomes]
        owned = set[int]().union(*(settlement.owned for settlement in settled))
        return SettlementResult(owned, any(settlement.unblocked_any for settlement in settled))

    def settle_and_claim(
        self, outcomes: Sequence[MessageOutcome], now: int, limit: int
    ) -> tuple[SettlementResult, ClaimedBatch]:
        """
        Settle and claim in one transaction.

        If this is not possible, only settle; the returned batch is empty and its `more` indicates
        that further messages may be free.
        """
        try:
            with self._database.write() as connection:
                settled = self._settle_in(connection, outcomes, now)
                claim, messages = self._claim_and_read(connection, now, limit)
                count_settlement(connection, self._owner, _sites(outcomes))
        except StoreUnavailable:
            raise
        except StoreError:  # records that cannot be written, or a conflict of claims
            return self.settle(outcomes, now), ClaimedBatch([], more=True, undecided=False)
        self._acknowledged.difference_update(claim.acknowledged)
        return settled, self._batch(claim, messages)

    def _settle_alone(self, outcome: MessageOutcome, now: int) -> SettlementResult:
        try:
            return self._settle([outcome], now)
        except StoreUnavailable:
            raise
        except StoreError:
            if outcome.records is None:
                raise
            fallback = replace(
                outcome.records.fallback,
                received_at=outcome.received_at,
                attempts=outcome.attempts,
            )
            return self._settle([fallback], now)

    def _settle(self, outcomes: Sequence[MessageOutcome], now: int) -> SettlementResult:
        with self._database.write() as connection:
            settled = self._settle_in(connection, outcomes, now)
            count_settlement(connection, self._owner, _sites(outcomes))
        return settled

    def _settle_in(
        self, connection: Connection, outcomes: Sequence[MessageOutcome], now: int
    ) -> SettlementResult:
        settlements = [_settlement(outcome, now) for outcome in outcomes]
        settled = self._lanes.settle(connection, self._owner, now, settlements)
        owned_outcomes = [
            message_outcome
            for message_outcome in outcomes
            if message_outcome.message_id in settled.owned
        ]
        _write_ambiguous_attempts(connection, owned_outcomes)
        for owned_outcome in owned_outcomes:
            if owned_outcome.lane is not None:
                self._add_lane(connection, owned_outcome.message_id, owned_outcome.lane)
        # Another worker owns the remaining messages and will write their records.
        if contents := [
            outcome.records.content for outcome in owned_outcomes if outcome.records is not None
        ]:
            self._write_records(connection, contents)
        return settled

    def _add_lane(self, connection: Connection, message_id: int, lane: int) -> None:
        if connection.execute(_ADD_LANE, {"id": message_id, "lane": lane}).rowcount:
            self._lanes.enter(connection, message_id, [lane])

    def release(self, message_ids: Sequence[int], now: int) -> None:
        """Return claims whose messages were not applied, or not completely."""
        with self._database.write() as connection:
            self._return_claims(connection, message_ids, now, "interrupted")

    def correct_due_times(self, now: int) -> int:
        """
        Make postponed messages due whose last attempt is in the future; return the number.

        The clock of the node that postponed them was ahead, or the clock was set back.
        """
        parameters = {"now": now, "latest": now + CLOCK_TOLERANCE_MS}
        with self._database.write() as connection:
            return connection.execute(_CORRECT_DUE_TIMES, parameters).rowcount


def _claimed_message(row: Row[Any], lease: Lease) -> ClaimedMessage:
    claimed = ClaimedMessage(
        message_id=row.id,
        payload=bytes(row.payload or b""),
        listener=row.listener,
        mapping=row.mapping,
        mapping_version=row.mapping_version,
        lanes=tuple(lane for lane in (row.lane_1, row.lane_2) if lane is not None),
        attempts=row.attempts,
        received_at=row.received_at,
        flags=row.flags,
        message_type=row.message_type,
        ambiguous_attempts=row.ambiguous_attempts or 0,
        digest=row.digest,
        is_damaged=row.payload is None,  # a damaged database can lose rows
        lease=lease,
    )
    return _verified(claimed)


def _verified(claimed: ClaimedMessage) -> ClaimedMessage:
    """Remove a payload that has changed since it was stored: nothing may apply it."""
    if not claimed.payload or is_intact(claimed.payload, claimed.digest):
        return claimed
    return replace(claimed, payload=b"", is_damaged=True)


def _sites(outcomes: Sequence[MessageOutcome]) -> set[str]:
    return {site for outcome in outcomes for site in outcome.sites or ("",)}


def _settlement(outcome: MessageOutcome, now: int) -> Settlement:
    due = outcome.retry_at if outcome.retry_at is not None else now
    return Settlement.of(
        outcome.message_id,
        outcome.event,
        outcome.failure,
        outcome.code,
        outcome.detail,
        due,
        outcome.received_at,
        outcome.attempts,
        notes=None if outcome.notes is None else outcome.notes.to_text(),
    )


# The number of rows has a bound: a message may name any site, and an owner of claims has another
# name after each restart.
_SLOTS: Final = 16
"""Owners use different rows, so that nodes seldom wait for each other."""
_SITES: Final = 256
"""Sites that share a row cost a needless hint."""
_COUNT: Final = APPLIED_COUNTS.c
_INCREASE: Final = insert(APPLIED_COUNTS).on_conflict_do_update(
    index_elements=[_COUNT.slot, _COUNT.site], set_={"count": _COUNT.count + 1}
)
_SUM: Final = select(func.coalesce(func.sum(_COUNT.count), 0))
_SUM_OF_SITES: Final = _SUM.where(one_of(_COUNT.site, "sites"))


def count_settlement(connection: Connection, owner: str, sites: Collection[str]) -> None:
    """
    Count a transaction that settles messages of these sites; '' is an unknown one.

    It must be the last statement: on PostgreSQL other transactions of the slot wait for the rows.
    """
    slot = crc32(owner.encode()) % _SLOTS
    rows = [{"slot": slot, "site": number, "count": 1} for number in _numbers(sites)]
    if rows:
        connection.execute(_INCREASE, rows)


def settlements(connection: Connection, sites: Collection[str] | None) -> int:
    """
    Return a number that changes when messages of these sites are settled; None are all sites.

    The newest id of a message cannot tell this, because messages are applied in another order than
    they are received, and again after a replay.
    """
    if sites is None:
        return int(connection.execute(_SUM).scalar_one())
    return int(connection.execute(_SUM_OF_SITES, {"sites": _numbers(sites)}).scalar_one())


def _numbers(sites: Collection[str]) -> list[int]:
    return sorted({crc32(site.encode()) % _SITES for site in sites})
