"""Hand out stored messages in the order of their lanes, and write down what came of them.

Blocking: call it from a thread. Who applies them, and when they are tried again, is the
worker's business.
"""

import json
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sqlalchemy import Connection, Row, text

from bridge.queue import payload_blobs
from bridge.queue.claims import ClaimedMessage, MessageOutcome, Settlement, SettlementResult
from bridge.queue.lanes import LaneClaim, Lanes
from bridge.queue.statements import INBOX
from bridge.queue.states import QueueEvent
from bridge.queue.wakeup import CHANNEL
from bridge.store.database import Database
from bridge.store.errors import Busy, Conflict, StoreError, StoreUnavailable
from bridge.store.presence import lock_name
from bridge.store.statements import execute_keys, key_statement

_NOTE = text("UPDATE message SET notes = :notes WHERE id = :id")
_DOUBT = text("UPDATE message SET doubts = :doubts WHERE id = :id")


def write_notes(connection: Connection, outcomes: Sequence[MessageOutcome]) -> None:
    """Write the notes and the counts of doubts that outcomes bring, within a transaction."""
    notes = [
        {"id": each.message_id, "notes": json.dumps(each.notes, ensure_ascii=False)}
        for each in outcomes
        if each.notes is not None
    ]
    if notes:
        connection.execute(_NOTE, notes)
    doubts = [
        {"id": each.message_id, "doubts": each.ambiguous_attempts}
        for each in outcomes
        if each.ambiguous_attempts is not None
    ]
    if doubts:
        connection.execute(_DOUBT, doubts)


LEASE = 60_000
"""Milliseconds a claim lasts unless it is extended."""

_CLAIMED = key_statement("""
    SELECT m.id, b.payload, m.listener, m.mapping, m.mapping_version, m.lane_1, m.lane_2,
        m.attempts, m.received_at, m.flags, m.message_type, m.doubts
    FROM message AS m JOIN message_body AS b ON b.message_id = m.id
    WHERE m.id IN :ids AND b.message_id IN :ids ORDER BY m.id
""")
_SECOND = text("UPDATE message SET lane_2 = :lane WHERE id = :id AND lane_2 IS NULL")

_LONG = "a long backlog is being sorted out"

WriteRecords = Callable[[Connection, Sequence[Any]], None]
"""Writes the contents of news down, within a transaction. Raises StoreError."""


class AcknowledgmentNotes(Protocol):
    """Whose acknowledgments went out, and is not written down yet."""

    def contains_all(self, message_ids: Sequence[int]) -> bool:
        """Tell whether all these are among them."""

    def discard(self, message_ids: Sequence[int]) -> None:
        """Forget these: it is written down."""


def _nothing(_connection: Connection, _contents: Sequence[Any]) -> None:
    """Remember nothing."""


@dataclass(frozen=True, slots=True)
class ClaimedBatch:
    """What a claim took, and what it left: see `bridge.queue.lanes.LaneClaim`."""

    messages: list[ClaimedMessage]
    more: bool
    undecided: bool


class Inbox:
    """
    The messages that wait to be applied.

    `owner` names this worker among all nodes and must survive a restart: by it a node finds
    what it had claimed when it died. `parked_block` makes a parked message hold up all that
    comes after it in its lanes. By default it does not: one malformed order must not hide later
    orders of the patient, whose senders got a positive acknowledgment. `remember` is for the news
    that outcomes bring; `told` are whose acknowledgments went out just now.
    """

    def __init__(
        self,
        database: Database,
        owner: str,
        *,
        lease: int = LEASE,
        parked_block: bool = False,
        remember: WriteRecords = _nothing,
        timer: Callable[[], float] = time.monotonic,
        told: AcknowledgmentNotes | None = None,
    ) -> None:
        self.lease = lease
        self.short_work = database.short_work
        self._turns = database.write_lock
        self._told = told
        self._remember = remember
        self._database = database
        self._owner = owner
        are_told = (lambda _: False) if told is None else told.contains_all
        self._line = Lanes(
            database, INBOX, parked_block=parked_block, timer=timer, are_told=are_told
        )

    def claim(self, now: int, limit: int) -> list[ClaimedMessage]:
        """Take up to `limit` messages that nothing stands before, oldest first."""
        return self.with_payloads(self.claim_without_blobs(now, limit)).messages

    def expect_old_messages(self) -> None:
        """Expect old messages too at the next claims: others have queued some."""
        self._line.expect_old_rows()

    def claim_without_blobs(self, now: int, limit: int) -> ClaimedBatch:
        """
        As `claim`, and tell what is left; what lies elsewhere is not read yet: see `with_payloads`.

        Raises Busy where a loop would be held up by a long backlog of which nothing is free.
        """
        try:
            taken, messages = self._claim(now, limit)
            while taken.unseen and not messages:
                if self._turns.is_nonblocking:
                    raise Busy(_LONG)
                taken, messages = self._claim(now, limit)
        except Conflict:  # another node had one of the lanes a moment before
            return ClaimedBatch([], more=False, undecided=True)
        return ClaimedBatch(messages, taken.more, taken.undecided)

    def _claim(self, now: int, limit: int) -> tuple[LaneClaim, list[ClaimedMessage]]:
        with self._database.write_without_sync() as connection:
            claimed = self._claimed(connection, now, limit)
        self._written_down(claimed[0])
        return claimed

    def _written_down(self, taken: LaneClaim) -> None:
        """Need no note any more, now that it is committed."""
        if taken.told and self._told is not None:
            self._told.discard(taken.told)

    def _claimed(
        self, connection: Connection, now: int, limit: int
    ) -> tuple[LaneClaim, list[ClaimedMessage]]:
        taken = self._line.claim(
            connection,
            owner=self._owner,
            now=now,
            lease=self.lease,
            limit=limit,
        )
        rows = execute_keys(connection, _CLAIMED, taken.ids).all() if taken.ids else []
        return taken, [_claimed(row) for row in rows]

    def with_payloads(self, handful: ClaimedBatch) -> ClaimedBatch:
        """Read the payload blobs of the large ones of these messages."""
        if all(each.payload for each in handful.messages):
            return handful
        messages = [each if each.payload else self._unpacked(each) for each in handful.messages]
        return replace(handful, messages=messages)

    def _unpacked(self, claimed: ClaimedMessage) -> ClaimedMessage:
        """Read a content. What cannot be read now is this message's trouble and no other's."""
        try:
            with self._database.read() as connection:
                whole = payload_blobs.content(connection, claimed.message_id, b"")
        except StoreUnavailable as error:
            return replace(claimed, unreadable=error.code)
        return replace(claimed, payload=whole)

    def settle(self, outcomes: Sequence[MessageOutcome], now: int) -> SettlementResult:
        """
        Write down what came of claimed messages, of those that are still ours, and their news.

        Where that cannot be written for all of them, each is written for itself.
        """
        try:
            return self._settle(outcomes, now)
        except StoreUnavailable:
            raise
        except StoreError:
            if not any(each.news for each in outcomes):
                raise
        settled = [self._settle_alone(each, now) for each in outcomes]
        held = set[int]().union(*(each.held for each in settled))
        return SettlementResult(held, any(each.moved_up for each in settled))

    def settle_and_claim(
        self, outcomes: Sequence[MessageOutcome], now: int, limit: int
    ) -> tuple[SettlementResult, ClaimedBatch]:
        """
        As `settle`, and then as `claim_without_blobs`, in one transaction.

        Where that cannot be, nothing is taken, and there may be more to take.
        """
        try:
            with self._database.write() as connection:
                settled = self._written(connection, outcomes, now)
                taken, messages = self._claimed(connection, now, limit)
        except StoreUnavailable:
            raise
        except StoreError:  # news that cannot be written, or a lane that another node has taken
            return self.settle(outcomes, now), ClaimedBatch([], more=True, undecided=False)
        self._written_down(taken)
        return settled, ClaimedBatch(messages, taken.more, taken.undecided)

    def _settle_alone(self, outcome: MessageOutcome, now: int) -> SettlementResult:
        try:
            return self._settle([outcome], now)
        except StoreUnavailable:
            raise
        except StoreError:
            if outcome.news is None:
                raise
            return self._settle([outcome.news.otherwise], now)

    def _settle(self, outcomes: Sequence[MessageOutcome], now: int) -> SettlementResult:
        with self._database.write() as connection:
            return self._written(connection, outcomes, now)

    def _written(
        self, connection: Connection, outcomes: Sequence[MessageOutcome], now: int
    ) -> SettlementResult:
        settlements = [_settlement(outcome, now) for outcome in outcomes]
        settled = self._line.settle(connection, self._owner, now, settlements)
        ours = [each for each in outcomes if each.message_id in settled.held]
        write_notes(connection, ours)
        for each in ours:
            if each.lane is not None:
                self._wait_in(connection, each.message_id, each.lane)
        # Whoever has the others by now will bring the news of them.
        if contents := [each.news.content for each in ours if each.news is not None]:
            self._remember(connection, contents)
        return settled

    def _wait_in(self, connection: Connection, message_id: int, lane: int) -> None:
        """Give a message that is queued again a place in a second lane."""
        if connection.execute(_SECOND, {"id": message_id, "lane": lane}).rowcount:
            self._line.enter(connection, message_id, [lane])

    def release(self, message_ids: Sequence[int], now: int) -> None:
        """Give claims back untried, or not known to have been tried to the end."""
        with self._database.write() as connection:
            settlements = [
                Settlement.of(each, QueueEvent.INTERRUPTED, None, "interrupted", "", 0)
                for each in message_ids
            ]
            self._line.settle(connection, self._owner, now, settlements)
            self._database.notify(connection, CHANNEL)

    def extend(self, message_ids: Sequence[int], now: int) -> None:
        """Keep claims for another lease from now."""
        with self._database.write() as connection:
            self._line.extend(connection, self._owner, message_ids, now, self.lease)

    def requeue_expired_claims(
        self, now: int, *, include_own: bool = False, except_ids: Collection[int] = ()
    ) -> int:
        """
        Queue again what a dead worker had claimed; give how many.

        Whose lease has run out is dead; and with `include_own`, so is our own former self,
        `except_ids` for
        what is in hand.
        """
        owner, own = self._owner if include_own else "", self._owner
        with self._database.write() as connection:
            return len(
                self._line.requeue_expired(
                    connection, owner=owner, now=now, own=own, except_ids=except_ids
                )
            )

    def requeue_claims(self, owner: str, now: int) -> int:
        """Queue again what another had claimed, unless it is alive after all; give how many."""
        with self._database.write() as connection:
            if not self._database.try_lock(connection, lock_name(owner)):
                return 0
            return len(self._line.requeue_expired(connection, owner=owner, now=now))


def _claimed(row: Row[Any]) -> ClaimedMessage:
    return ClaimedMessage(
        message_id=row.id,
        payload=bytes(row.payload),
        listener=row.listener,
        mapping=row.mapping,
        mapping_version=row.mapping_version,
        lanes=tuple(lane for lane in (row.lane_1, row.lane_2) if lane is not None),
        attempts=row.attempts,
        received_at=row.received_at,
        flags=row.flags,
        message_type=row.message_type,
        ambiguous_attempts=row.doubts or 0,
    )


def _settlement(outcome: MessageOutcome, now: int) -> Settlement:
    due = outcome.retry_at if outcome.retry_at is not None else now
    return Settlement.of(
        outcome.message_id, outcome.event, outcome.failure, outcome.code, outcome.detail, due
    )
