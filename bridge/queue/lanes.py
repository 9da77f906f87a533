"""
Lanes of a queue: `Lanes` claims the first row of each lane and settles it.

A row may be claimed if no unfinished row precedes it in any of its lanes. A row that turns out to
wait for another is marked `blocked` and becomes a candidate again when that row leaves the lane.
A claim skips a row only once for each row that it waits for. So the cost of a claim does not depend
on the backlog.

Candidates are nearly always among the newest rows. So most scans start at a watermark. All
partitions are scanned every few seconds only, for rows that were postponed long ago or replayed.
The watermark affects the delay, never the order.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from bridge.queue.claims import CurrentSession, Settlement, SettlementResult, no_heartbeat_session
from bridge.queue.log_tables import pull
from bridge.queue.statements import INBOX, LaneStatements
from bridge.queue.states import QueueEvent, QueueState, next_state
from bridge.queue.wakeup import CHANNEL
from bridge.store.database import Database
from bridge.store.lease_clock import claim_time
from bridge.store.postgresql.dedicated_connections import lock_name, without_heartbeat
from bridge.store.statements import (
    BulkStatement,
    dialect_statement,
    execute,
    execute_keys,
    execute_rows,
    execute_sql,
    is_postgresql,
    key_statement,
)

FULL_SCAN_SECONDS = 5.0
"""Seconds between full scans: the longest delay of an old row."""

OLD_ROWS_SCAN_SECONDS = 0.25
"""Seconds between full scans after a notification that old rows may be due."""

MARGIN_IDS = 20_000
"""Number of ids below the newest known id that other transactions may still commit."""

PARTITION_STEP = 100_000
"""Scan positions are rounded to multiples of this number, so that few statements are prepared."""


class ScanWatermark:
    """The id from which a worker scans for candidates."""

    def __init__(self, interval: float = FULL_SCAN_SECONDS, margin: int = MARGIN_IDS) -> None:
        self._interval = interval  # seconds between full scans
        self._margin = margin
        self._full_scan_at = float("-inf")
        self._id = 0
        self._newest = 0
        self._expects_old_rows = False

    def expect_old_rows(self) -> None:
        """Scan everything soon, because old rows may have been queued. From any thread."""
        self._expects_old_rows = True

    def position(self, now: float) -> int:
        """Return the id from which to scan, 0 for a full scan; `now` is in seconds."""
        longest = OLD_ROWS_SCAN_SECONDS if self._expects_old_rows else self._interval
        if now < self._full_scan_at + min(longest, self._interval):
            return self._id
        # Before the scan: a later notification may be about rows that this scan misses.
        self._expects_old_rows = False
        return 0

    def record(self, position: int, ids: Sequence[int], now: float) -> None:
        """Record the candidates that a scan from `position` found."""
        self._newest = max(self._newest, *ids) if ids else self._newest
        if position == 0:
            self._full_scan_at = now
            self._id = max(0, min([self._newest, *ids]) - self._margin)

    @staticmethod
    def partition_start(position: int) -> int:
        """Return the id below which partitions are not scanned."""
        return max(0, position - PARTITION_STEP) // PARTITION_STEP * PARTITION_STEP

    def include(self, ids: Collection[int]) -> None:
        """Lower the watermark to rows that have become free, however old they are."""
        self._id = min([self._id, *ids])


LanePosition = tuple[int, int]
"""A lane, and the id of a row in it."""

_FLOOR_PARAMETER = "%(floor)s"
_ROUNDS = 5  # scans of one transaction
_MAX_LEASE = 10 * 60_000  # ms
_WINDOW = 200  # candidates of a scan: blocked rows must not hide free ones


@dataclass(frozen=True, slots=True)
class LaneClaim:
    """Ids of claimed rows in order, and what the claim left behind."""

    ids: list[int]
    scan_incomplete: bool
    """All scanned rows are blocked, and there are more: the next transaction scans them."""
    more: bool
    """Other rows may be free as well."""
    undecided: bool
    """Some rows wait for a row that is just leaving its lane, or another claim examines them."""
    acknowledged: list[int]
    """Rows whose acknowledgment was stored with the claim."""


_NOTHING_CLAIMED = LaneClaim([], scan_incomplete=False, more=False, undecided=True, acknowledged=[])


class Lanes:
    """The lanes of one queue. Each method needs a connection in a write transaction."""

    def __init__(
        self,
        database: Database,
        statements: LaneStatements,
        *,
        parked_block: bool,
        timer: Callable[[], float] = time.monotonic,
        are_acknowledged: Callable[[Sequence[int]], bool] = lambda _: False,
        session: CurrentSession = no_heartbeat_session,
    ) -> None:
        """
        With `parked_block`, parked rows keep their position. If `session` is given, a claim gets
        nothing unless the server of the database holds the node's heartbeat lock.

        `are_acknowledged` returns True if the acknowledgments of all given messages were sent.
        """
        self._sql, self._are_acknowledged = statements, are_acknowledged
        self._staying = (
            {QueueState.QUEUED, QueueState.PARKED} if parked_block else {QueueState.QUEUED}
        )
        self._is_postgresql = database.dialect == "postgresql"
        self._has_heartbeats = database.has_heartbeats
        self._needs_lock = self._has_heartbeats and session is not no_heartbeat_session
        self._try_lock = database.try_lock
        # Messages are partitioned on PostgreSQL; most scans skip most partitions.
        partitioned = self._is_postgresql and statements is INBOX
        due = f"{statements.candidates} {database.skip_locked}"
        self._watermark = ScanWatermark()
        self._timer = timer
        self._candidates = dialect_statement(statements.candidates_from if partitioned else due)
        self._is_partitioned = partitioned
        self._owned = key_statement(f"{statements.held} {database.lock_rows}")
        self._overdue = text(f"{statements.overdue} {database.skip_locked}")
        self._database = database
        self._pulls = not self._is_postgresql and statements is INBOX

    def claim(
        self,
        connection: Connection,
        *,
        owner: str,
        now: int,
        lease: int,
        limit: int,
        destination: str = "",
    ) -> LaneClaim:
        """Claim up to `limit` rows for the owner; of the outbox, those of a destination."""
        if self._has_lost_heartbeat(connection, owner):
            return _NOTHING_CLAIMED
        window = max(limit, _WINDOW)
        lease_until = claim_time(connection, now) + lease
        position = self._watermark.position(self._timer())
        parameters = {"now": now, "destination": destination, "limit": window}
        claimed, acknowledged = list[int](), list[int]()
        more_to_pull = self._pulls and pull(self._database, connection)
        for _ in range(_ROUNDS):
            rows = self._scan(connection, position, parameters)
            self._watermark.record(position, [row.id for row in rows], self._timer())
            free, blocked = self._split_candidates(connection, [row.id for row in rows])
            heads = [row for row in rows if row.id in free][: limit - len(claimed)]
            claimed_now = self._claim_positions(connection, heads)
            acknowledged += self._claim_rows(claimed_now, connection, owner, lease_until)
            claimed += claimed_now
            if len(rows) < window or len(claimed) == limit or not blocked:
                more = len(rows) >= window or len(heads) < len(free) or more_to_pull
                undecided = len(free) + len(blocked) < len(rows) or len(claimed_now) < len(heads)
                return LaneClaim(
                    claimed,
                    scan_incomplete=False,
                    more=more,
                    undecided=undecided,
                    acknowledged=acknowledged,
                )
        return LaneClaim(
            claimed, scan_incomplete=True, more=True, undecided=True, acknowledged=acknowledged
        )

    def _has_lost_heartbeat(self, connection: Connection, owner: str) -> bool:
        """True if the node's heartbeat lock is free: its session ended, or is elsewhere."""
        return self._needs_lock and self._try_lock(connection, lock_name(owner))

    def expect_old_rows(self) -> None:
        """Scan old rows soon. From any thread."""
        self._watermark.expect_old_rows()

    def settle(
        self, connection: Connection, owner: str, now: int, settlements: Sequence[Settlement]
    ) -> SettlementResult:
        """
        Settle claimed rows.

        Rows that were claimed again after the lease expired, and later rows with the same ids, are
        left as they are.
        """
        if not settlements:
            return SettlementResult(set(), unblocked_any=False)
        wanted = {settlement.row_id: settlement for settlement in settlements}
        found = execute_keys(connection, self._owned, list(wanted), owner=owner)
        rows = [row for row in found if wanted[row.id].is_about(row.stored_at, row.attempts)]
        self._write_settlements(connection, [wanted[row.id] for row in rows], now)
        staying = [row for row in rows if wanted[row.id].state in self._staying]
        leaving = [row for row in rows if wanted[row.id].state not in self._staying]
        unblocked = [self._free(connection, staying), self._leave(connection, leaving)]
        return SettlementResult({row.id for row in rows}, any(unblocked))

    def requeue_expired(
        self,
        connection: Connection,
        *,
        owner: str,
        now: int,
        own: str = "",
        except_ids: Collection[int] = (),
    ) -> list[int]:
        """
        Requeue rows that `owner` claimed, and rows whose lease has expired.

        If a lease ends later than the longest lease allows, the clock was set or the machine has
        rebooted since: it counts as expired. Rows whose owner holds its heartbeat lock are skipped,
        because clocks differ; those of `own`, which is this process, are not. Attempts are kept, so
        that a message that kills each worker is parked in the end.
        """
        moment = claim_time(connection, now)
        parameters = {"owner": owner, "now": moment, "latest": moment + _MAX_LEASE}
        overdue = connection.execute(self._overdue, parameters)
        found = [row for row in overdue if row.id not in except_ids]
        known = {owner, own}
        others = {row.owner for row in found} - known
        if others and self._has_heartbeats:
            known |= without_heartbeat(connection, others)
        rows = [row for row in found if row.owner in known or not self._has_heartbeats]
        state = next_state(QueueState.CLAIMED, QueueEvent.INTERRUPTED)
        returned = [Settlement(row.id, state, code="interrupted") for row in rows]
        self._write_settlements(connection, returned, now)
        self._free(connection, rows)
        return [row.id for row in rows]

    def extend(
        self, connection: Connection, owner: str, row_ids: Sequence[int], now: int, lease: int
    ) -> set[int]:
        """Extend claims to `lease` ms from now; return the ids of those that were extended."""
        if not row_ids:
            return set()
        until = claim_time(connection, now) + lease
        rows = execute_keys(connection, self._sql.extend, row_ids, owner=owner, lease_until=until)
        return set(rows.scalars())

    def enter(self, connection: Connection, row_id: int, lanes: Iterable[int]) -> None:
        execute_rows(connection, self._sql.enter, [(lane, row_id) for lane in lanes])

    def leave(self, connection: Connection, row_id: int, lanes: Iterable[int]) -> None:
        """Remove a row from lanes and unblock the rows behind it."""
        self._free_positions(connection, self._sql.leave, [(lane, row_id) for lane in lanes])

    def _scan(
        self, connection: Connection, position: int, parameters: Mapping[str, Any]
    ) -> list[Any]:
        """Return candidates from an id on, of all rows where messages are not partitioned."""
        if not self._is_partitioned:
            return execute(connection, self._candidates, **parameters).all()
        # `floor` is a literal and not a parameter, because a generic plan would lock all
        # partitions.
        written = self._candidates.postgres.replace(
            _FLOOR_PARAMETER, str(ScanWatermark.partition_start(position))
        )
        return execute_sql(connection, written, {**parameters, "near": position}).all()

    def _split_candidates(
        self, connection: Connection, row_ids: list[int]
    ) -> tuple[set[int], set[int]]:
        """Split candidates into free and blocked ones, and mark the blocked ones."""
        if not row_ids:
            return set(), set()
        # This is a separate statement after the candidates are locked, because it must see
        # everything that was committed until then.
        blockers: dict[int, LanePosition] = {
            row.id: (row.lane, row.blocker)
            for row in execute_keys(connection, self._sql.blockers, row_ids)
            if row.blocker is not None
        }
        # A transaction that is removing a row from its lane does not see the rows that wait for it.
        # These rows stay candidates.
        staying = self._lock_positions(connection, set(blockers.values()))
        blocked = {row_id for row_id, place in blockers.items() if place in staying}
        if blocked:
            execute_keys(connection, self._sql.block, sorted(blocked))
        return set(row_ids) - blockers.keys(), blocked

    def _lock_positions(
        self, connection: Connection, positions: set[LanePosition]
    ) -> set[LanePosition]:
        """Return the positions that no transaction is about to leave, and lock them."""
        if not is_postgresql(connection):  # SQLite: no other writer
            return positions
        rows = execute_rows(connection, self._sql.guard, sorted(positions))
        return set() if rows is None else set(rows)

    def _claim_positions(self, connection: Connection, rows: Sequence[Row[Any]]) -> list[int]:
        """
        Mark the positions of rows as claimed; return the rows for which that succeeded at once.

        Another claim may hold these positions while it marks a row behind them as blocked, and may
        need a position that this claim holds. Waiting could deadlock, so locked positions are
        skipped.
        """
        positions = self._positions(rows)
        marked = execute_rows(connection, self._sql.claim_lane, positions)
        if marked is None or not is_postgresql(connection):  # SQLite: the only writer
            return [row.id for row in rows]
        done = set(marked)
        ids = {row.id for row in rows} - {row_id for _, row_id in set(positions) - done}
        incomplete = sorted(position for position in done if position[1] not in ids)
        execute_rows(connection, self._sql.free_lane, incomplete)
        return [row.id for row in rows if row.id in ids]

    def _claim_rows(
        self, ids: list[int], connection: Connection, owner: str, lease_until: int
    ) -> list[int]:
        """Claim rows; return those whose acknowledgment was stored with the claim."""
        acknowledged = ids if ids and self._are_acknowledged(ids) else []
        if ids:
            statement = self._sql.claim_acknowledged if acknowledged else self._sql.claim
            execute_keys(connection, statement, ids, owner=owner, lease_until=lease_until)
        return acknowledged

    def _write_settlements(
        self, connection: Connection, settlements: Sequence[Settlement], now: int
    ) -> None:
        rows: list[tuple[Any, ...]] = [
            (
                settlement.row_id,
                settlement.state.value,
                settlement.not_before,
                settlement.failure,
                settlement.code,
                settlement.detail,
                now,
            )
            for settlement in settlements
        ]
        if self._sql.settles_notes:
            rows = [
                (*row, settlement.notes) for row, settlement in zip(rows, settlements, strict=True)
            ]
        execute_rows(connection, self._sql.settle, rows)

    def _free(self, connection: Connection, rows: Sequence[Row[Any]]) -> bool:
        return self._free_positions(connection, self._sql.free_lane, self._positions(rows))

    def _leave(self, connection: Connection, rows: Sequence[Row[Any]]) -> bool:
        return self._free_positions(connection, self._sql.leave, self._positions(rows))

    def _free_positions(
        self, connection: Connection, statement: BulkStatement, positions: Sequence[LanePosition]
    ) -> bool:
        """Apply a statement, unblock the rows behind its positions; True if any was unblocked."""
        execute_rows(connection, statement, positions)
        lanes = [(lane,) for lane, _ in positions]
        if not lanes:
            return False
        if not is_postgresql(connection):
            return execute_sql(connection, self._sql.unblock_head, lanes, many=True).rowcount != 0
        heads = execute_sql(connection, self._sql.heads.postgres, self._sql.heads.arrays(lanes))
        waiting = sorted({value for value in heads.scalars() if value is not None})
        self._watermark.include(waiting)
        return bool(waiting) and execute_keys(connection, self._sql.unblock, waiting).rowcount != 0

    def _positions(self, rows: Sequence[Row[Any]]) -> list[LanePosition]:
        """Return the positions of rows in an order that is the same for all nodes: no deadlocks."""
        return sorted((lane, row.id) for row in rows for lane in self._lanes(row))

    def _lanes(self, row: Row[Any]) -> list[int]:
        values: list[int | None] = [getattr(row, name) for name in self._sql.lanes]
        return [value for value in values if value is not None]


class LaneQueue:
    """
    A queue in lanes, as one owner claims it: `Inbox` and `Outbox`.

    `owner` identifies the claims of this process among all nodes. It must be the same after a
    restart: the node finds its former claims by it. `lease` is in milliseconds.
    """

    def __init__(self, database: Database, owner: str, lanes: Lanes, lease: int) -> None:
        self.lease = lease
        self._database = database
        self._owner = owner
        self._lanes = lanes

    def extend(self, ids: Sequence[int], now: int) -> set[int]:
        """
        Extend the leases of claims: they end one full lease after `now`.

        Return the ids that are still claimed by this owner.
        """
        with self._database.write() as connection:
            return self._lanes.extend(connection, self._owner, ids, now, self.lease)

    def requeue_expired_claims(
        self, now: int, *, include_own: bool = False, except_ids: Collection[int] = ()
    ) -> int:
        """
        Requeue rows whose lease has expired; return the number.

        With `include_own` also those that this owner claimed before it was restarted, except
        `except_ids`, which are in progress.
        """
        owner, own = self._owner if include_own else "", self._owner
        with self._database.write() as connection:
            return len(
                self._lanes.requeue_expired(
                    connection, owner=owner, now=now, own=own, except_ids=except_ids
                )
            )

    def requeue_claims(self, owner: str, now: int) -> int:
        """Requeue the claims of another node unless it is alive after all; return the number."""
        with self._database.write() as connection:
            if not self._database.try_lock(connection, lock_name(owner)):
                return 0
            return len(self._lanes.requeue_expired(connection, owner=owner, now=now))

    def _return_claims(
        self, connection: Connection, ids: Iterable[int], now: int, code: str, detail: str = ""
    ) -> Collection[int]:
        """Return claims whose rows were not handled; return the ids that this owner still had."""
        settlements = [
            Settlement.of(row_id, QueueEvent.INTERRUPTED, None, code, detail, 0) for row_id in ids
        ]
        owned = self._lanes.settle(connection, self._owner, now, settlements).owned
        self._database.notify(connection, CHANNEL)
        return owned
