"""
The report page: its state, and its actions save, check, sign, unsign, read, addend, discard.

A save names the version that it is based on. It is refused if the report has a newer version or
another session holds the write lease. Every action returns the state of the page. `load` takes the
write lease if it is free. `presence` renews it and returns just enough to see whether the page must
load again. Only the page runs the checks before signing; the API signs without them.
"""

import base64
import secrets
from typing import Any

from sqlalchemy import insert
from sqlmodel import col, select

from bridge.contract import SIGNED, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.documents.exports.html import fragment
from bridge.engine.errors import EngineError
from bridge.engine.launch import first_language
from bridge.engine.records.tables import Addendum, DraftKey, Report, Signature, metadata
from bridge.engine.rules.lifecycle import AddendumState, LifecycleEvent
from bridge.engine.rules.order import most_urgent, priority_code
from bridge.engine.rules.site_roles import ReportAction, permits
from bridge.engine.rules.text.document import BadDocument, Document, parse, restore, to_json
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.rules.text.signing_checks import Behaviour, SigningFinding, run_checks
from bridge.engine.service import change_feed
from bridge.engine.service.accounts.sessions import BrowserSession
from bridge.engine.service.accounts.users import find_user, settings_of
from bridge.engine.service.live import untouched
from bridge.engine.service.report_lookup import key_of, lock_report_by_id, orders_of
from bridge.engine.service.report_status import ReportContext
from bridge.engine.service.report_transitions import (
    addenda_of,
    apply_event,
    document_json,
    open_addendum,
    prelim_reads,
)
from bridge.engine.service.reports.deletion import discard
from bridge.engine.service.reports.elsewhere import marks_of, unmark_report
from bridge.engine.service.reports.files import list_file_notices
from bridge.engine.service.signing import addenda, lease
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.signing.prelims import prelim_report
from bridge.engine.service.signing.sign import sign_report, unsign_report
from bridge.engine.service.sites import billing
from bridge.engine.service.sites.site_settings import SignChecks, preferences_of
from bridge.engine.service.work import ChangeEvent, Work

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


def return_to_unread(work: Work, _: Editor, report_id: str) -> None:
    """Remove what says that the orders of the report are reported elsewhere."""
    unmark_report(work, lock_report_by_id(work, report_id))


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
        "reportedElsewhere": marks_of(context.orders),
        "reporting": report.reporting,
        "autoCompare": _auto_compare(work, editor, report, preferences.AutoComparePrior),
        "template": report.template_number,
        "document": document_json(report),
        "content": report.content_text,
        "html": _html(report) if report.status in SIGNED else None,
        "signedAt": report.signed_at,
        "signedBy": report.signed_by,
        "addenda": [_addendum_json(addendum) for addendum in addenda_of(work, report)],
        **list_file_notices(work, report),
        "recalled": _unsigned_text(work, report),
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
        # Without a sign delay a report cannot be unsigned, so a shortcut alone must not sign.
        "confirmSigning": preferences.confirmSigning and not context.sign_delay,
        "journalKey": _draft_key(work, key_of(report), editor.account_id),
        "now": work.now,
    }


def _auto_compare(work: Work, editor: Editor, report: Report, site: bool | None) -> bool:
    """Return the launch's option, else the user's, else the site's, else false."""
    user = settings_of(work.connection, report.site_id, editor.account_id).get("AutoComparePrior")
    choices = (report.reporting.get("auto_compare"), user, site)
    return next((choice for choice in choices if isinstance(choice, bool)), False)


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


def _unsigned_text(work: Work, report: Report) -> dict[str, Any] | None:
    """
    Return the text of the newest unsigned signing that a preliminary read has replaced.

    None after the restored text was changed.
    """
    if report.status is not ReportStatus.PRELIMINARY:
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
    return first_language([str(code or "") for code in (requested, prewarmed, user, site, shown)])


def save(
    work: Work,
    editor: Editor,
    report_id: str,
    version: int,
    document: Any,
    *,
    template: int | None = None,
    leaving: bool = False,
) -> Report:
    """
    Save the page's text, and the number of the template if one was applied.

    A page that is left does not acquire the lease: the next page of its tab may have it already.
    Raise `version_conflict` or `being_edited`.
    """
    report = lock_report_by_id(work, report_id)
    _require_permitted(editor, report, ReportAction.EDIT)
    if report.status in SIGNED:
        raise EngineError(ErrorCode.REPORT_SIGNED)
    lease.require(work, editor, report)
    content = read_document(document)
    if version != report.version:
        raise EngineError(ErrorCode.VERSION_CONFLICT)
    if not leaving:
        lease.renew(work, editor, report)
    if template in (None, report.template_number) and document_json(report) == to_json(content):
        return report
    apply_event(work, report, LifecycleEvent.SAVE)
    report.template_number = template if template is not None else report.template_number
    report.document = to_json(content)
    report.content_text = plain_text(content)
    change_feed.announce(work, report, ChangeEvent.REPORT_CONTENT_UPDATED)
    return report


def sign(
    work: Work, editor: Editor, report_id: str, version: int, *, ignore_delay: bool = False
) -> Report:
    """Sign the displayed version in the editor's own name, or release a report that is cooling."""
    report = lock_report_by_id(work, report_id)
    _require_permitted(editor, report, ReportAction.SIGN)
    if report.status not in SIGNED:
        lease.require(work, editor, report)
        if version != report.version:
            raise EngineError(ErrorCode.VERSION_CONFLICT)
        _refuse_prohibited(work, report, report)
    return sign_report(work, report, editor.account_id, ignore_delay=ignore_delay)


def unsign(work: Work, editor: Editor, report_id: str) -> Report:
    """Unsign the report within the sign delay."""
    report = lock_report_by_id(work, report_id)
    _require_permitted(editor, report, ReportAction.SIGN)
    return unsign_report(work, report)


def prelim(
    work: Work, editor: Editor, report_id: str, version: int, group: str, tag: str
) -> Report:
    report = lock_report_by_id(work, report_id)
    _require_permitted(editor, report, ReportAction.PRELIM)
    if report.status not in SIGNED:
        lease.require(work, editor, report)
        if version != report.version:
            raise EngineError(ErrorCode.VERSION_CONFLICT)
    return prelim_report(work, report, editor.account_id, group, tag)


def discard_report(work: Work, editor: Editor, report_id: str) -> Report | None:
    """Discard a Draft; None if it was deleted, the report if it is an order again."""
    report = lock_report_by_id(work, report_id)
    _require_permitted(editor, report, ReportAction.DISCARD)
    lease.require(work, editor, report)
    return discard(work, report)


def create_addendum(work: Work, editor: Editor, report_id: str) -> Addendum:
    return addenda.create_addendum(
        work, _lock_for_addendum(work, editor, report_id), editor.account_id
    )


def save_addendum(
    work: Work, editor: Editor, report_id: str, version: int, document: Any
) -> Addendum:
    """Save the text of the open addendum; `version` is the addendum's own."""
    report = _lock_for_addendum(work, editor, report_id)
    content = read_document(document)
    _require_addendum_version(work, report, version)
    return addenda.save_addendum(work, report, content)


def cancel_addendum(work: Work, editor: Editor, report_id: str) -> None:
    """Delete the open addendum."""
    addenda.cancel_addendum(work, _lock_for_addendum(work, editor, report_id))


def sign_addendum(
    work: Work, editor: Editor, report_id: str, version: int, *, ignore_delay: bool = False
) -> Addendum:
    report = _lock_for_addendum(work, editor, report_id)
    _require_addendum_version(work, report, version)
    if draft := open_addendum(addenda_of(work, report)):
        _refuse_prohibited(work, report, draft)
    return addenda.sign_addendum(work, report, editor.account_id, ignore_delay=ignore_delay)


def release_addendum(work: Work, editor: Editor, report_id: str) -> Report:
    """Release the newest signed addendum now (the app's Sign Now)."""
    return addenda.release_newest(work, _lock_for_addendum(work, editor, report_id))


def unsign_addendum(work: Work, editor: Editor, report_id: str) -> Report:
    """Unsign the newest signed addendum."""
    return addenda.unsign_newest(work, _lock_for_addendum(work, editor, report_id))


def generate_billing(work: Work, editor: Editor, report_id: str) -> dict[str, Any]:
    """Derive the report's billing codes from its site's code map, and store them."""
    report = lock_report_by_id(work, report_id)
    _require_permitted(editor, report, ReportAction.SIGN)
    return billing.generate(work, report)


def read_billing(work: Work, editor: Editor, report_id: str) -> dict[str, Any] | None:
    """Return the billing codes that were generated last, None if there are none."""
    return billing.latest(work.session, lock_report_by_id(work, report_id))


def read_document(value: Any) -> Document:
    """Parse a document that a page sent; raise EngineError with its place."""
    try:
        return parse(value)
    except BadDocument as error:
        raise EngineError(ErrorCode.BAD_DOCUMENT, pointer=f"/document{error.place}") from None


def _lock_for_addendum(work: Work, editor: Editor, report_id: str) -> Report:
    report = lock_report_by_id(work, report_id)
    _require_permitted(editor, report, ReportAction.ADDEND)
    return report


def _require_addendum_version(work: Work, report: Report, version: int) -> None:
    drafts = [
        addendum for addendum in addenda_of(work, report) if addendum.state is AddendumState.DRAFT
    ]
    if drafts and drafts[-1].version != version:
        raise EngineError(ErrorCode.VERSION_CONFLICT)


def _require_permitted(editor: Editor, report: Report, action: ReportAction) -> None:
    if not permits(editor.role, action, owner=report.owner_id == editor.account_id):
        raise EngineError(ErrorCode.FORBIDDEN)


def check_report(work: Work, _: Editor, report_id: str) -> list[dict[str, Any]]:
    """Return the findings in the saved text, each with the site's behaviour."""
    report = lock_report_by_id(work, report_id)
    return _checked(work, report, report)


def check_addendum(work: Work, _: Editor, report_id: str) -> list[dict[str, Any]]:
    """Return the findings in the saved text of the open addendum; none without an addendum."""
    report = lock_report_by_id(work, report_id)
    draft = open_addendum(addenda_of(work, report))
    return [] if draft is None else _checked(work, report, draft)


def _checked(work: Work, report: Report, row: Report | Addendum) -> list[dict[str, Any]]:
    behaviours = preferences_of(work.connection, report.site_id).signChecks
    return [
        {**finding.as_json(), "behaviour": behaviours.behaviour(finding.check).value}
        for finding in _findings(work, report, row, behaviours)
    ]


def _refuse_prohibited(work: Work, report: Report, row: Report | Addendum) -> None:
    """Raise `signing_prohibited` if the site prohibits signing with one of the findings."""
    behaviours = preferences_of(work.connection, report.site_id).signChecks
    found = _findings(work, report, row, behaviours)
    if any(behaviours.behaviour(finding.check) is Behaviour.PROHIBIT for finding in found):
        raise EngineError(ErrorCode.SIGNING_PROHIBITED)


def _findings(
    work: Work, report: Report, row: Report | Addendum, behaviours: SignChecks
) -> list[SigningFinding]:
    """Return the findings in a text that the site does not silence."""
    orders = [order.tags for order in orders_of(work.session, key_of(report))]
    document: Document = restore(document_json(row))
    return [
        check
        for check in run_checks(document, orders)
        if behaviours.behaviour(check.check) is not Behaviour.SILENT
    ]
