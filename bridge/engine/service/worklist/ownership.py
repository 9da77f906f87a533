"""
Open a report from the worklist, and assign it to a user.

The rules of ownership are those of links: a Draft of another user is taken over only after the user
has confirmed.
"""

from bridge.engine.errors import Forbidden, ReportNotFound, RuleBroken
from bridge.engine.records.tables import Report
from bridge.engine.rules.lifecycle import SIGNED, Reason
from bridge.engine.rules.order import OrderId
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts.users import find_member, get_user
from bridge.engine.service.caller import BrowserUser, account_role
from bridge.engine.service.launch.link_visits import (
    LinkContext,
    OpenedReport,
    WindowOptions,
    open_locked,
)
from bridge.engine.service.launch.report_updates import assign_report, unassign_report
from bridge.engine.service.report_lookup import lock_report, lock_report_by_id
from bridge.engine.service.signing.prelims import may_own
from bridge.engine.service.work import Work

_OWN_WINDOW = WindowOptions(framed=False, details={"in_frame": False, "host": ""})


class NoSuchReader(Forbidden):
    """The named user is not on the report's site."""

    code = "user_not_found"
    text = "the site has no such user"


def open_from_worklist(
    work: Work,
    context: LinkContext,
    browser_user: BrowserUser,
    report_id: str,
) -> OpenedReport:
    """Open a report for a member of its site; raise `ReportNotFound` for other users."""
    report = lock_report_by_id(work, report_id)
    account_id = browser_user.account_on(report.site_id)
    if account_id is None or account_role(work.connection, account_id, report.site_id) is None:
        raise ReportNotFound
    account = get_user(work.connection, report.site_id, account_id)
    return open_locked(work, context, report, account, _OWN_WINDOW)


def assign(work: Work, administrator: BrowserUser, report_id: str, email: str) -> Report:
    """Assign an unsigned report to a member of its site; an Ordered one becomes their Draft."""
    report = _lock_administered(work, administrator, report_id)
    if report.status in SIGNED:
        raise RuleBroken(Reason.SIGNED, pointer="/reportId")
    return _assign(work, report, email, "/email")


def assign_order(work: Work, identity: OrderId, email: str) -> Report:
    """Assign the unsigned report of an order to a member of its site, as the API does."""
    report = lock_report(work, identity).report
    if report.status in SIGNED:
        raise RuleBroken(Reason.SIGNED)
    return _assign(work, report, email, "/UserEmail")


def _assign(work: Work, report: Report, email: str, pointer: str) -> Report:
    reader = find_member(work.connection, report.site_id, email)
    if reader is None:
        raise NoSuchReader(pointer=pointer)
    if not may_own(work, report, reader.id):
        raise RuleBroken(Reason.NOT_PRELIM_REVIEWER, pointer=pointer)
    return assign_report(work, report, reader.id)


def return_to_worklist(work: Work, administrator: BrowserUser, report_id: str) -> Report:
    """Return a Draft to the worklist; its content stays."""
    return unassign_report(work, _lock_administered(work, administrator, report_id))


def _lock_administered(work: Work, browser_user: BrowserUser, report_id: str) -> Report:
    report = lock_report_by_id(work, report_id)
    account_id = browser_user.account_on(report.site_id)
    if account_id is None:
        raise ReportNotFound
    role = account_role(work.connection, account_id, report.site_id)
    if role is None:
        raise ReportNotFound
    if role is not SiteRole.ADMINISTRATOR:
        raise Forbidden
    return report
