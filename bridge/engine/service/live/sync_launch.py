"""
SyncLaunch: a user's persistent window follows the newest launch (interface reference, launch).

The launch stores its target. The window reads the target and opens it, or records why it does not.
A stored target also reaches a window that is temporarily disconnected.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, update

from bridge.engine.errors import StateConflict
from bridge.engine.launch import AwaitedWindow
from bridge.engine.records.tables import SyncTarget, metadata
from bridge.engine.rules.sync_launch import FollowAnswer, follows
from bridge.engine.service.accounts.sessions import BrowserSession
from bridge.engine.service.live.windows import persistent_windows

TARGETS = metadata.tables[str(SyncTarget.__tablename__)]


class LaunchSuperseded(StateConflict):
    """A newer launch exists, or there was none."""

    code = "superseded"
    text = "a newer launch has replaced this one"


@dataclass(frozen=True, slots=True)
class NewTarget:
    """A launch that the user's window should follow; `report_id` is None without a report."""

    site_id: str
    account_id: int
    sequence: int
    handle_hash: str
    report_id: str | None
    accession: str


@dataclass(frozen=True, slots=True)
class LaunchTarget:
    """The launch that a user's windows should follow."""

    sequence: int
    handle_hash: str
    report_id: str | None
    accession: str
    answer: FollowAnswer

    def as_json(self) -> dict[str, Any]:
        return {"sequence": self.sequence, "accession": self.accession}


def reserve(connection: Connection, site_id: str, account_id: int, now: int) -> int:
    """Return the sequence number of a user's next launch; a pending older target is skipped."""
    own = _own(site_id, account_id)
    counted = update(TARGETS).where(*own).values(sequence=TARGETS.c.sequence + 1)
    found = connection.execute(counted.returning(TARGETS.c.sequence)).scalar_one_or_none()
    if found is not None:
        return int(found)
    first = insert(TARGETS).values(
        site_id=site_id,
        account_id=account_id,
        sequence=1,
        handle_hash="",
        accession="",
        launched_at=now,
        answer=FollowAnswer.FOLLOWED,
        reason="",
    )
    connection.execute(first)
    return 1


def set_target(connection: Connection, new: NewTarget, now: int) -> AwaitedWindow | None:
    """Store the target of the user's window; return the open window that has to follow, if any."""
    changed = connection.execute(
        update(TARGETS)
        .where(*_own(new.site_id, new.account_id), TARGETS.c.sequence == new.sequence)
        .values(
            handle_hash=new.handle_hash,
            report_id=new.report_id,
            accession=new.accession,
            launched_at=now,
            answer=FollowAnswer.PENDING,
            reason="",
        )
    )
    if changed.rowcount == 0 or not _is_awaited(connection, new, now):
        return None
    return AwaitedWindow(new.site_id, new.account_id, new.sequence)


def _is_awaited(connection: Connection, new: NewTarget, now: int) -> bool:
    """True if the user's newest persistent window shows another report."""
    windows = persistent_windows(connection, new.site_id, new.account_id, now)
    newest = max(windows, key=lambda row: row.session_pk, default=None)
    return newest is not None and newest.report_id != new.report_id


def current_target(connection: Connection, site_id: str, account_id: int) -> LaunchTarget | None:
    """Return the target of a user's windows, None before the first launch."""
    row = _row(connection, site_id, account_id)
    return None if row is None else _target(row)


def pending_target(
    connection: Connection, session: BrowserSession, now: int
) -> LaunchTarget | None:
    """Return the launch that this window should follow now, or None."""
    if not session.persistent:
        return None
    target = current_target(connection, session.site_id, session.account_id)
    if target is None or target.report_id == session.report_id:
        return None
    rows = persistent_windows(connection, session.site_id, session.account_id, now)
    windows = [row.session_pk for row in rows]
    chosen = follows(
        window=session.pk,
        windows=windows,
        seen=session.sequence,
        sequence=target.sequence,
        answer=target.answer,
    )
    return target if chosen else None


def lock_target(connection: Connection, session: BrowserSession, sequence: int) -> LaunchTarget:
    """Lock the target that a window is about to open; raise LaunchSuperseded for an older one."""
    row = _row(connection, session.site_id, session.account_id, lock=True)
    if row is None or row.sequence != sequence or not session.persistent:
        raise LaunchSuperseded
    return _target(row)


def record_answer(
    connection: Connection,
    owner: tuple[str, int],
    sequence: int,
    outcome: FollowAnswer,
    reason: str = "",
) -> None:
    """Store a window's answer to the launch of a (site, account), if it is still the newest."""
    connection.execute(
        update(TARGETS)
        .where(*_own(*owner), TARGETS.c.sequence == sequence)
        .values(answer=outcome, reason=reason)
    )


def _row(connection: Connection, site_id: str, account_id: int, *, lock: bool = False) -> Any:
    query = select(TARGETS).where(*_own(site_id, account_id))
    return connection.execute(query.with_for_update() if lock else query).first()


def _own(site_id: str, account_id: int) -> tuple[Any, Any]:
    return TARGETS.c.site_id == site_id, TARGETS.c.account_id == account_id


def _target(row: Any) -> LaunchTarget:
    return LaunchTarget(
        row.sequence, row.handle_hash, row.report_id, row.accession, FollowAnswer(row.answer)
    )
