"""
Pages that a browser opens by a link: report links, shares, session links, `GET /reporting/init`.

If a page of another site frames a link and names no allowed host, the response is a page that
repeats the request. The browser runs that page only if `frame-ancestors` permits it, which proves
the host. Every refusal becomes a page.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.exports import html
from bridge.engine.errors import EngineError
from bridge.engine.http import html_pages
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.html_pages import NoticeKey, language_of, notice_text, show_notice
from bridge.engine.http.requests.audit_events import audit_event, record_refusal
from bridge.engine.http.requests.guard import (
    count_failed_token,
    framing_origin,
    is_framed,
    is_framed_by_other_site,
    is_prefetch,
    prefetched,
)
from bridge.engine.http.requests.response_bodies import unauthorized
from bridge.engine.http.routes.api.launches import (
    issue_session_link,
    refuse_study_members,
    session_link,
)
from bridge.engine.http.sign_in.account_session import signed_in_account
from bridge.engine.http.sign_in.password_sign_in import login_page
from bridge.engine.http.window_handover import wait_for_handover
from bridge.engine.launch import NamedUser
from bridge.engine.launch_parser import read_language
from bridge.engine.links import PATHS, Purpose
from bridge.engine.service.accounts.sessions import BrowserSession, find_session
from bridge.engine.service.caller import SITES, BrowserUser, TokenScope, account_role_in
from bridge.engine.service.launch.link_visits import (
    FrameRequest,
    HandoverNeeded,
    LinkContext,
    LinkVisit,
    OpenedReport,
    find_unproven,
    open_link,
    record_host,
    reopen,
)
from bridge.engine.service.launch.links import InitRequest, PrewarmedSession, begin_prewarmed
from bridge.engine.service.reports import shares
from bridge.engine.service.sites.site_settings import preferences_of
from bridge.engine.service.work import ActorRef, Work

router = APIRouter(include_in_schema=False)


async def frame_check(
    engine: EngineState, request: Request, context: LinkContext, handle: str, purpose: Purpose
) -> Response | None:
    """Return the page that proves the framing host; None if no proof is needed."""
    if not handle or not is_framed_by_other_site(request):
        return None
    framing, now = FrameRequest(handle, purpose, framing_origin(request)), engine.clock()
    found = await engine.work.read(lambda c: find_unproven(c, context, framing, now))
    if found is None:
        return None
    if framing.host:
        await engine.work.change(
            ActorRef(), now, lambda work: record_host(work, context, found.link, framing.host)
        )
    code = language_of(request)
    return html_pages.frame_check_page(
        found.hosts, notice_text(NoticeKey.FRAME_NOT_PERMITTED, code), code
    )


_NOTICES: Final[Mapping[ErrorCode, NoticeKey]] = {
    ErrorCode.FRAME_NOT_PERMITTED: NoticeKey.FRAME_NOT_PERMITTED,
    ErrorCode.REPORT_DELETED: NoticeKey.REPORT_DELETED,
    ErrorCode.LINK_EXPIRED: NoticeKey.LINK_EXPIRED,
    ErrorCode.PATIENT_NAME_MISMATCH: NoticeKey.PATIENT_NAME_MISMATCH,
}
_NOTICES_BY_STATUS: Final[Mapping[int, NoticeKey]] = {
    404: NoticeKey.NOT_FOUND,
    403: NoticeKey.FORBIDDEN,
}


async def cookie_session(engine: EngineState, request: Request) -> BrowserSession | None:
    secret = request.cookies.get(engine.addresses.cookie(html_pages.COOKIE), "")
    if not secret:
        return None
    now, life = engine.clock(), engine.settings.lifetimes
    return await engine.work.read(lambda c: find_session(c, secret, now, life))


async def _browser_user(engine: EngineState, request: Request) -> BrowserUser | None:
    """Return the user of the browser: by the account cookie, else by the report's cookie."""
    if signed := await signed_in_account(engine, request):
        return signed.browser_user
    session = await cookie_session(engine, request)
    if session is None:
        return None
    return BrowserUser(session.account_id, session.site_id, session.identity)


@router.api_route(PATHS[Purpose.LAUNCH], methods=["GET", "HEAD"])
async def launch_report(request: Request, token: str = "", report: str = "") -> Response:
    """
    Open a report link; without a token, the report of the session cookie.

    `report` is the report that a reloaded tab showed before. If another tab has replaced the cookie
    since, the response is a notice, so that the tab never shows another patient.
    """
    engine, handle, shown = engine_of(request), token, report
    if is_prefetch(request):
        return prefetched()
    session = await cookie_session(engine, request)
    if not handle and (session is None or not session.report_id):
        return _refusal(request, EngineError(ErrorCode.NOT_FOUND), handle)
    if not handle and session is not None and shown not in ("", session.report_id):
        return show_notice(
            request, NoticeKey.ANOTHER_REPORT, status=409, headers=html_pages.page_headers(["*"])
        )
    context = engine.link_context()
    user = await _browser_user(engine, request)
    visit = LinkVisit(handle, is_framed(request), user, session, framing_origin(request))

    def open_in_transaction(work: Work, visit: LinkVisit = visit) -> OpenedReport:
        if session is not None and not handle:
            opened = reopen(work, context, session)
        else:
            opened = open_link(work, context, visit)
        site_id, report_id, account_id = opened.site_id, opened.report_id, opened.account.id
        work.audit(audit_event(request, "open", site_id, report_id, account_id=account_id))
        return opened

    try:
        if check_page := await frame_check(engine, request, context, handle, Purpose.LAUNCH):
            return check_page
        actor = ActorRef(user.account_id if user else None)
        try:
            opened = await engine.work.change(actor, engine.clock(), open_in_transaction)
        except HandoverNeeded as needed:
            await wait_for_handover(engine, needed.report_id)
            again = partial(open_in_transaction, visit=replace(visit, handed_over=True))
            opened = await engine.work.change(actor, engine.clock(), again)
    except EngineError as refusal:
        record_refusal(request, "open", code=refusal.code)
        return _refusal(request, refusal, handle)
    page = html_pages.report_page(opened, html_pages.page_headers(_ancestors(engine, opened)))
    _set_cookie(engine, page, opened.secret, request)
    return page


def _ancestors(engine: EngineState, opened: OpenedReport) -> list[str]:
    """Return the origins that may frame a report: the site's hosts, or any if it lists none."""
    if not opened.framed:
        return []
    return ["'self'", *opened.host_origins] if opened.host_origins else ["*"]


def _refusal(request: Request, refusal: EngineError, handle: str) -> Response:
    if refusal.code is ErrorCode.LOGIN_NEEDED:
        return login_page(request, handle=handle)
    notice = _NOTICES.get(refusal.code) or _NOTICES_BY_STATUS.get(refusal.status)
    # Any origin may frame a notice, so that the user can read the reason.
    return show_notice(
        request,
        notice or NoticeKey.CANNOT_OPEN,
        status=refusal.status,
        headers=html_pages.page_headers(["*"]),
        detail="" if notice else refusal.detail,
    )


def _set_cookie(engine: EngineState, response: Response, secret: str, request: Request) -> None:
    # In a frame of another site the browser keeps only a partitioned cookie.
    cookie = html_pages.session_cookie(engine.addresses, secret, framed=is_framed(request))
    response.headers.append("Set-Cookie", cookie)


@router.api_route(PATHS[Purpose.SHARE], methods=["GET", "HEAD"])
async def shared(request: Request, token: str = "") -> Response:
    """Show the report of a share as its HTML export, without any control."""
    engine = engine_of(request)
    if is_prefetch(request):
        return prefetched()
    now = engine.clock()
    try:
        found = await engine.work.read_session(
            lambda session: shares.open_share(session, token, now)
        )
    except EngineError as refusal:
        record_refusal(request, "share-open", code=refusal.code)
        return _refusal(request, refusal, token)
    engine.audit_buffer.add([audit_event(request, "share-open", found.site_id, found.report_id)])
    zone = ZoneInfo(found.exported.site.time_zone or "UTC")
    text = await engine.exports.run(html.render, found.exported, zone)
    return HTMLResponse(text, headers=html_pages.document_headers())


@router.api_route(PATHS[Purpose.INIT], methods=["GET", "HEAD"])
async def init(request: Request) -> Response:
    """Pre-warm an embedded session, by a session link or with user and token in the query."""
    engine = engine_of(request)
    query = dict(request.query_params)
    if is_prefetch(request):
        return prefetched()
    try:
        refuse_study_members(request.query_params.multi_items(), "")
        if not query.get("token"):
            return await _init_from_query(engine, request, query)
        return await _prewarm(engine, request, query["token"])
    except EngineError as refusal:
        record_refusal(request, "init", code=refusal.code)
        return show_notice(
            request,
            NoticeKey.CANNOT_PREPARE,
            status=refusal.status,
            headers=html_pages.page_headers(["*"]),
            detail=refusal.detail,
        )


async def _prewarm(engine: EngineState, request: Request, handle: str) -> Response:
    context = engine.link_context()
    if check_page := await frame_check(engine, request, context, handle, Purpose.INIT):
        return check_page
    present = await cookie_session(engine, request)

    def apply(work: Work) -> tuple[PrewarmedSession, list[str]]:
        warmed = begin_prewarmed(work, context.link_keys, context.lifetimes, handle, present)
        account_id = warmed.account_id
        work.audit(audit_event(request, "warm", warmed.site_id, account_id=account_id))
        site = SITES.select().where(SITES.c.site_id == warmed.site_id)
        return warmed, list(work.connection.execute(site).one().host_origins)

    warmed, origins = await engine.work.change(ActorRef(), engine.clock(), apply)
    ancestors = ["'self'", *origins] if origins else ["*"]
    page = html_pages.waiting_page(
        warmed.language, warmed.theme, ancestors, notice_text(NoticeKey.WAITING, warmed.language)
    )
    if warmed.secret:
        _set_cookie(engine, page, warmed.secret, request)
    return page


async def _init_from_query(
    engine: EngineState, request: Request, query: dict[str, Any]
) -> Response:
    """Redirect to a session link at once, so that the address does not keep the token in `Auth`."""
    site_id = query.get("SiteID", "").strip()
    if not site_id:
        raise EngineError(ErrorCode.MISSING_PARAMETER, "SiteID is missing", pointer="SiteID")
    chosen = await engine.work.read(lambda connection: preferences_of(connection, site_id))
    if not (engine.settings.browser_init and chosen.browserInit):
        raise EngineError(ErrorCode.ROUTE_DISABLED)
    if not any(query.get(name) for name in ("Auth", "UserName", "UserEmail")):
        return await _keep_session(engine, request, site_id)
    for name in ("Auth", "UserName", "UserEmail"):
        if not query.get(name, "").strip():
            raise EngineError(ErrorCode.MISSING_PARAMETER, f"{name} is missing", pointer=name)
    init = InitRequest(
        site_id=site_id,
        user=NamedUser(query["UserEmail"].strip(), query["UserName"].strip()),
        location=query.get("SiteLocation", "").strip(),
        app_language=read_language(query.get("AppLanguage"), "AppLanguage"),
        speech_language=read_language(query.get("SpeechLanguage"), "SpeechLanguage"),
    )
    caller = await engine.authenticate(query["Auth"])
    if caller is None:
        count_failed_token(engine, request)
        raise unauthorized("the token in Auth is not valid")
    if not caller.permits(TokenScope.LAUNCH):
        raise EngineError(ErrorCode.FORBIDDEN)
    request.state.caller = caller
    prepared = await issue_session_link(engine, request, init)
    target = session_link("", prepared)
    # Neither the browser's history nor a referrer keeps the token in `Auth`.
    headers = {"Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
    return RedirectResponse(target, 303, headers)


async def _keep_session(engine: EngineState, request: Request, site_id: str) -> Response:
    """Return the notice for a user who is signed in already; raise 401 in a frame."""
    user = None if is_framed(request) else await _browser_user(engine, request)
    account_id = user.account_on(site_id) if user is not None else None
    if account_id is None:
        raise unauthorized("Auth, UserName and UserEmail are needed")
    if await engine.work.read(lambda c: account_role_in(c, account_id, site_id)) is None:
        raise EngineError(ErrorCode.FORBIDDEN)
    return show_notice(request, NoticeKey.READY)
