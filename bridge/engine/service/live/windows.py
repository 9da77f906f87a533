"""
Open windows: which report pages are open, whose they are, which one writes, and which one follows.

The process that serves a window's stream renews its row. A window that is no longer renewed counts
as closed, for example after its process was killed. Times are those of `bridge.store.lease_clock`,
because the clocks of nodes differ.

SyncLaunch: a user's persistent window follows the newest launch (interface reference, launch). The
launch stores its target. The window reads the target and opens it, or records why it does not. A
stored target also reaches a window that is temporarily disconnected.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.launch import AwaitedWindow
from bridge.engine.records.tables import SyncTarget, Window, metadata
from bridge.engine.rules.sync_launch import FollowAnswer, follows
from bridge.engine.service.accounts.sessions import SESSIONS, BrowserSession
from bridge.engine.service.signing.lease import open_windows
from bridge.store.lease_clock import lease_time

WINDOWS = metadata.tables[str(Window.__tablename__)]
TARGETS = metadata.tables[str(SyncTarget.__tablename__)]
REPORTS = metadata.tables["engine_report"]
ACCOUNTS = metadata.tables["engine_account"]
MEMBERSHIPS = metadata.tables["engine_membership"]

RENEWED_EVERY_MS = 10_000
HANDOVER = "handover"
"""The member of a session's details with the time at which it was asked to hand over the lease."""

HANDOVER_MS = 10_000
"""After this time a handover request expires."""


@dataclass(frozen=True, slots=True)
class OtherWindow:
    """Another window at the same report."""

    name: str
    same_user: bool
    writing: bool

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "sameUser": self.same_user, "writing": self.writing}


def open_window(connection: Connection, session: BrowserSession, stream: str, now: int) -> None:
    """Store that a page is open; a newer stream of the same page replaces the row's stream."""
    values = {
        "site_id": session.site_id,
        "account_id": session.account_id,
        "report_id": session.report_id,
        "persistent": session.persistent,
        "stream": stream,
        "seen_at": lease_time(connection, now),
    }
    own = WINDOWS.c.session_pk == session.pk
    if connection.execute(update(WINDOWS).where(own).values(**values)).rowcount == 0:
        connection.execute(insert(WINDOWS).values(session_pk=session.pk, **values))


def renew(connection: Connection, streams: Collection[str], now: int) -> None:
    """Record that the pages of these streams are still open."""
    statement = update(WINDOWS).where(WINDOWS.c.stream.in_(sorted(streams)))
    connection.execute(statement.values(seen_at=lease_time(connection, now)))


def close_windows(connection: Connection, streams: Collection[str]) -> None:
    """Delete the windows of streams that have ended."""
    connection.execute(delete(WINDOWS).where(WINDOWS.c.stream.in_(sorted(streams))))


def other_windows(connection: Connection, session: BrowserSession, now: int) -> list[OtherWindow]:
    """Return the other windows at a session's report; windows of other users first."""
    rows = connection.execute(
        select(WINDOWS.c.session_pk, WINDOWS.c.account_id, MEMBERSHIPS.c.name, ACCOUNTS.c.email)
        .join_from(WINDOWS, ACCOUNTS, WINDOWS.c.account_id == ACCOUNTS.c.id)
        .join(
            MEMBERSHIPS,
            (MEMBERSHIPS.c.account_id == WINDOWS.c.account_id)
            & (MEMBERSHIPS.c.site_id == WINDOWS.c.site_id),
        )
        .where(
            WINDOWS.c.report_id == session.report_id,
            WINDOWS.c.session_pk != session.pk,
            *open_windows(lease_time(connection, now)),
        )
        .order_by(WINDOWS.c.session_pk)
    ).all()
    if not rows:
        return []
    writer = _lease_holder(connection, session.report_id)
    found = [
        OtherWindow(
            row.name or row.email,
            row.account_id == session.account_id,
            writer == f"session {row.session_pk}",
        )
        for row in rows
    ]
    return sorted(found, key=lambda window: (window.same_user, not window.writing))


def _lease_holder(connection: Connection, report_id: str) -> str | None:
    query = select(REPORTS.c.lease_holder).where(REPORTS.c.report_id == report_id)
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found


def persistent_windows(
    connection: Connection, site_id: str, account_id: int, now: int
) -> Sequence[Any]:
    """Return the (session_pk, report_id) of a user's open windows that follow launches."""
    query = select(WINDOWS.c.session_pk, WINDOWS.c.report_id).where(
        WINDOWS.c.account_id == account_id,
        WINDOWS.c.site_id == site_id,
        WINDOWS.c.persistent,
        *open_windows(lease_time(connection, now)),
    )
    return connection.execute(query).all()


def request_handover(
    connection: Connection, report_id: str, session_pk: int | None, now: int
) -> int | None:
    """
    Ask the open window that writes a report to save its text; return its session.

    `session_pk` is the session that takes over. None if no other open window writes.
    """
    writer = writing_window(connection, report_id, session_pk, now)
    if writer is None:
        return None
    _store_handover(connection, writer, lease_time(connection, now))
    return writer


def writing_window(
    connection: Connection, report_id: str, session_pk: int | None, now: int
) -> int | None:
    moment = lease_time(connection, now)
    writer = (_lease_holder(connection, report_id) or "").removeprefix("session ")
    if not writer.isdigit() or int(writer) == session_pk:
        return None
    query = select(WINDOWS.c.session_pk).where(
        WINDOWS.c.session_pk == int(writer),
        WINDOWS.c.report_id == report_id,
        *open_windows(moment),
    )
    return connection.execute(query).scalars().first()


def handover_requested_at(connection: Connection, session_pk: int, now: int) -> int:
    """Return when a session was asked to hand over the lease; 0 if done or expired."""
    query = select(SESSIONS.c.details).where(SESSIONS.c.pk == session_pk)
    details = connection.execute(query).scalar_one_or_none() or {}
    requested_at = int(details.get(HANDOVER, 0))
    return requested_at if abs(lease_time(connection, now) - requested_at) < HANDOVER_MS else 0


def finish_handover(connection: Connection, session: BrowserSession) -> None:
    """Record that a session has saved its text: the lease may be taken over."""
    _store_handover(connection, session.pk, 0)


def _store_handover(connection: Connection, session_pk: int, requested_at: int) -> None:
    row = SESSIONS.c.pk == session_pk
    query = select(SESSIONS.c.details).where(row).with_for_update()
    details = connection.execute(query).scalar_one()
    values = {"details": {**details, HANDOVER: requested_at}}
    connection.execute(update(SESSIONS).where(row).values(**values))


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


def reserve_sequence(connection: Connection, site_id: str, account_id: int, now: int) -> int:
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
    """Lock the target that a window is about to open; raise `superseded` for an older one."""
    row = _row(connection, session.site_id, session.account_id, lock=True)
    if row is None or row.sequence != sequence or not session.persistent:
        raise EngineError(ErrorCode.SUPERSEDED)
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
