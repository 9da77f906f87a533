"""
Open windows: which report pages stand open, whose they are, and who of them writes.

A window is kept by the process that serves its stream; one that is not renewed any more
counts as closed, so that a killed process leaves no ghosts. Its time is that of
`bridge.store.lease_time`, for the clocks of nodes differ.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from bridge.engine.records.tables import Window, metadata
from bridge.engine.service.lease import LEASE_MS
from bridge.engine.service.sessions import Session
from bridge.store.lease_time import lease_time

WINDOWS = metadata.tables[str(Window.__tablename__)]
REPORTS = metadata.tables["engine_report"]
ACCOUNTS = metadata.tables["engine_account"]
MEMBERSHIPS = metadata.tables["engine_membership"]

RENEWED_EVERY_MS = 10_000
FRESH_MS = 25_000
"""A window that was not renewed for so long is gone."""


@dataclass(frozen=True, slots=True)
class Onlooker:
    """Another window at the same report."""

    name: str
    same_user: bool
    writing: bool

    def as_json(self) -> dict[str, Any]:
        """Return what the page is told."""
        return {"name": self.name, "sameUser": self.same_user, "writing": self.writing}


def open_window(connection: Connection, session: Session, stream: str, now: int) -> None:
    """Note that a page stands open; a newer stream of the same page takes its row over."""
    values = {
        "site_id": session.site_id,
        "account_id": session.account_id,
        "report_id": session.report_id,
        "persistent": session.persistent,
        "stream": stream,
        "seen_at": lease_time(connection, now),
    }
    mine = WINDOWS.c.session_pk == session.pk
    if connection.execute(update(WINDOWS).where(mine).values(**values)).rowcount == 0:
        connection.execute(insert(WINDOWS).values(session_pk=session.pk, **values))


def renew(connection: Connection, streams: Collection[str], now: int) -> None:
    """Note that the pages of these streams still stand open."""
    statement = update(WINDOWS).where(WINDOWS.c.stream.in_(sorted(streams)))
    connection.execute(statement.values(seen_at=lease_time(connection, now)))


def is_fresh(moment: int) -> list[ColumnElement[bool]]:
    """Give the conditions of a window that stands open; `moment` is by `lease_time`."""
    return [WINDOWS.c.seen_at > moment - FRESH_MS, WINDOWS.c.seen_at < moment + FRESH_MS]


def close_windows(connection: Connection, streams: Collection[str]) -> None:
    """Forget the windows of streams that ended."""
    connection.execute(delete(WINDOWS).where(WINDOWS.c.stream.in_(sorted(streams))))


def onlookers(connection: Connection, session: Session, now: int) -> list[Onlooker]:
    """Return the other windows at a session's report, those of others first."""
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
            *is_fresh(lease_time(connection, now)),
        )
        .order_by(WINDOWS.c.session_pk)
    ).all()
    if not rows:
        return []
    writer = _writer(connection, session.report_id, lease_time(connection, now))
    found = [
        Onlooker(
            row.name or row.email,
            row.account_id == session.account_id,
            writer == f"session {row.session_pk}",
        )
        for row in rows
    ]
    return sorted(found, key=lambda each: (each.same_user, not each.writing))


def _writer(connection: Connection, report_id: str, now: int) -> str | None:
    query = select(REPORTS.c.lease_holder).where(
        REPORTS.c.report_id == report_id,
        REPORTS.c.lease_until.between(now + 1, now + LEASE_MS),
    )
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found


def persistent_windows(
    connection: Connection, site_id: str, account_id: int, now: int
) -> Sequence[Any]:
    """Return the (session_pk, report_id) of a user's windows that follow launches."""
    query = select(WINDOWS.c.session_pk, WINDOWS.c.report_id).where(
        WINDOWS.c.account_id == account_id,
        WINDOWS.c.site_id == site_id,
        WINDOWS.c.persistent,
        *is_fresh(lease_time(connection, now)),
    )
    return connection.execute(query).all()
