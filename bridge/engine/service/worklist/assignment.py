"""
The owner of a report: opened, taken over, unassigned (interface document, States and transitions).

The app asks the user before a transfer; these functions are called after the answer.
"""

from bridge.engine.records.tables import Report
from bridge.engine.rules.lifecycle import SIGNED, LifecycleEvent, Status
from bridge.engine.rules.order import OrderId
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.report_transitions import apply_event, clear
from bridge.engine.service.reports.files import refresh_findings
from bridge.engine.service.signing.prelims import may_own
from bridge.engine.service.work import ChangeEvent, Work


def needs_transfer(report: Report, account_id: int) -> bool:
    """Tell whether opening needs a confirmation: the Draft has another owner."""
    return report.status is Status.DRAFT and report.owner_id not in (None, account_id)


def open_for(work: Work, report: Report, account_id: int) -> Report:
    """
    Open a locked report for a user, who becomes the owner if the report is unsigned.

    An Ordered report becomes the user's Draft. A Preliminary report gets a new owner only if its
    reader or a reviewer opens it. A signed report does not change.
    """
    before = report.owner_id
    was = report.status
    if was in SIGNED or (was is not Status.ORDERED and before == account_id):
        return report
    if not may_own(work, report, account_id):
        return report
    apply_event(work, report, LifecycleEvent.OPEN)
    report.owner_id = account_id
    report.lease_holder = report.lease_until = None
    if was is Status.ORDERED:
        refresh_findings(work, report)
    moved = was is Status.DRAFT and before is not None
    event = ChangeEvent.REPORT_TRANSFERRED if moved else ChangeEvent.REPORT_OPENED
    change_feed.announce(work, report, event)
    return report


def unassign(work: Work, identity: OrderId) -> Report:
    """Return a Draft to the worklist; its content stays."""
    return unassign_report(work, lock_report(work, identity).report)


def unassign_report(work: Work, report: Report) -> Report:
    """Return a locked Draft to the worklist; its content stays."""
    clear(work, report, apply_event(work, report, LifecycleEvent.UNASSIGN))
    change_feed.announce(work, report, ChangeEvent.REPORT_UNASSIGNED)
    return report
