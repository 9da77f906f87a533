"""
Actions of the report page: save, check, sign, recall, preliminary read, addenda, discard.

A save names the version that it is based on. It is refused if the report has a newer version or
another session holds the write lease. `page_state` returns the page's state. Only the page runs the
checks before signing; the API signs without them.
"""

from typing import Any

from bridge.engine.errors import EngineError, Forbidden, ReportVersionConflict, RuleBroken
from bridge.engine.records.tables import Addendum, Report
from bridge.engine.rules.lifecycle import SIGNED, AddendumState, LifecycleEvent, Reason
from bridge.engine.rules.site_roles import ReportAction, permits
from bridge.engine.rules.text.document import BadDocument, Document, parse, restore, to_json
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.rules.text.signing_checks import Behaviour, SigningFinding, run_checks
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import key_of, lock_report_by_id, orders_of
from bridge.engine.service.report_transitions import (
    addenda_of,
    apply_event,
    document_json,
    open_addendum,
)
from bridge.engine.service.reports.deletion import discard
from bridge.engine.service.signing import addenda, lease
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.signing.prelims import prelim_report
from bridge.engine.service.signing.sign import sign_report, unsign_report
from bridge.engine.service.sites import billing
from bridge.engine.service.sites.preferences import SignChecks, preferences_of
from bridge.engine.service.work import ChangeEvent, Work


class SigningProhibited(EngineError):
    """The site prohibits signing a report with such findings in the application."""

    status = 400
    code = "signing_prohibited"
    text = "the site's checks prohibit signing this report"


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
    Raise ReportVersionConflict or BeingEdited.
    """
    report = lock_report_by_id(work, report_id)
    _require_permitted(editor, report, ReportAction.EDIT)
    if report.status in SIGNED:
        raise RuleBroken(Reason.SIGNED)
    lease.require(work, editor, report)
    content = read_document(document)
    if version != report.version:
        raise ReportVersionConflict
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
            raise ReportVersionConflict
        _refuse_prohibited(work, report, report)
    return sign_report(work, report, editor.account_id, ignore_delay=ignore_delay)


def unsign(work: Work, editor: Editor, report_id: str) -> Report:
    """Recall the report within its cooling period."""
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
            raise ReportVersionConflict
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
    """Recall the newest signed addendum."""
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
    """Parse a document that a page sent; raise RuleBroken with its place."""
    try:
        return parse(value)
    except BadDocument as error:
        raise RuleBroken(Reason.BAD_DOCUMENT, pointer=f"/document{error.place}") from None


def _lock_for_addendum(work: Work, editor: Editor, report_id: str) -> Report:
    report = lock_report_by_id(work, report_id)
    _require_permitted(editor, report, ReportAction.ADDEND)
    return report


def _require_addendum_version(work: Work, report: Report, version: int) -> None:
    drafts = [each for each in addenda_of(work, report) if each.state is AddendumState.DRAFT]
    if drafts and drafts[-1].version != version:
        raise ReportVersionConflict


def _require_permitted(editor: Editor, report: Report, action: ReportAction) -> None:
    if not permits(editor.role, action, owner=report.owner_id == editor.account_id):
        raise Forbidden


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
        {**each.as_json(), "behaviour": behaviours.behaviour(each.check).value}
        for each in _findings(work, report, row, behaviours)
    ]


def _refuse_prohibited(work: Work, report: Report, row: Report | Addendum) -> None:
    """Raise `SigningProhibited` if the site prohibits signing with one of the findings."""
    behaviours = preferences_of(work.connection, report.site_id).signChecks
    found = _findings(work, report, row, behaviours)
    if any(behaviours.behaviour(each.check) is Behaviour.PROHIBIT for each in found):
        raise SigningProhibited


def _findings(
    work: Work, report: Report, row: Report | Addendum, behaviours: SignChecks
) -> list[SigningFinding]:
    """Return the findings in a text that the site does not silence."""
    orders = [order.tags for order in orders_of(work.session, key_of(report))]
    document: Document = restore(document_json(row))
    return [
        each
        for each in run_checks(document, orders)
        if behaviours.behaviour(each.check) is not Behaviour.SILENT
    ]
