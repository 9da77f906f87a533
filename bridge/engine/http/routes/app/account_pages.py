"""Pages of a signed-in user: worklist, settings, administration, a report of the worklist."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.pages import html_pages
from bridge.engine.http.pages.html_pages import NoticeKey, show_notice
from bridge.engine.http.pages.link_opening import cookie_session, is_prefetch
from bridge.engine.http.requests.audit_events import audit_event, record_refusal
from bridge.engine.http.requests.same_origin import is_framed, is_same_origin
from bridge.engine.http.sign_in import password_form
from bridge.engine.http.sign_in.account_session import signed_in_account
from bridge.engine.launch_request import first_language
from bridge.engine.service.accounts.own_account import AccountSession, profile
from bridge.engine.service.launch.link_opening import LinkContext, OpenedReport
from bridge.engine.service.launch.links import LinkKeys
from bridge.engine.service.work import ActorRef, Work
from bridge.engine.service.worklist.ownership import open_from_worklist

router = APIRouter(prefix="/reporting", include_in_schema=False)
root = APIRouter(include_in_schema=False)


@root.api_route("/", methods=["GET", "HEAD"])
@router.get("")
@router.get("/")
async def home() -> Response:
    """Redirect to the worklist."""
    return RedirectResponse(password_form.HOME, 303)


@router.get("/login")
async def login(request: Request) -> Response:
    """Show the sign-in page; redirect a user who is signed in."""
    engine = engine_of(request)
    if is_framed(request) or await signed_in_account(engine, request) is None:
        return password_form.login_page(request)
    return RedirectResponse(password_form.landing_page(request.query_params.get("next", "")), 303)


@router.get("/worklist")
@router.get("/settings")
@router.get("/administration")
async def place(request: Request) -> Response:
    """Return the page of the app; the app shows the view of the address."""
    engine = engine_of(request)
    signed = None if is_framed(request) else await signed_in_account(engine, request)
    if signed is None:
        return RedirectResponse(f"/reporting/login?next={request.url.path}", 303)
    return html_pages.app_page(await _boot(engine, signed))


@router.get("/report/{report_id}")
async def report(report_id: str, request: Request) -> Response:
    """
    Open a report from the worklist, for the user who is signed in.

    Opening may assign the report, so a page of another site cannot cause it.
    """
    engine = engine_of(request)
    if is_prefetch(request):
        return Response(status_code=204)
    signed = None if is_framed(request) else await signed_in_account(engine, request)
    if signed is None or not is_same_origin(engine, request):
        return RedirectResponse(password_form.HOME, 303)
    before = await cookie_session(engine, request)
    context = LinkContext(LinkKeys(engine.keys, engine.random), engine.settings.lifetimes)
    account_id = signed.account.id

    def apply(work: Work) -> OpenedReport:
        opened = open_from_worklist(work, context, signed.browser_user, report_id, before)
        site_id, opened_id = opened.site_id, opened.report_id
        work.audit(audit_event(request, "open", site_id, opened_id, account_id=account_id))
        return opened

    try:
        opened = await engine.work.change(ActorRef(account_id), engine.clock(), apply)
    except EngineError as refusal:
        record_refusal(request, "open", code=refusal.code)
        status, detail = refusal.status, refusal.detail
        return show_notice(request, NoticeKey.CANNOT_OPEN, status=status, detail=detail)
    page = html_pages.report_page(opened, html_pages.page_headers(()))
    cookie = html_pages.session_cookie(opened.secret, secure=engine.addresses.secure, framed=False)
    page.headers.append("Set-Cookie", cookie)
    return page


async def _boot(engine: EngineState, signed: AccountSession) -> dict[str, Any]:
    own = await engine.work.read(lambda c: profile(c, signed.browser_user))
    language, theme = str(own["AppLanguage"]), own["theme"] or "dark"
    return {"mode": "worklist", "locale": first_language([language]), "theme": theme}
