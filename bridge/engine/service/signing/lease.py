"""
The write lease of a report: one session writes at a time, the others read.

A lease is held under the session's name for `LEASE_MS` and renewed by each action of the session.
Renewing it does not change the report's version. Times are those of `bridge.store.lease_clock`.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from bridge.engine.errors import BeingEdited
from bridge.engine.records.tables import Report, metadata
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts.users import SiteUser, find_user
from bridge.engine.service.work import Work
from bridge.store.lease_clock import lease_time

SESSIONS = metadata.tables["engine_browser_session"]

LEASE_MS = 30_000


@dataclass(frozen=True, slots=True)
class Editor:
    """The user of a report page: account, role on the report's site, browser session."""

    account_id: int
    role: SiteRole
    session_id: str


def is_free(work: Work, editor: Editor, report: Report) -> bool:
    """Tell whether no other session holds the lease."""
    held = report.lease_holder not in (None, editor.session_id)
    return not (held and _is_running(work, report))


def is_held(work: Work, editor: Editor, report: Report) -> bool:
    """Tell whether this session holds the lease."""
    return report.lease_holder == editor.session_id and _is_running(work, report)


def require(work: Work, editor: Editor, report: Report) -> None:
    """Raise `BeingEdited` while another session holds the lease."""
    if not is_free(work, editor, report):
        raise BeingEdited


def renew(work: Work, editor: Editor, report: Report) -> None:
    """Acquire or renew the lease."""
    report.lease_holder = editor.session_id
    report.lease_until = lease_time(work.connection, work.now) + LEASE_MS
    work.session.add(report)


def release(work: Work, holder: str, report: Report) -> None:
    """Release the lease if this holder has it."""
    if report.lease_holder == holder:
        report.lease_holder = report.lease_until = None
        work.session.add(report)


def writer(work: Work, editor: Editor, report: Report) -> dict[str, Any] | None:
    """Return the other writer as `{name, own}` (`own`: another window of this user), or None."""
    if report.lease_holder is None or is_free(work, editor, report):
        return None
    holder = _holder(work.connection, report)
    return {
        "name": "" if holder is None else holder.shown,
        "own": holder is not None and holder.id == editor.account_id,
    }


def _is_running(work: Work, report: Report) -> bool:
    """Tell whether a lease has not expired. One longer than `LEASE_MS` is from another clock."""
    if report.lease_until is None:
        return False
    return 0 < report.lease_until - lease_time(work.connection, work.now) <= LEASE_MS


def _holder(connection: Connection, report: Report) -> SiteUser | None:
    session_pk = (report.lease_holder or "").rpartition(" ")[2]  # `BrowserSession.holder`
    if not session_pk.isdigit():
        return None
    query = select(SESSIONS.c.account_id).where(SESSIONS.c.pk == int(session_pk))
    account_id = connection.execute(query).scalar_one_or_none()
    return None if account_id is None else find_user(connection, report.site_id, account_id)
