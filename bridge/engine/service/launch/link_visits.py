"""
Opens report links (interface reference, States and transitions).

The first opening of a lazy launch creates its report. A Draft of another user is taken over only
after the user has confirmed, or if the launch forces it. The options of the window (frame, host,
languages, whether it follows launches) are stored in the details of the session.

The browser enforces `frame-ancestors` after the request. Therefore a request from a foreign frame
changes nothing until a page of ours was shown there, or the browser names an allowed host. Observed
hosts help administrators to set up host origins. If origins are configured, the browser has refused
the others; if none are, every listed host embeds reports.

A window leaves its report to follow a launch, or because its user signs out. Its page saves its
text first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, func, select
from sqlmodel import select as select_rows

from bridge.contract import SIGNED
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.launch import LaunchInput, ReportingOptions, first_language
from bridge.engine.links import Purpose
from bridge.engine.records.tables import FeedChange, Report, metadata
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.sync_launch import FollowAnswer, FollowRefusal, is_persistent
from bridge.engine.service.accounts.sessions import (
    SESSIONS,
    BrowserSession,
    NewSession,
    begin_session,
    end_session,
    idle_seconds,
)
from bridge.engine.service.accounts.users import SiteUser, get_user, settings_of
from bridge.engine.service.caller import SITES, BrowserUser, account_role
from bridge.engine.service.launch import links
from bridge.engine.service.launch.report_updates import (
    NewDraft,
    assign_report,
    create_drafts,
    keep_newer_name,
    known_names,
    merge_launch,
    needs_transfer,
    require_matching_name,
    require_same_person,
)
from bridge.engine.service.live import untouched, windows
from bridge.engine.service.live.page_events import event_time
from bridge.engine.service.report_lookup import (
    current_identity,
    lock_orders,
    lock_patients,
    lock_report_by_id,
)
from bridge.engine.service.reports.files import screen_launch
from bridge.engine.service.signing import lease
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.sites.site_settings import get_site, preferences_of, read_preferences
from bridge.engine.service.work import Work
from bridge.engine.settings import AccessLifetimes

CHANGES = metadata.tables[str(FeedChange.__tablename__)]
KEPT_DETAILS = ("in_frame", "host", "persistent", "sync_sequence", "prewarmed", "chosen_language")
"""Session details that are kept when the page is reloaded."""


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """The link, and the options of the window, with which a report is opened."""

    framed: bool  # whether it may be shown in a frame
    link_pk: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    identity_link_pk: int | None = None

    @property
    def languages(self) -> Mapping[str, str]:
        """The languages that the window was pre-warmed with."""
        return dict(self.details.get("prewarmed", {}))

    @property
    def chosen_language(self) -> str:
        """The language that the user chose on a reloaded page; else empty."""
        return str(self.details.get("chosen_language", ""))

    def with_prewarmed_languages(
        self, session: BrowserSession | None, site_id: str, account_id: int
    ) -> "WindowOptions":
        """Add the languages of a session that was pre-warmed for this user and site."""
        same = session is not None and (session.site_id, session.account_id) == (
            site_id,
            account_id,
        )
        if session is None or not same or not session.languages:
            return self
        return replace(self, details={**self.details, "prewarmed": session.languages})


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """Facts about its window that the page needs: start of the live feed, expiry of the session."""

    cursor: int
    idle_seconds: int
    expires_at: int
    persistent: bool
    web_view_objects: bool
    any_host: bool

    def as_json(self) -> dict[str, Any]:
        """Return the boot's member `window` (web/src/report/boot.ts)."""
        return {
            "cursor": self.cursor,
            "idleSeconds": self.idle_seconds,
            "expiresAt": self.expires_at,
            "persistent": self.persistent,
            "webViewObjects": self.web_view_objects,
            "anyHost": self.any_host,
        }


def options_for_link(
    work: Work,
    link: links.FoundLink,
    app: ReportingOptions,
    account_id: int,
    *,
    in_frame: bool,
    host: str,
) -> WindowOptions:
    site = preferences_of(work.connection, link.site_id)
    persistent = is_persistent(
        requested=app.sync_launch, in_frame=in_frame, frames_follow=site.syncLaunchInFrame
    )
    details: dict[str, Any] = {"in_frame": in_frame, "host": host, "persistent": persistent}
    if persistent:
        details["sync_sequence"] = _sequence(work, link, account_id)
    return WindowOptions(link.framed, link.pk, details)


def _sequence(work: Work, link: links.FoundLink, account_id: int) -> int:
    """
    Return the newest launch that the window has seen.

    The first window of a link follows launches that came later; a window that opens the link again
    stays at this report.
    """
    target = windows.current_target(work.connection, link.site_id, account_id)
    if target is None:
        return 0
    own_sequence = int(link.payload.get("sync_sequence", 0))
    if own_sequence == target.sequence:
        owner = (link.site_id, account_id)
        windows.record_answer(work.connection, owner, own_sequence, FollowAnswer.FOLLOWED)
    return target.sequence if link.opened or not own_sequence else own_sequence


def options_for_reload(work: Work, session: BrowserSession) -> WindowOptions:
    details = {name: session.details[name] for name in KEPT_DETAILS if name in session.details}
    # The links are kept: a session ends when a token of its links is revoked.
    return WindowOptions(session.framed, session.link_pk, details, session.identity_link_pk)


def window_facts(
    work: Work, report_id: str, window: WindowOptions, site: Any, life: AccessLifetimes
) -> WindowFacts:
    """Return the window facts; `site` is its row, and the report must be locked."""
    newest = select(func.max(CHANGES.c.cursor)).where(CHANGES.c.report_id == report_id)
    return WindowFacts(
        cursor=work.connection.execute(newest).scalar_one() or 0,
        idle_seconds=idle_seconds(site.settings, life),
        expires_at=work.now + life.session * 1000,
        persistent=bool(window.details.get("persistent")),
        web_view_objects=read_preferences(site.settings).webViewObjects,
        # An administrator's link, on a site without configured host origins.
        any_host=window.framed and not site.host_origins,
    )


GROUPS = metadata.tables["engine_prelim_group"]


@dataclass(frozen=True, slots=True)
class LinkVisit:
    """
    A request that opens a link.

    `session` is the browser's existing session, which may be pre-warmed. `host` is the origin of
    the embedding page, if the browser names it.
    """

    handle: str
    in_frame: bool = False
    browser_user: BrowserUser | None = None
    session: BrowserSession | None = None
    host: str = ""
    handed_over: bool = False
    """Whether the window that writes the report has been asked to save its text."""


class HandoverNeeded(Exception):
    """An open window of another user writes the report that is to be taken over."""

    def __init__(self, report_id: str) -> None:
        super().__init__("the window that writes the report saves its text first")
        self.report_id = report_id


@dataclass(frozen=True, slots=True)
class OpenedReport:
    """
    An opened report, with what its page needs.

    `secret` is that of the page's session. `transfer`: the user must first confirm the transfer.
    """

    secret: str
    site_id: str
    report_id: str
    account: SiteUser
    framed: bool
    transfer: bool
    owner_name: str
    language: str
    theme: str
    prelim_groups: Sequence[dict[str, Any]]
    host_origins: Sequence[str]
    window: WindowFacts


@dataclass(frozen=True, slots=True)
class LinkContext:
    """The keys of links, and the lifetimes of links and sessions."""

    link_keys: links.LinkKeys
    lifetimes: AccessLifetimes


def open_link(work: Work, context: LinkContext, visit: LinkVisit) -> OpenedReport:
    """Open a link; raise EngineError."""
    link = links.find(work.connection, context.link_keys, visit.handle, Purpose.LAUNCH, work.now)
    return open_found_link(work, context, link, visit)


def open_found_link(
    work: Work, context: LinkContext, link: links.FoundLink, visit: LinkVisit
) -> OpenedReport:
    """Open a link that was found; raise EngineError."""
    account, identity_link = _user(work, link, visit)
    request = LaunchInput.from_json(link.payload["launch"])
    report = _report(work, link, request, account)
    transfer = needs_transfer(report, account.id) and not request.force_transfer
    if not transfer:
        _require_handover(work, report, account.id, visit)
        assign_report(work, report, account.id, untouched=True)
    links.mark_opened(work.connection, link, work.now)
    work.session.flush()
    window = options_for_link(
        work, link, request.app, account.id, in_frame=visit.in_frame, host=visit.host
    )
    window = replace(window, identity_link_pk=identity_link)
    window = window.with_prewarmed_languages(visit.session, link.site_id, account.id)
    return begin_page(
        work, context, report, account, window, options=request.app.to_json(), transfer=transfer
    )


def _require_handover(work: Work, report: Report, account_id: int, visit: LinkVisit) -> None:
    """Raise `HandoverNeeded` while an open window of another user writes the report."""
    taken = report.status not in SIGNED and report.owner_id not in (None, account_id)
    if not taken or visit.handed_over:
        return
    if windows.writing_window(work.connection, report.report_id, None, work.now) is not None:
        raise HandoverNeeded(report.report_id)


def _user(work: Work, link: links.FoundLink, visit: LinkVisit) -> tuple[SiteUser, int | None]:
    """
    Return the user of the opened page: the link's own, or the one of the browser's session.

    In the second case, also return the link that identified the user of that session.
    """
    if visit.in_frame and not link.framed:
        raise EngineError(ErrorCode.FRAME_NOT_PERMITTED)
    if link.payload["authenticated"] and link.account_id is not None:
        return get_user(work.connection, link.site_id, link.account_id), None
    user = visit.browser_user
    account_id = None if user is None else user.account_on(link.site_id)
    if user is None or account_id is None:
        raise EngineError(ErrorCode.LOGIN_NEEDED)
    if account_role(work.connection, account_id, link.site_id) is None:
        raise EngineError(ErrorCode.FORBIDDEN)
    return get_user(work.connection, link.site_id, account_id), user.identity_link_pk


def _report(work: Work, link: links.FoundLink, request: LaunchInput, account: SiteUser) -> Report:
    lock_patients(work, request.identity.site, [request.identity.mrn])
    identity = current_identity(work.connection, request.identity)
    found = lock_orders(work, [identity], current=True)[0]
    creates = bool(link.payload["creates"])
    if found is None:
        if not creates:
            raise EngineError(ErrorCode.LINK_NOT_FOUND)
        links.lock_link(work.connection, link)
    # Only the first opening applies the launch: a second one must not undo later changes.
    if creates and not link.opened and (found is None or found.report.status not in SIGNED):
        names = known_names(work, identity.site, [identity.mrn]).get(identity.mrn, set())
        request = screen_launch(work, keep_newer_name(names, request), identity)
        require_matching_name(names, request)  # the patient may have been renamed
        require_same_person(work, request, identity)  # or merged
        if found is not None:
            merge_launch(work, found.report, found.order, request)
    if found is not None:
        return found.report
    return create_drafts(work, [NewDraft(request, identity, account)])[0]


def reopen(work: Work, context: LinkContext, session: BrowserSession) -> OpenedReport:
    """Open the report of a session again, after its page was reloaded."""
    report = lock_report_by_id(work, session.report_id)
    account = get_user(work.connection, report.site_id, session.account_id)
    return open_locked(work, context, report, account, options_for_reload(work, session))


def open_locked(
    work: Work, context: LinkContext, report: Report, account: SiteUser, window: WindowOptions
) -> OpenedReport:
    """Open a locked report for a user; a Draft of another user waits for the confirmation."""
    transfer = needs_transfer(report, account.id)
    if not transfer:
        assign_report(work, report, account.id, untouched=True)
    work.session.flush()
    return begin_page(
        work, context, report, account, window, options=report.reporting, transfer=transfer
    )


def take_over(work: Work, report_id: str, account_id: int) -> Report:
    """Take a Draft over from its owner, after the user has confirmed."""
    return assign_report(work, lock_report_by_id(work, report_id), account_id, untouched=True)


def begin_page(
    work: Work,
    context: LinkContext,
    report: Report,
    account: SiteUser,
    window: WindowOptions,
    *,
    transfer: bool,
    options: Mapping[str, Any],
) -> OpenedReport:
    site = work.connection.execute(select(SITES).where(SITES.c.site_id == report.site_id)).one()
    user_settings = settings_of(work.connection, report.site_id, account.id)
    language = window.chosen_language or _language(
        user_settings, options, window.languages, site.settings
    )
    details = {"report_id": report.report_id, "app_language": language, **window.details}
    new = NewSession(
        report.site_id,
        account.id,
        window.framed,
        window.link_pk,
        details,
        window.identity_link_pk,
    )
    return OpenedReport(
        secret=begin_session(
            work.connection, context.link_keys.random_bytes, new, work.now, context.lifetimes
        ),
        site_id=report.site_id,
        report_id=report.report_id,
        account=account,
        framed=window.framed,
        transfer=transfer,
        owner_name=_owner_name(work, report),
        language=language,
        theme=str(user_settings.get("theme", "dark")),
        prelim_groups=_groups(work, report.site_id),
        host_origins=tuple(site.host_origins),
        window=window_facts(work, report.report_id, window, site, context.lifetimes),
    )


def _owner_name(work: Work, report: Report) -> str:
    if report.owner_id is None:
        return ""
    return get_user(work.connection, report.site_id, report.owner_id).shown


def _language(
    user: Mapping[str, object], options: Any, prewarmed: Mapping[str, str], site: Any
) -> str:
    choices = (user.get("AppLanguage"), site.get("AppLanguage"))
    requested = (options.get("app_language"), prewarmed.get("app_language"))
    return first_language([*requested, *(str(choice or "") for choice in choices)])


def _groups(work: Work, site_id: str) -> list[dict[str, Any]]:
    query = select(GROUPS.c.name, GROUPS.c.tags).where(GROUPS.c.site_id == site_id)
    rows = work.connection.execute(query.order_by(GROUPS.c.name))
    return [{"name": row.name, "tags": list(row.tags)} for row in rows]


def follow_launch(
    work: Work,
    context: LinkContext,
    session: BrowserSession,
    sequence: int,
    *,
    handed_over: bool = False,
) -> OpenedReport:
    """
    Open the launch that a window follows, and end the window's session.

    Raise `superseded` if a newer launch exists, or the errors of opening the link, including
    `HandoverNeeded`.
    """
    target = windows.lock_target(work.connection, session, sequence)
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
    leave_report(work, session)
    return open_found_link(work, context, link, visit)


def refuse_launch(
    work: Work, session: BrowserSession, sequence: int, reason: FollowRefusal
) -> None:
    """Store that a window stays at its report, and why."""
    owner = (session.site_id, session.account_id)
    windows.record_answer(work.connection, owner, sequence, FollowAnswer.REFUSED, reason.value)


def leave_report(work: Work, session: BrowserSession) -> None:
    """End a session and release its write lease."""
    query = select_rows(Report).where(Report.report_id == session.report_id).with_for_update()
    report = work.session.exec(query).first()
    if report is not None:
        lease.release(work, session.holder, report)
        editor = Editor(session.account_id, SiteRole.USER, session.holder)
        untouched.return_left(work, editor, report)
    end_session(work.connection, session, work.now)


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """A frame that requests a link: `host` is the embedding page, if the browser names it."""

    handle: str
    purpose: Purpose
    host: str


@dataclass(frozen=True, slots=True)
class UnprovenLink:
    """A link of a site with host origins, before the browser has named one of them."""

    link: links.FoundLink
    hosts: Sequence[str]


def find_unproven(
    connection: Connection, context: LinkContext, framing: FrameRequest, now: int
) -> UnprovenLink | None:
    """
    Return the link if its host is still to be proven; None for an allowed host or a site without
    host origins.

    Raise EngineError.
    """
    link = links.find(connection, context.link_keys, framing.handle, framing.purpose, now)
    query = select(SITES.c.host_origins).where(SITES.c.site_id == link.site_id)
    hosts: list[str] = connection.execute(query).scalar_one()
    if not hosts or not link.framed or framing.host in hosts:
        return None
    return UnprovenLink(link, hosts)


def record_host(work: Work, context: LinkContext, link: links.FoundLink, host: str) -> None:
    """Record a host for `observed_hosts`, as a session that has already ended."""
    details = {"host": host}
    new = NewSession(link.site_id, link.account_id or 0, True, link.pk, details, ended=True)
    begin_session(work.connection, context.link_keys.random_bytes, new, work.now, context.lifetimes)


def observed_hosts(connection: Connection, site_id: str) -> list[dict[str, Any]]:
    """Return {origin, lastSeenAt, configured} of each host, newest first."""
    configured = get_site(connection, site_id).host_origins
    host = SESSIONS.c.details["host"].as_string()
    newest = func.max(SESSIONS.c.created_at)
    query = (
        select(host.label("origin"), newest.label("at"))
        .where(SESSIONS.c.site_id == site_id, host.is_not(None), host != "")
        .group_by(host)
        .order_by(newest.desc())
        .limit(100)
    )
    return [
        {
            "origin": row.origin,
            "lastSeenAt": event_time(row.at),
            "configured": row.origin in configured,
        }
        for row in connection.execute(query)
    ]
