"""The account of a signed-in user (profile, password, access tokens), and the pages of a user."""

# ruff: noqa: N815  # the spelling of the interface reference

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field, StrictBool
from starlette.responses import JSONResponse, RedirectResponse, Response

from bridge.contract.errors import ErrorCode
from bridge.contract.requests import Body, ExpiryDays, Identifier, RowId
from bridge.engine.errors import EngineError
from bridge.engine.http import html_pages
from bridge.engine.http.engine_state import EngineDep, EngineState, engine_of
from bridge.engine.http.html_pages import NoticeKey, show_notice
from bridge.engine.http.requests.audit_events import audit_event, record_refusal
from bridge.engine.http.requests.guard import is_framed, is_prefetch, is_same_origin
from bridge.engine.http.sign_in import password_sign_in
from bridge.engine.http.sign_in.account_session import (
    AccountRoute,
    SignedInDep,
    require_recent_proof,
    signed_in_account,
)
from bridge.engine.http.sign_in.password_sign_in import sign_out
from bridge.engine.launch import first_language
from bridge.engine.service.accounts import own_account, passwords, tokens, users
from bridge.engine.service.accounts.own_account import AccountSession, profile
from bridge.engine.service.accounts.site_users import DAY_MS, token_json
from bridge.engine.service.launch.link_visits import OpenedReport
from bridge.engine.service.sites import audit_states
from bridge.engine.service.sites.site_settings import Language, image_uri
from bridge.engine.service.work import ActorRef, Work
from bridge.engine.service.worklist import open_from_worklist

Password = Annotated[str, Field(max_length=1024, repr=False)]
"""Any text; the password policy is in `bridge.engine.rules.passwords`."""


class ChoicesBody(Body):
    """Display preferences of a user; absent members are unchanged."""

    AppLanguage: Language | Literal[""] | None = None
    theme: Literal["dark", "light", "system", ""] | None = None
    AutoComparePrior: StrictBool | None = None

    def choices(self) -> dict[str, Any]:
        """Return the preferences that were sent."""
        return self.model_dump(exclude_unset=True, exclude={"name", "signature"})


class ProfileBody(ChoicesBody):
    """Changes to the own profile; absent members are unchanged."""

    name: Identifier | None = None
    SpeechLanguage: Language | Literal[""] | None = None
    signatureText: Annotated[str, Field(max_length=500)] | None = None
    signature: Annotated[str | None, Field(description="A data URI", repr=False)] = None


class PasswordBody(Body):
    """A new password, and the current one as proof."""

    present: Password
    wanted: Password


class ConfirmBody(Body):
    """The current password, and a one-time code if the account has an authenticator."""

    password: Password
    code: Annotated[str, Field(max_length=20, repr=False)] = ""


class OwnTokenBody(Body):
    """A new access token for the user."""

    label: Identifier
    expiresDays: ExpiryDays | None = None


router = APIRouter(
    prefix="/reporting/api/account", route_class=AccountRoute, include_in_schema=False
)


@router.get("")
async def read_profile(engine: EngineDep, signed: SignedInDep) -> Response:
    """Return the user with preferences and sites."""
    return JSONResponse(await engine.work.read(lambda c: own_account.account_json(c, signed)))


@router.put("")
async def change_profile(body: ProfileBody, request: Request, signed: SignedInDep) -> Response:
    """Change preferences of the user; absent members are unchanged."""
    engine, account_id = engine_of(request), signed.account.id
    image = await engine.work.run(lambda: image_uri(body.signature, "/signature"))

    read_state = audit_states.profile(account_id)

    def apply(work: Work) -> dict[str, Any]:
        before = read_state(work.connection)
        own_account.save_choices(work.connection, signed.browser_user, body.choices())
        if body.name:
            own_account.rename(work.connection, signed.browser_user, body.name)
        if "signature" in body.model_fields_set:
            users.update_membership(work.connection, account_id, signature=image)
        event = audit_event(request, "profile-update", target=("account", str(account_id)))
        changes = audit_states.difference(before, read_state(work.connection))
        work.audit(replace(event, **changes))
        return own_account.account_json(work.connection, signed)

    return JSONResponse(await engine.work.change(ActorRef(account_id), engine.clock(), apply))


@router.post("/password")
async def change_password(body: PasswordBody, request: Request, signed: SignedInDep) -> Response:
    """Set a new password; other sessions of the account end."""
    engine, account_id = engine_of(request), signed.account.id
    own = await engine.work.read(lambda c: own_account.profile(c, signed.browser_user))
    present, attempt = await password_sign_in.verify_owner(
        request, signed, body.present, pointer="/present"
    )

    def hashed() -> str:
        passwords.require_strong(body.wanted, own["email"], own["name"])
        return passwords.hash_password(body.wanted)

    password_hash = await engine.hashing.run(hashed)

    def apply(work: Work) -> None:
        own_account.change_password(work.connection, signed, present, password_hash, work.now)
        engine.sign_in_limiter.give_back(work.connection, attempt)
        event = audit_event(request, "password-update", target=("account", str(account_id)))
        work.audit(replace(event, before={}, after={"password": "changed"}))

    await engine.work.change(ActorRef(account_id), engine.clock(), apply)
    return Response(status_code=204)


@router.post("/confirm")
async def confirm(body: ConfirmBody, request: Request, signed: SignedInDep) -> Response:
    """Confirm the password again; some actions require a recent confirmation."""
    engine, account_id = engine_of(request), signed.account.id
    password_hash, attempt = await password_sign_in.verify_owner(request, signed, body.password)

    def apply(work: Work) -> None:
        proof = password_sign_in.prove_owner(engine, work, signed.account, password_hash, body.code)
        own_account.confirm(work.connection, signed, proof, work.now)
        engine.sign_in_limiter.give_back(work.connection, attempt)
        work.audit(audit_event(request, "confirm"))

    await engine.work.change(ActorRef(account_id), engine.clock(), apply)
    return Response(status_code=204)


@router.post("/sign-out")
async def leave(request: Request) -> Response:
    """End the session."""
    return await sign_out(request)


@router.get("/tokens")
async def own_tokens(engine: EngineDep, signed: SignedInDep) -> Response:
    """Return the user's access tokens, newest first, without their secrets."""
    found = await engine.work.read(lambda c: tokens.list_tokens(c, [signed.account.id]))
    return JSONResponse([token_json(token) for token in found])


@router.post("/tokens")
async def create_token(body: OwnTokenBody, request: Request, signed: SignedInDep) -> Response:
    """Create an access token; only this response contains its secret."""
    require_recent_proof(request)
    engine, account_id = engine_of(request), signed.account.id

    def apply(work: Work) -> dict[str, Any]:
        days = body.expiresDays
        token_id, secret = tokens.create_token(
            work.connection,
            account_id,
            now=work.now,
            random_bytes=engine.random,
            label=body.label,
            expires_at=None if days is None else work.now + days * DAY_MS,
        )
        event = audit_event(
            request, "token-create", target=("token", str(token_id)), token=token_id
        )
        members = {"account": account_id, "label": body.label, "days": days}
        work.audit(replace(event, before={}, after=members))
        return {"id": token_id, "token": secret}

    return JSONResponse(await engine.work.change(ActorRef(account_id), engine.clock(), apply), 201)


@router.delete("/tokens/{token_id}")
async def revoke_token(token_id: RowId, request: Request, signed: SignedInDep) -> Response:
    """Revoke an own token, and the links issued with it."""
    engine, account_id = engine_of(request), signed.account.id

    def apply(work: Work) -> None:
        owner_id, _ = tokens.owner_of(work.connection, token_id)
        if owner_id != account_id:
            raise EngineError(ErrorCode.NOT_FOUND)
        changes = tokens.revocation(work.connection, token_id, work.now)
        tokens.revoke_token(work.connection, token_id, work.now)
        event = audit_event(
            request, "token-revoke", target=("token", str(token_id)), token=token_id
        )
        work.audit(replace(event, **changes))

    await engine.work.change(ActorRef(account_id), engine.clock(), apply)
    return Response(status_code=204)


page_router = APIRouter(prefix="/reporting", include_in_schema=False)
root = APIRouter(include_in_schema=False)


@root.api_route("/", methods=["GET", "HEAD"])
@page_router.get("")
@page_router.get("/")
async def home() -> Response:
    """Redirect to the worklist."""
    return RedirectResponse(password_sign_in.HOME, 303)


@page_router.get("/login")
async def login(request: Request) -> Response:
    """Show the sign-in page; redirect a user who is signed in."""
    engine = engine_of(request)
    if is_framed(request) or await signed_in_account(engine, request) is None:
        return password_sign_in.login_page(request)
    return RedirectResponse(
        password_sign_in.landing_page(request.query_params.get("next", "")), 303
    )


@page_router.get("/worklist")
@page_router.get("/settings")
@page_router.get("/administration")
async def show_app(request: Request) -> Response:
    """Return the page of the app; the app shows the view of the address."""
    engine = engine_of(request)
    signed = None if is_framed(request) else await signed_in_account(engine, request)
    if signed is None:
        return RedirectResponse(f"/reporting/login?next={request.url.path}", 303)
    return html_pages.app_page(await _boot(engine, signed))


@page_router.api_route("/report/{report_id}", methods=["GET", "HEAD"])
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
        return RedirectResponse(password_sign_in.HOME, 303)
    context = engine.link_context()
    account_id = signed.account.id

    def apply(work: Work) -> OpenedReport:
        opened = open_from_worklist(work, context, signed.browser_user, report_id)
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
    cookie = html_pages.session_cookie(engine.addresses, opened.secret, framed=False)
    page.headers.append("Set-Cookie", cookie)
    return page


async def _boot(engine: EngineState, signed: AccountSession) -> dict[str, Any]:
    own = await engine.work.read(lambda c: profile(c, signed.browser_user))
    language, theme = str(own["AppLanguage"]), own["theme"] or "dark"
    return {"mode": "worklist", "locale": first_language([language]), "theme": theme}
