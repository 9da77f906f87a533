"""Open a report from the worklist, for whoever is signed in, and give it to somebody.

The site's rules of ownership are those of links: a Draft of somebody else is not taken
before the user has agreed.
"""

from bridge.engine.errors import Forbidden, ReportNotFound, RuleBroken
from bridge.engine.records.tables import Report
from bridge.engine.rules.identity import OrderId
from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.status import SIGNED
from bridge.engine.service.accounts.sessions import BrowserSession
from bridge.engine.service.accounts.users import find_member, get_person
from bridge.engine.service.caller import BrowserUser, account_role
from bridge.engine.service.launch.link_opening import LinkContext, OpenedReport, begin_page
from bridge.engine.service.launch.report_updates import assign_report
from bridge.engine.service.launch.window_options import WindowOptions
from bridge.engine.service.report_lookup import lock_report, lock_report_by_id
from bridge.engine.service.signing import lease
from bridge.engine.service.signing.prelims import may_own
from bridge.engine.service.work import Work
from bridge.engine.service.worklist.assignment import needs_transfer, unassign_report

_OWN_WINDOW = WindowOptions(framed=False, details={"in_frame": False, "host": ""})


class NoSuchReader(Forbidden):
    """The user named is not on the report's site."""

    code = "user_not_found"
    text = "the site has no such user"


def open_from_worklist(
    work: Work,
    door: LinkContext,
    visitor: BrowserUser,
    report_id: str,
    before: BrowserSession | None,
) -> OpenedReport:
    """
    Open a report for a member of its site; raise `ReportNotFound` for anybody else.

    `before` is the session whose page is loaded anew, and gives its writing lease back.
    """
    report = lock_report_by_id(work, report_id)
    account_id = visitor.on(report.site_id)
    if account_id is None or account_role(work.connection, account_id, report.site_id) is None:
        raise ReportNotFound
    if before is not None and before.report_id == report_id and before.account_id == account_id:
        lease.release(work, before.holder, report)
    account = get_person(work.connection, report.site_id, account_id)
    transfer = needs_transfer(report, account.id)
    if not transfer:
        assign_report(work, report, account.id)
    work.session.flush()
    return begin_page(
        work, door, report, account, _OWN_WINDOW, wishes=report.reporting, transfer=transfer
    )


def assign(work: Work, administrator: BrowserUser, report_id: str, email: str) -> Report:
    """Give an unsigned report to a reader of its site; an Ordered one becomes their Draft."""
    report = _administered(work, administrator, report_id)
    if report.status in SIGNED:
        raise RuleBroken(Reason.SIGNED, pointer="/reportId")
    return _assign(work, report, email, "/email")


def assign_order(work: Work, identity: OrderId, email: str) -> Report:
    """Give the unsigned report of an order to a reader of its site, as the API does."""
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
    """Give a Draft back to the worklist; its content stays."""
    return unassign_report(work, _administered(work, administrator, report_id))


def _administered(work: Work, visitor: BrowserUser, report_id: str) -> Report:
    report = lock_report_by_id(work, report_id)
    account_id = visitor.on(report.site_id)
    if account_id is None:
        raise ReportNotFound
    role = account_role(work.connection, account_id, report.site_id)
    if role is None:
        raise ReportNotFound
    if role is not SiteRole.ADMINISTRATOR:
        raise Forbidden
    return report
