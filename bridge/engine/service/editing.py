"""
What the report page does with the report that it shows: load, save, sign, addend, discard.

One session writes at a time, under a lease that each save renews; the others read. A save names
the version that it was made from and is refused when the report has moved on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlmodel import col, select

from bridge.engine.errors import BeingEdited, Forbidden, RuleBroken, VersionConflict
from bridge.engine.records.tables import Addendum, Report, Signature
from bridge.engine.rules.authority import Deed, Role, permits
from bridge.engine.rules.document import BadDocument, Document, parse, plain_text, to_json
from bridge.engine.rules.lifecycle import Event
from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.status import SIGNED, AddendumState
from bridge.engine.service import addenda, coding, feed
from bridge.engine.service.deletion import discard
from bridge.engine.service.finding import key_of, lock_report_by_id
from bridge.engine.service.lifecycle import addenda_of, document_json, take
from bridge.engine.service.prelim import prelim_report
from bridge.engine.service.sign import sign_report
from bridge.engine.service.unsign import unsign_report
from bridge.engine.service.work import ChangeEvent, Work

LEASE_MS = 30_000


@dataclass(frozen=True, slots=True)
class Editor:
    """Who sits at the page: the account, its role on the report's site, the browser session."""

    account_id: int
    role: Role
    session_id: str


def load(work: Work, editor: Editor, report_id: str, *, take_over: bool = False) -> dict[str, Any]:
    """
    Return all that the page shows, and whether it may write; take the lease if it is free.

    `take_over` takes it from another session; that one's next save is refused.
    """
    report = lock_report_by_id(work, report_id)
    writable = report.status not in SIGNED and _owns(editor, report)
    if writable and (take_over or _lease_is_free(work, editor, report)):
        _renew(work, editor, report)
    return _page(work, editor, report)


def _displayed(order: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out Metadata, which is not displayed in the UI (clinicalInfo tags)."""
    return {name: value for name, value in order.items() if name != "Metadata"}


def _page(work: Work, editor: Editor, report: Report) -> dict[str, Any]:
    described = feed.describe(work.session, report, work.now)
    return {
        **described["record"],
        "version": report.version,
        "orders": [_displayed(each) for each in described["orders"]],
        "reporting": report.reporting,
        "document": document_json(report),
        "content": report.content_text,
        "signedAt": report.signed_at,
        "signedBy": report.signed_by,
        "addenda": [_addendum_json(each) for each in addenda_of(work, report)],
        "recalled": _recalled(work, report) if report.status not in SIGNED else None,
        "owner": report.owner_id == editor.account_id,
        "writable": _writes(work, editor, report),
        "permitted": sorted(
            deed.value for deed in Deed if permits(editor.role, deed, owner=_owns(editor, report))
        ),
        "now": work.now,
    }


def _addendum_json(addendum: Addendum) -> dict[str, Any]:
    return {
        "number": addendum.number,
        "state": addendum.state.value,
        "document": document_json(addendum),
        "content": addendum.content_text,
        "signedAt": addendum.signed_at,
        "signedBy": addendum.signed_by,
        "unsignUntil": addendum.cooling_until,
        "released": addendum.released_at is not None,
        "version": addendum.version,
    }


def _recalled(work: Work, report: Report) -> dict[str, Any] | None:
    """Return the text of the newest signing that was recalled, when it differs from the present."""
    newest = work.session.exec(
        select(Signature)
        .where(Signature.report_pk == key_of(report), col(Signature.withdrawn_at).is_not(None))
        .order_by(col(Signature.pk).desc())
    ).first()
    if newest is None or newest.content_text == report.content_text:
        return None
    return {"document": newest.document, "content": newest.content_text, "at": newest.signed_at}


def save(
    work: Work,
    editor: Editor,
    report_id: str,
    version: int,
    document: Any,
    *,
    template: int | None = None,
) -> Report:
    """
    Keep the page's text, and the number of the template that was applied to it, if one was.

    Raise VersionConflict or BeingEdited when the page may not write.
    """
    report = lock_report_by_id(work, report_id)
    _require(editor, report, Deed.EDIT)
    if report.status in SIGNED:
        raise RuleBroken(Reason.SIGNED)
    if not _lease_is_free(work, editor, report):
        raise BeingEdited
    content = read_document(document)
    if version != report.version:
        raise VersionConflict
    _renew(work, editor, report)
    if template in (None, report.template_number) and document_json(report) == to_json(content):
        return report
    take(work, report, Event.SAVE)
    report.template_number = template if template is not None else report.template_number
    report.document = to_json(content)
    report.content_text = plain_text(content)
    feed.announce(work, report, ChangeEvent.REPORT_CONTENT_UPDATED)
    return report


def sign(
    work: Work, editor: Editor, report_id: str, version: int, *, ignore_delay: bool = False
) -> Report:
    """Sign in the editor's own name what the editor sees; or release what is cooling."""
    report = lock_report_by_id(work, report_id)
    _require(editor, report, Deed.SIGN)
    if report.status not in SIGNED:
        _require_writer(work, editor, report)
        if version != report.version:
            raise VersionConflict
    return sign_report(work, report, editor.account_id, ignore_delay=ignore_delay)


def unsign(work: Work, editor: Editor, report_id: str) -> Report:
    """Recall the report within its cooling period."""
    report = lock_report_by_id(work, report_id)
    _require(editor, report, Deed.SIGN)
    return unsign_report(work, report)


def prelim(
    work: Work, editor: Editor, report_id: str, version: int, group: str, tag: str
) -> Report:
    """Make the report Preliminary in the editor's own name."""
    report = lock_report_by_id(work, report_id)
    _require(editor, report, Deed.PRELIM)
    if report.status not in SIGNED:
        _require_writer(work, editor, report)
        if version != report.version:
            raise VersionConflict
    return prelim_report(work, report, editor.account_id, group, tag)


def discard_report(work: Work, editor: Editor, report_id: str) -> Report | None:
    """Discard a Draft; None when it is gone, the report when it is an order again."""
    report = lock_report_by_id(work, report_id)
    _require(editor, report, Deed.DISCARD)
    _require_writer(work, editor, report)
    return discard(work, report)


def create_addendum(work: Work, editor: Editor, report_id: str) -> Addendum:
    """Begin an addendum."""
    return addenda.create(work, _addended(work, editor, report_id), editor.account_id)


def save_addendum(
    work: Work, editor: Editor, report_id: str, version: int, document: Any
) -> Addendum:
    """Keep the text of the open addendum; `version` is the addendum's own."""
    report = _addended(work, editor, report_id)
    content = read_document(document)
    _same_addendum(work, report, version)
    return addenda.save(work, report, content)


def cancel_addendum(work: Work, editor: Editor, report_id: str) -> None:
    """Throw the open addendum away."""
    addenda.cancel(work, _addended(work, editor, report_id))


def sign_addendum(
    work: Work, editor: Editor, report_id: str, version: int, *, ignore_delay: bool = False
) -> Addendum:
    """Sign the open addendum in the editor's own name."""
    report = _addended(work, editor, report_id)
    _same_addendum(work, report, version)
    return addenda.sign(work, report, editor.account_id, ignore_delay=ignore_delay)


def release_addendum(work: Work, editor: Editor, report_id: str) -> Report:
    """Deliver the newest signed addendum now (the app's Sign Now)."""
    return addenda.release_newest(work, _addended(work, editor, report_id))


def unsign_addendum(work: Work, editor: Editor, report_id: str) -> Report:
    """Recall the newest signed addendum."""
    return addenda.unsign_newest(work, _addended(work, editor, report_id))


def generate_billing(work: Work, editor: Editor, report_id: str) -> dict[str, Any]:
    """Derive the report's billing codes from its site's code map, and keep them."""
    report = lock_report_by_id(work, report_id)
    _require(editor, report, Deed.SIGN)
    return coding.generate(work, report)


def read_billing(work: Work, editor: Editor, report_id: str) -> dict[str, Any] | None:
    """Return the billing codes that were generated last, None before that."""
    return coding.latest(work.session, lock_report_by_id(work, report_id))


def read_document(value: Any) -> Document:
    """Read a document that a page sent; raise RuleBroken with its place."""
    try:
        return parse(value)
    except BadDocument as error:
        raise RuleBroken(Reason.BAD_DOCUMENT, pointer=f"/document{error.place}") from None


def _addended(work: Work, editor: Editor, report_id: str) -> Report:
    report = lock_report_by_id(work, report_id)
    _require(editor, report, Deed.ADDEND)
    return report


def _same_addendum(work: Work, report: Report, version: int) -> None:
    drafts = [each for each in addenda_of(work, report) if each.state is AddendumState.DRAFT]
    if drafts and drafts[-1].version != version:
        raise VersionConflict


def _owns(editor: Editor, report: Report) -> bool:
    return report.owner_id == editor.account_id


def _require(editor: Editor, report: Report, deed: Deed) -> None:
    if not permits(editor.role, deed, owner=_owns(editor, report)):
        raise Forbidden


def _require_writer(work: Work, editor: Editor, report: Report) -> None:
    if not _lease_is_free(work, editor, report):
        raise BeingEdited


def _lease_is_free(work: Work, editor: Editor, report: Report) -> bool:
    held = report.lease_holder not in (None, editor.session_id)
    return not (held and (report.lease_until or 0) > work.now)


def _writes(work: Work, editor: Editor, report: Report) -> bool:
    return report.lease_holder == editor.session_id and (report.lease_until or 0) > work.now


def _renew(work: Work, editor: Editor, report: Report) -> None:
    """Hold the lease on; this is no change of the report."""
    report.lease_holder = editor.session_id
    report.lease_until = work.now + LEASE_MS
    work.session.add(report)
