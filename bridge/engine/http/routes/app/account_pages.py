"""The pages of whoever is signed in: worklist, settings, administration, a report from there."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import Engine, engine_of
from bridge.engine.http.pages import html_pages
from bridge.engine.http.pages.html_pages import Notice, notice
from bridge.engine.http.pages.link_opening import is_prefetch, visitor
from bridge.engine.http.requests.audit_events import deed_of, refused
from bridge.engine.http.requests.same_origin import from_our_page, in_frame
from bridge.engine.http.sign_in import password_form
from bridge.engine.http.sign_in.account_session import whoever_signed_in
from bridge.engine.launch.languages import first_language
from bridge.engine.service.accounts.own_account import AccountSession, profile
from bridge.engine.service.launch.link_opening import LinkContext, OpenedReport
from bridge.engine.service.launch.links import LinkKeys
from bridge.engine.service.work import Actor, Work
from bridge.engine.service.worklist.ownership import open_from_worklist

router = APIRouter(prefix="/reporting", include_in_schema=False)
root = APIRouter(include_in_schema=False)


@root.api_route("/", methods=["GET", "HEAD"])
@router.get("")
@router.get("/")
async def home() -> Response:
    """Lead to the worklist."""
    return RedirectResponse(password_form.HOME, 303)


@router.get("/login")
async def login(request: Request) -> Response:
    """Ask who is there; whoever is signed in goes on."""
    engine = engine_of(request)
    if in_frame(request) or await whoever_signed_in(engine, request) is None:
        return password_form.login_page(request)
    return RedirectResponse(password_form.place(request.query_params.get("next", "")), 303)


@router.get("/worklist")
@router.get("/settings")
@router.get("/administration")
async def place(request: Request) -> Response:
    """Return the app where the address says; the app asks for what it shows."""
    engine = engine_of(request)
    signed = None if in_frame(request) else await whoever_signed_in(engine, request)
    if signed is None:
        return RedirectResponse(f"/reporting/login?next={request.url.path}", 303)
    return html_pages.app_page(await _boot(engine, signed))


@router.get("/report/{report_id}")
async def report(report_id: str, request: Request) -> Response:
    """
    Open a report from the worklist, for the user who is signed in.

    Opening may make it theirs, so no page of somebody else can have it opened.
    """
    engine = engine_of(request)
    if is_prefetch(request):
        return Response(status_code=204)
    signed = None if in_frame(request) else await whoever_signed_in(engine, request)
    if signed is None or not from_our_page(engine, request):
        return RedirectResponse(password_form.HOME, 303)
    before = await visitor(engine, request)
    door = LinkContext(LinkKeys(engine.keys, engine.random), engine.settings.lifetimes)
    account_id = signed.account.id

    def deed(work: Work) -> OpenedReport:
        opened = open_from_worklist(work, door, signed.visitor, report_id, before)
        site_id, opened_id = opened.site_id, opened.report_id
        work.note(deed_of(request, "open", site_id, opened_id, account_id=account_id))
        return opened

    try:
        opened = await engine.work.change(Actor(account_id), engine.clock(), deed)
    except EngineError as refusal:
        refused(request, "open", code=refusal.code)
        status, detail = refusal.status, refusal.detail
        return notice(request, Notice.CANNOT_OPEN, status=status, detail=detail)
    page = html_pages.report_page(opened, html_pages.policy(()))
    cookie = html_pages.session_cookie(opened.secret, secure=engine.addresses.secure, framed=False)
    page.headers.append("Set-Cookie", cookie)
    return page


async def _boot(engine: Engine, signed: AccountSession) -> dict[str, Any]:
    own = await engine.work.read(lambda c: profile(c, signed.visitor))
    language, theme = str(own["AppLanguage"]), own["theme"] or "dark"
    return {"mode": "worklist", "locale": first_language([language]), "theme": theme}
