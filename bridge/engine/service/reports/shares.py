"""
Report shares: read-only links that the report's owner or an administrator creates.

Only the hash of a handle is stored. Resetting or deleting the report ends its shares; unsigning
ends those that were created after signing.
"""

from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, or_, select

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.exports.model import ExportedReport
from bridge.engine.errors import EngineError
from bridge.engine.links import RandomBytes, handle_hash, is_handle, new_handle
from bridge.engine.records.tables import Report, Share
from bridge.engine.rules.site_roles import ReportAction, permits
from bridge.engine.service.report_lookup import key_of, lock_report_by_id
from bridge.engine.service.reports.export import export_report
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.sites.site_settings import preferences_of
from bridge.engine.service.work import Work


@dataclass(frozen=True, slots=True)
class NewShare:
    """A new share; its handle is stored nowhere."""

    pk: int
    handle: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class SharedReport:
    site_id: str
    report_id: str
    exported: ExportedReport


def create_share(
    work: Work, editor: Editor, report_id: str, random_bytes: RandomBytes, seconds: int | None
) -> NewShare:
    """Create a share for so many seconds, at most as long as the site permits."""
    report = _lock_permitted(work, editor, report_id)
    lifetime = preferences_of(work.connection, report.site_id).shareSeconds
    expires_at = work.now + min(seconds or lifetime, lifetime) * 1000
    handle = new_handle(random_bytes)
    share = Share(
        report_pk=key_of(report),
        handle_hash=handle_hash(handle),
        created_by_id=editor.account_id,
        created_at=work.now,
        expires_at=expires_at,
    )
    work.session.add(share)
    work.session.flush()
    return NewShare(share.pk or 0, handle, expires_at)


def revoke(work: Work, editor: Editor, report_id: str, pk: int) -> None:
    """End a share; raise `NotFound` if the report does not have it."""
    report = _lock_permitted(work, editor, report_id)
    found = work.session.exec(
        select(Share).where(Share.pk == pk, Share.report_pk == key_of(report))
    ).first()
    if found is None:
        raise EngineError(ErrorCode.NOT_FOUND)
    found.revoked_at = found.revoked_at or work.now
    work.session.add(found)


def list_shares(work: Work, editor: Editor, report_id: str) -> list[dict[str, Any]]:
    report = _lock_permitted(work, editor, report_id)
    rows = work.session.exec(
        select(Share)
        .where(Share.report_pk == key_of(report), col(Share.revoked_at).is_(None))
        .where(or_(col(Share.expires_at).is_(None), col(Share.expires_at) > work.now))
        .order_by(col(Share.pk))
    )
    return [
        {"id": row.pk, "createdAt": row.created_at, "expiresAt": row.expires_at} for row in rows
    ]


def open_share(session: Session, handle: str, now: int) -> SharedReport:
    """Return the report of a share; raise `link_not_found` for any invalid share."""
    if not is_handle(handle):
        raise EngineError(ErrorCode.LINK_NOT_FOUND)
    found = session.exec(
        select(Share, Report)
        .join(Report, col(Share.report_pk) == col(Report.pk))
        .where(Share.handle_hash == handle_hash(handle), col(Share.revoked_at).is_(None))
        .where(or_(col(Share.expires_at).is_(None), col(Share.expires_at) > now))
    ).first()
    if found is None:
        raise EngineError(ErrorCode.LINK_NOT_FOUND)
    report = found[1]
    return SharedReport(report.site_id, report.report_id, export_report(session, report))


def _lock_permitted(work: Work, editor: Editor, report_id: str) -> Report:
    report = lock_report_by_id(work, report_id)
    if not permits(editor.role, ReportAction.SIGN, owner=report.owner_id == editor.account_id):
        raise EngineError(ErrorCode.FORBIDDEN)
    return report
