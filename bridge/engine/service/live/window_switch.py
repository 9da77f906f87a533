"""
A window leaves its report, to follow a launch or because its user signs out.

The page saves its text first.
"""

from sqlmodel import select

from bridge.engine.links import Purpose
from bridge.engine.records.tables import Report
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.sync_launch import FollowAnswer, FollowRefusal
from bridge.engine.service.accounts.sessions import BrowserSession, end_session
from bridge.engine.service.caller import BrowserUser
from bridge.engine.service.launch import links
from bridge.engine.service.launch.link_visits import (
    LinkContext,
    LinkVisit,
    OpenedReport,
    open_found_link,
)
from bridge.engine.service.live import sync_launch, untouched
from bridge.engine.service.signing import lease
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.work import Work


def switch(
    work: Work,
    context: LinkContext,
    session: BrowserSession,
    sequence: int,
    *,
    handed_over: bool = False,
) -> OpenedReport:
    """
    Open the launch that a window follows, and end the window's session.

    Raise `LaunchSuperseded` if a newer launch exists, or the errors of opening the link, including
    `HandoverNeeded`.
    """
    target = sync_launch.lock_target(work.connection, session, sequence)
    link = links.find_hashed(
        work.connection, context.link_keys, target.handle_hash, Purpose.LAUNCH, work.now
    )
    visit = LinkVisit(
        "",
        in_frame=bool(session.details.get("in_frame")),
        browser_user=BrowserUser(session.account_id, session.site_id, session.identity),
        session=session,
        host=str(session.details.get("host", "")),
        handed_over=handed_over,
    )
    leave(work, session)
    return open_found_link(work, context, link, visit)


def stay(work: Work, session: BrowserSession, sequence: int, reason: FollowRefusal) -> None:
    """Store that a window stays at its report, and why."""
    owner = (session.site_id, session.account_id)
    sync_launch.record_answer(work.connection, owner, sequence, FollowAnswer.REFUSED, reason.value)


def leave(work: Work, session: BrowserSession) -> None:
    """End a session and release its write lease."""
    query = select(Report).where(Report.report_id == session.report_id).with_for_update()
    report = work.session.exec(query).first()
    if report is not None:
        lease.release(work, session.holder, report)
        editor = Editor(session.account_id, SiteRole.USER, session.holder)
        untouched.return_left(work, editor, report)
    end_session(work.connection, session, work.now)
