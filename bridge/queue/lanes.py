"""Lanes: claim the heads of lanes, release them, and the watermark that scans start from.

What waits is nearly always among the newest. So a look at all partitions, and at all that was
claimed and is not cleaned up yet, is needed only now and then, for what was put off long ago or is
replayed; in between, the others are left alone. Pure: the caller keeps time. Nothing is lost by
it: lanes keep the order, whatever was looked at.

A row may be claimed when nothing unfinished stands before it in any of its lanes. What turns
out to stand behind another is marked `blocked` and looked at again when that one leaves: each
row is passed over at most once for each it waits for, so a claim costs the same at any backlog.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from bridge.queue.claims import Settlement, SettlementResult
from bridge.queue.statements import ENTERED_UP_TO, INBOX, SET_ENTERED_UP_TO, LaneStatements
from bridge.queue.states import QueueEvent, QueueState, next_state
from bridge.store.database import Database
from bridge.store.lease_clock import claim_time
from bridge.store.presence import without_heartbeat
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
"""Seconds between looks at everything: so late may be noticed what an old message waits for."""

HURRIED_SCAN_SECONDS = 0.25
"""Seconds between them where others say that something old may be due."""

MARGIN = 20_000
"""So far below what was seen may another's transaction still have to commit."""

PARTITION_STEP = 100_000
"""Partitions are named by whole ones of these: so there are few statements to prepare."""


class ScanWatermark:
    """What one worker remembers of where it found something."""

    def __init__(self, every: float = FULL_SCAN_SECONDS, margin: int = MARGIN) -> None:
        self._every = every
        self._margin = margin
        self._everything_at = float("-inf")
        self._id = 0
        self._newest = 0
        self._hurried = False

    def expect_old_rows(self) -> None:
        """Look at everything soon: somebody may have queued what is old. From any thread."""
        self._hurried = True

    def position(self, now: float) -> int:
        """Give the id from which on to look, 0 for all of them; `now` is in seconds."""
        if now < self._everything_at + (
            min(HURRIED_SCAN_SECONDS, self._every) if self._hurried else self._every
        ):
            return self._id
        self._hurried = False  # whoever hurries us from now on may have come too late for this
        return 0

    def record(self, floor: int, ids: Sequence[int], now: float) -> None:
        """Take note of the candidates that a look from `floor` on has found."""
        self._newest = max(self._newest, *ids) if ids else self._newest
        if floor == 0:
            self._everything_at = now
            self._id = max(0, min([self._newest, *ids]) - self._margin)

    @staticmethod
    def of_partitions(floor: int) -> int:
        """Give the id below which partitions are left alone: what was put off is rarely older."""
        return max(0, floor - PARTITION_STEP) // PARTITION_STEP * PARTITION_STEP

    def moved_up(self, ids: Collection[int]) -> None:
        """Take note of those that nothing stands before any more, however old they are."""
        self._id = min([self._id, *ids])


LanePosition = tuple[int, int]
"""A lane, and the id of the row that stands there."""

_FLOOR = "%(floor)s"
_ROUNDS = 5
_LONGEST_LEASE = 10 * 60_000  # ms
_WINDOW = 200  # candidates looked at in a round: what is blocked must not hide what is not


@dataclass(frozen=True, slots=True)
class LaneClaim:
    """
    What a claim took, in the order to take it.

    `list_unseen`: all that was looked at is blocked, and there is more; a long backlog is sorted
    out in
    several transactions, so that nobody waits long for one. `more`: others may be free as well.
    `undecided`: some stand behind one that is just leaving, and nobody will tell when it has left,
    or another claim looks at their places just now.
    `told` are those with which it was written down that their senders were told.
    """

    ids: list[int]
    unseen: bool
    more: bool
    undecided: bool
    told: list[int]


class Lanes:
    """The lanes of one queue. Every method wants a connection in a write transaction."""

    def __init__(
        self,
        database: Database,
        statements: LaneStatements,
        *,
        parked_block: bool,
        timer: Callable[[], float] = time.monotonic,
        are_told: Callable[[Sequence[int]], bool] = lambda _: False,
    ) -> None:
        """With `parked_block` what is parked keeps its place; `contains_all` as
        `inbox.AcknowledgmentNotes` has it.
        """
        self._sql, self._are_told = statements, are_told
        self._staying = (
            {QueueState.QUEUED, QueueState.PARKED} if parked_block else {QueueState.QUEUED}
        )
        self._are_seen = database.dialect == "postgresql"
        # Messages lie in partitions there: most are left alone most of the time.
        parted = self._are_seen and statements is INBOX
        due = f"{statements.candidates} {database.skip_locked}"
        self._floor = ScanWatermark()
        self._timer = timer
        self._candidates = dialect_statement(statements.candidates_from if parted else due)
        self._is_parted = parted
        self._held = key_statement(f"{statements.held} {database.lock_rows}")
        self._overdue = text(f"{statements.overdue} {database.skip_locked}")
        # SQLite has one writer, so ids become visible in their order: all up to one can be
        # given their places when the first of them is asked for. Where messages are only
        # accepted that is a page of the lanes' index less for each.
        self._enrols = not self._are_seen and statements is INBOX

    def claim(
        self,
        connection: Connection,
        *,
        owner: str,
        now: int,
        lease: int,
        limit: int,
        channel: str = "",
    ) -> LaneClaim:
        """Take up to `limit` heads for the owner."""
        window = max(limit, _WINDOW)
        lease_until = claim_time(connection, now) + lease
        floor = self._floor.position(self._timer())
        parameters = {"now": now, "channel": channel, "limit": window}
        claimed, told = list[int](), list[int]()
        for _ in range(_ROUNDS):
            rows = self._look(connection, floor, parameters)
            self._floor.record(floor, [row.id for row in rows], self._timer())
            if self._enrols and rows:
                self._enrol(connection, max(row.id for row in rows))
            free, blocked = self._sort_out(connection, [row.id for row in rows])
            heads = [row for row in rows if row.id in free][: limit - len(claimed)]
            mine = self._mark(connection, heads)
            told += self._take(mine, connection, owner, lease_until)
            claimed += mine
            if len(rows) < window or len(claimed) == limit or not blocked:
                more = len(rows) >= window or len(heads) < len(free)
                undecided = len(free) + len(blocked) < len(rows) or len(mine) < len(heads)
                return LaneClaim(claimed, unseen=False, more=more, undecided=undecided, told=told)
        return LaneClaim(claimed, unseen=True, more=True, undecided=True, told=told)

    def expect_old_rows(self) -> None:
        """Look among the old soon: others have queued something. From any thread."""
        self._floor.expect_old_rows()

    def settle(
        self, connection: Connection, owner: str, now: int, settlements: Sequence[Settlement]
    ) -> SettlementResult:
        """
        Write down what became of claimed rows.

        A row whose lease ended meanwhile belongs to another, who will settle it.
        """
        if not settlements:
            return SettlementResult(set(), moved_up=False)
        wanted = {each.row_id: each for each in settlements}
        rows = execute_keys(connection, self._held, list(wanted), owner=owner).all()
        self._write(connection, [wanted[row.id] for row in rows], now)
        staying = [row for row in rows if wanted[row.id].state in self._staying]
        leaving = [row for row in rows if wanted[row.id].state not in self._staying]
        moved = [self._move(connection, staying), self._remove(connection, leaving)]
        return SettlementResult({row.id for row in rows}, any(moved))

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
        Queue again what `owner` had claimed before it died, and whose lease ran out
        (`except_ids`: never).

        A lease further ahead than any is of before a boot, or of a clock that was set. Not what
        another is seen to live with: its clock or ours was set. Attempts are kept:
        what kills a worker each time must come to an end.
        """
        moment = claim_time(connection, now)
        given = {"owner": owner, "now": moment, "latest": moment + _LONGEST_LEASE}
        asked = connection.execute(self._overdue, given)
        found = [row for row in asked if row.id not in except_ids]
        known = {owner, own}
        others = {row.owner for row in found} - known
        if others and self._are_seen:
            known |= without_heartbeat(connection, others)
        rows = [row for row in found if row.owner in known or not self._are_seen]
        state = next_state(QueueState.CLAIMED, QueueEvent.INTERRUPTED)
        returned = [Settlement(row.id, state, code="interrupted") for row in rows]
        self._write(connection, returned, now)
        self._move(connection, rows)
        return [row.id for row in rows]

    def extend(
        self, connection: Connection, owner: str, row_ids: Sequence[int], now: int, lease: int
    ) -> None:
        """Keep claims for `lease` ms from now."""
        if row_ids:
            lease_until = claim_time(connection, now) + lease
            execute_keys(
                connection, self._sql.extend, row_ids, owner=owner, lease_until=lease_until
            )

    def enter(self, connection: Connection, row_id: int, lanes: Iterable[int]) -> None:
        """Take a row's place, by its id, in each of its lanes."""
        execute_rows(connection, self._sql.enter, [(lane, row_id) for lane in lanes])

    def leave(self, connection: Connection, row_id: int, lanes: Iterable[int]) -> None:
        """Give up a row's places, and let those behind it move up."""
        self._let_go(connection, self._sql.leave, [(lane, row_id) for lane in lanes])

    def _look(self, connection: Connection, floor: int, parameters: Mapping[str, Any]) -> list[Any]:
        """Give the candidates from an id on; all of them where messages lie in one table."""
        if not self._is_parted:
            return execute(connection, self._candidates, **parameters).all()
        # Written out, not bound: a plan for all partitions would lock each of them.
        written = self._candidates.postgres.replace(_FLOOR, str(ScanWatermark.of_partitions(floor)))
        return execute_sql(connection, written, {**parameters, "near": floor}).all()

    def _sort_out(self, connection: Connection, row_ids: list[int]) -> tuple[set[int], set[int]]:
        """Tell which candidates are free, and mark as blocked those that are not."""
        if not row_ids:
            return set(), set()
        # A statement of its own, after the candidates are locked: it must see what was
        # committed until then.
        blockers: dict[int, LanePosition] = {
            row.id: (row.lane, row.blocker)
            for row in execute_keys(connection, self._sql.blockers, row_ids)
            if row.blocker is not None
        }
        # One that is just leaving cannot see who waits for it: what stands behind that one
        # stays a candidate.
        staying = self._hold(connection, set(blockers.values()))
        blocked = {row_id for row_id, place in blockers.items() if place in staying}
        if blocked:
            execute_keys(connection, self._sql.block, sorted(blocked))
        return set(row_ids) - blockers.keys(), blocked

    def _enrol(self, connection: Connection, upto: int) -> None:
        """Give all messages up to one their places in their lanes, before anybody looks there."""
        (enrolled,) = execute(connection, ENTERED_UP_TO).scalars()
        if upto > enrolled:
            execute(connection, self._sql.enrol, enrolled=enrolled, upto=upto)
            execute(connection, SET_ENTERED_UP_TO, upto=upto)

    def _hold(self, connection: Connection, places: set[LanePosition]) -> set[LanePosition]:
        """Give those of the places that nobody is about to leave, and keep it so."""
        if not is_postgresql(connection):  # nobody else is about to do anything
            return places
        rows = execute_rows(connection, self._sql.guard, sorted(places))
        return set() if rows is None else set(rows)

    def _mark(self, connection: Connection, rows: Sequence[Row[Any]]) -> list[int]:
        """
        Mark the places of rows as in hand; give the rows of which that could be done at once.

        Another claim that found one behind these holds their places until it has written that
        down, and may want one of which we hold the place: who waited for each other would wait for
        the server to break the circle.
        """
        places = self._places(rows)
        marked = execute_rows(connection, self._sql.claim_lane, places)
        if marked is None or not is_postgresql(connection):  # there it is the only writer
            return [row.id for row in rows]
        done = set(marked)
        ids = {row.id for row in rows} - {row_id for _, row_id in set(places) - done}
        execute_rows(connection, self._sql.free_lane, sorted(e for e in done if e[1] not in ids))
        return [row.id for row in rows if row.id in ids]

    def _take(
        self, ids: list[int], connection: Connection, owner: str, lease_until: int
    ) -> list[int]:
        """Claim rows; give those of `Taken.told`."""
        told = ids if ids and self._are_told(ids) else []
        if ids:
            how = self._sql.claim_told if told else self._sql.claim
            execute_keys(connection, how, ids, owner=owner, lease_until=lease_until)
        return told

    def _write(self, connection: Connection, settlements: Sequence[Settlement], now: int) -> None:
        rows = [
            (each.row_id, each.state.value, each.not_before, each.failure, each.code, each.detail)
            for each in settlements
        ]
        execute_rows(connection, self._sql.settle, [(*row, now) for row in rows])

    def _move(self, connection: Connection, rows: Sequence[Row[Any]]) -> bool:
        """Let go of rows that keep their place."""
        return self._let_go(connection, self._sql.free_lane, self._places(rows))

    def _remove(self, connection: Connection, rows: Sequence[Row[Any]]) -> bool:
        """Let go of rows that leave their lanes."""
        return self._let_go(connection, self._sql.leave, self._places(rows))

    def _let_go(
        self, connection: Connection, how: BulkStatement, places: Sequence[LanePosition]
    ) -> bool:
        """Free places, then let those move up who stood behind them; tell whether any did."""
        execute_rows(connection, how, places)
        lanes = [(lane,) for lane, _ in places]
        if not lanes:
            return False
        if not is_postgresql(connection):
            return execute_sql(connection, self._sql.unblock_head, lanes, many=True).rowcount != 0
        heads = execute_sql(connection, self._sql.heads.postgres, self._sql.heads.arrays(lanes))
        waiting = sorted({each for each in heads.scalars() if each is not None})
        self._floor.moved_up(waiting)
        return bool(waiting) and execute_keys(connection, self._sql.unblock, waiting).rowcount != 0

    def _places(self, rows: Sequence[Row[Any]]) -> list[LanePosition]:
        """Give each row's places, in an order that is the same for everyone: no deadlocks."""
        return sorted((lane, row.id) for row in rows for lane in self._lanes(row))

    def _lanes(self, row: Row[Any]) -> list[int]:
        values: list[int | None] = [getattr(row, name) for name in self._sql.lanes]
        return [value for value in values if value is not None]
