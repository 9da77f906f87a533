"""
The write lease of a report: one session writes at a time, the others read.

A lease is held under the session's name for `LEASE_MS` and renewed by each action of the session.
It does not end while the session's window is open, because browsers slow down the timers of hidden
windows. Renewing it does not change the report's version. Times are those of
`bridge.store.lease_clock`.

A reloaded page has a new session. It names the tab that it replaces, and sessions of one tab share
the lease. Without this name the sessions of one user are separate windows: two tabs of one browser
have the same cookie.
"""

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Report, Window, metadata
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts.users import SiteUser, find_user
from bridge.engine.service.work import Work
from bridge.store.lease_clock import lease_time

SESSIONS = metadata.tables["engine_browser_session"]
WINDOWS = metadata.tables[str(Window.__tablename__)]

LEASE_MS = 30_000
WINDOW_EXPIRY_MS = 25_000
"""A window that was not renewed for this time counts as closed."""

LOADING_MS = 60_000
"""A page that has not opened for this time after it was requested is not waited for."""

TAB = "tab"
"""The member of a session's details that names the browser tab of its page."""


@dataclass(frozen=True, slots=True)
class Editor:
    """
    The user of a report page: account, role on the report's site, browser session.

    `tab` names the browser tab of the page; it is empty if the page has not named it.
    """

    account_id: int
    role: SiteRole
    session_id: str
    tab: str = ""

    @property
    def session_pk(self) -> int:
        """The key of the session; 0 if its name has none."""
        return _session_key(self.session_id) or 0


def is_free(work: Work, editor: Editor, report: Report) -> bool:
    """True if no other tab holds the lease."""
    if report.lease_holder in (None, editor.session_id):
        return True
    return not _is_running(work, report) or _is_of_same_tab(work, editor, report)


def is_held(work: Work, editor: Editor, report: Report) -> bool:
    """True if this session holds the lease."""
    return report.lease_holder == editor.session_id and _is_running(work, report)


def require(work: Work, editor: Editor, report: Report) -> None:
    """Raise `being_edited` while another tab holds the lease."""
    if not is_free(work, editor, report):
        raise EngineError(ErrorCode.BEING_EDITED)


def renew(work: Work, editor: Editor, report: Report) -> None:
    report.lease_holder = editor.session_id
    report.lease_until = lease_time(work.connection, work.now) + LEASE_MS
    work.session.add(report)


def release(work: Work, holder: str, report: Report) -> None:
    if report.lease_holder == holder:
        report.lease_holder = report.lease_until = None
        work.session.add(report)


def leave(work: Work, editor: Editor, report: Report) -> None:
    """
    Release the lease of a page that is being left.

    If the page is reloaded, the next page of the tab has its session already and gets the lease.
    Otherwise a second window, which waits for the lease, would get it before that page has loaded.
    """
    if report.lease_holder != editor.session_id:
        return
    reloaded = loading_session(work, editor, report)
    if reloaded is None:
        release(work, editor.session_id, report)
    else:
        renew(work, replace(editor, session_id=f"session {reloaded}"), report)


def loading_session(work: Work, editor: Editor, report: Report) -> int | None:
    """Return the user's newest session for the report whose page has not opened yet."""
    details = SESSIONS.c.details
    query = (
        select(SESSIONS.c.pk)
        .where(
            SESSIONS.c.account_id == editor.account_id,
            SESSIONS.c.pk > editor.session_pk,
            SESSIONS.c.created_at > work.now - LOADING_MS,
            SESSIONS.c.ended_at.is_(None),
            details["report_id"].as_string() == report.report_id,
            details[TAB].as_string().is_(None),
        )
        .order_by(SESSIONS.c.pk.desc())
    )
    found: int | None = work.connection.execute(query).scalars().first()
    return found


def writer(work: Work, editor: Editor, report: Report) -> dict[str, Any] | None:
    """Return the other writer as `{name, own}` (`own`: another window of this user), or None."""
    if report.lease_holder is None or is_free(work, editor, report):
        return None
    holder = _holder(work.connection, report)
    return {
        "name": "" if holder is None else holder.shown,
        "own": holder is not None and holder.id == editor.account_id,
    }


def open_windows(moment: int) -> list[ColumnElement[bool]]:
    """Return the conditions for an open window; `moment` is a `lease_time`."""
    seen = WINDOWS.c.seen_at
    return [seen > moment - WINDOW_EXPIRY_MS, seen < moment + WINDOW_EXPIRY_MS]


def _is_running(work: Work, report: Report) -> bool:
    """
    True if the lease has not expired, or if its holder's window is open.

    A lease that is longer than `LEASE_MS` is from another clock.
    """
    moment = lease_time(work.connection, work.now)
    if report.lease_until is not None and 0 < report.lease_until - moment <= LEASE_MS:
        return True
    holder = _holder_session(report)
    if holder is None:
        return False
    query = select(WINDOWS.c.session_pk).where(
        WINDOWS.c.session_pk == holder,
        WINDOWS.c.report_id == report.report_id,
        *open_windows(moment),
    )
    return work.connection.execute(query).first() is not None


def _is_of_same_tab(work: Work, editor: Editor, report: Report) -> bool:
    """True if the holder is an earlier page of the editor's tab."""
    if not editor.tab:
        return False
    query = select(SESSIONS.c.account_id, SESSIONS.c.details).where(
        SESSIONS.c.pk == _holder_session(report)
    )
    row = work.connection.execute(query).first()
    if row is None or row.account_id != editor.account_id:
        return False
    return bool((row.details or {}).get(TAB) == editor.tab)


def _holder_session(report: Report) -> int | None:
    return _session_key(report.lease_holder or "")


def _session_key(holder: str) -> int | None:
    key = holder.rpartition(" ")[2]  # `BrowserSession.holder`
    return int(key) if key.isdigit() else None


def _holder(connection: Connection, report: Report) -> SiteUser | None:
    query = select(SESSIONS.c.account_id).where(SESSIONS.c.pk == _holder_session(report))
    account_id = connection.execute(query).scalar_one_or_none()
    return None if account_id is None else find_user(connection, report.site_id, account_id)
