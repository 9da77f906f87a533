"""
The state of the report page, which every action returns, and whether the page may write.

`load` takes the write lease if it is free. `presence` renews it and returns just enough to tell
whether the page must load again.
"""

import base64
import secrets
from typing import Any

from sqlalchemy import insert
from sqlmodel import col, select

from bridge.engine.documents.exports.html import fragment
from bridge.engine.launch import first_language
from bridge.engine.records.tables import Addendum, DraftKey, Report, Signature, metadata
from bridge.engine.rules.lifecycle import SIGNED, AddendumState, Status
from bridge.engine.rules.order import most_urgent, priority_code
from bridge.engine.rules.site_roles import ReportAction, permits
from bridge.engine.rules.text.document import restore
from bridge.engine.service import change_feed
from bridge.engine.service.accounts.sessions import BrowserSession
from bridge.engine.service.accounts.users import find_user, settings_of
from bridge.engine.service.live import untouched
from bridge.engine.service.report_lookup import key_of, lock_report_by_id
from bridge.engine.service.report_status import ReportContext
from bridge.engine.service.report_transitions import (
    addenda_of,
    document_json,
    prelim_reads,
    sign_delay,
)
from bridge.engine.service.reports.files import list_file_notices
from bridge.engine.service.signing import lease
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.sites.preferences import preferences_of
from bridge.engine.service.work import Work

DRAFT_KEYS = metadata.tables[str(DraftKey.__tablename__)]
DRAFT_KEY_BYTES = 32
"""The page encrypts unsaved text with a draft key; the text stays on the user's computer."""


def load(work: Work, editor: Editor, report_id: str, *, take_over: bool = False) -> dict[str, Any]:
    """
    Return the page's state; take the lease if it is free.

    `take_over` takes it from another session, whose next save is then refused.
    """
    report = lock_report_by_id(work, report_id)
    _renew_lease(work, editor, report, take_over=take_over)
    return _page(work, editor, report)


def presence(work: Work, editor: Editor, report_id: str) -> dict[str, Any]:
    """Renew the lease; return `{version, status, writable, writer, now}` to compare with."""
    report = lock_report_by_id(work, report_id)
    _renew_lease(work, editor, report, take_over=False)
    return {
        "version": report.version,
        "status": report.status.value,
        "writable": lease.is_held(work, editor, report),
        "writer": lease.writer(work, editor, report),
        "now": work.now,
    }


def leave(work: Work, editor: Editor, report_id: str) -> None:
    """Release the lease, and return an untouched order: the page is being left."""
    report = lock_report_by_id(work, report_id)
    lease.leave(work, editor, report)
    untouched.return_left(work, editor, report)


def _renew_lease(work: Work, editor: Editor, report: Report, *, take_over: bool) -> None:
    untouched.open_again(work, editor, report)
    writable = report.status not in SIGNED and _owns(editor, report)
    if writable and (take_over or lease.is_free(work, editor, report)):
        lease.renew(work, editor, report)


def _owns(editor: Editor, report: Report) -> bool:
    return report.owner_id == editor.account_id


def _page(work: Work, editor: Editor, report: Report) -> dict[str, Any]:
    context = ReportContext.of(work.session, report, work.now)
    state = change_feed.describe(context, report, work.now)
    preferences = preferences_of(work.connection, report.site_id)
    return {
        **state["record"],
        "version": report.version,
        # Metadata is not displayed (clinicalInfo tags)
        "orders": [
            {name: value for name, value in order.items() if name != "Metadata"}
            for order in state["orders"]
        ],
        "priority": most_urgent(priority_code(order["Metadata"]) for order in state["orders"]),
        "reporting": report.reporting,
        "autoCompare": _auto_compare(work, editor, report, preferences.AutoComparePrior),
        "template": report.template_number,
        "document": document_json(report),
        "content": report.content_text,
        "html": _html(report) if report.status in SIGNED else None,
        "signedAt": report.signed_at,
        "signedBy": report.signed_by,
        "addenda": [_addendum_json(each) for each in addenda_of(work, report)],
        **list_file_notices(work, report),
        "recalled": _recalled(work, report),
        "owner": _owns(editor, report),
        "ownerName": _owner_name(work, report),
        "writable": lease.is_held(work, editor, report),
        "writer": lease.writer(work, editor, report),
        "permitted": sorted(
            action.value
            for action in ReportAction
            if permits(editor.role, action, owner=_owns(editor, report))
        ),
        "signChecks": preferences.signChecks.model_dump(),
        # Without a sign delay a signature cannot be recalled, so a shortcut alone must not sign.
        "confirmSigning": preferences.confirmSigning and not sign_delay(work, report),
        "journalKey": _draft_key(work, key_of(report), editor.account_id),
        "now": work.now,
    }


def _auto_compare(work: Work, editor: Editor, report: Report, site: bool | None) -> bool:
    """Return the launch's option, else the user's, else the site's, else false."""
    user = settings_of(work.connection, report.site_id, editor.account_id).get("AutoComparePrior")
    choices = (report.reporting.get("auto_compare"), user, site)
    return next((each for each in choices if isinstance(each, bool)), False)


def _html(row: Report | Addendum) -> str:
    return fragment(restore(document_json(row)))


def _owner_name(work: Work, report: Report) -> str:
    if report.owner_id is None:
        return ""
    owner = find_user(work.connection, report.site_id, report.owner_id)
    return "" if owner is None else owner.shown


def _addendum_json(addendum: Addendum) -> dict[str, Any]:
    return {
        "number": addendum.number,
        "state": addendum.state.value,
        "document": document_json(addendum),
        "content": addendum.content_text,
        "html": _html(addendum) if addendum.state is AddendumState.SIGNED else None,
        "signedAt": addendum.signed_at,
        "signedBy": addendum.signed_by,
        "unsignUntil": addendum.cooling_until,
        "released": addendum.released_at is not None,
        "version": addendum.version,
    }


def _recalled(work: Work, report: Report) -> dict[str, Any] | None:
    """
    Return the text of the newest recalled signing that a preliminary read has replaced.

    None after the restored text was changed.
    """
    if report.status is not Status.PRELIMINARY:
        return None
    newest = work.session.exec(
        select(Signature)
        .where(Signature.report_pk == key_of(report), col(Signature.withdrawn_at).is_not(None))
        .order_by(col(Signature.pk).desc())
    ).first()
    if newest is None or newest.content_text == report.content_text:
        return None
    active = [read for read in prelim_reads(work, report) if read.withdrawn_at is None]
    if not active or active[-1].content_text != report.content_text:
        return None
    if active[-1].read_at > (newest.withdrawn_at or 0):
        return None
    return {"document": newest.document, "content": newest.content_text, "at": newest.signed_at}


def _draft_key(work: Work, report_pk: int, account_id: int) -> str:
    """Return a user's draft key for a locked report in base64; create it if there is none."""
    own = (DRAFT_KEYS.c.report_pk == report_pk, DRAFT_KEYS.c.account_id == account_id)
    secret = work.connection.execute(select(DRAFT_KEYS.c.secret).where(*own)).scalar_one_or_none()
    if secret is None:
        secret = secrets.token_bytes(DRAFT_KEY_BYTES)
        work.connection.execute(
            insert(DRAFT_KEYS).values(
                report_pk=report_pk, account_id=account_id, secret=secret, created_at=work.now
            )
        )
    return base64.b64encode(secret).decode("ascii")


def speech_language(work: Work, editor: Editor, session: BrowserSession) -> str:
    """Return the language code for dictation (interface reference, reportingApp parameters)."""
    report = lock_report_by_id(work, session.report_id)
    user = settings_of(work.connection, report.site_id, editor.account_id).get("SpeechLanguage")
    site = preferences_of(work.connection, report.site_id).SpeechLanguage
    shown = session.details.get("app_language")
    prewarmed = session.languages.get("speech_language")
    requested = report.reporting.get("speech_language")
    return first_language([str(each or "") for each in (requested, prewarmed, user, site, shown)])
