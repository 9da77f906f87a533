"""
Sign-in with a password: the check within the limit of attempts, and a plain HTML form.

Every password check is here: sign-in, confirmation, password change. An attempt is counted before
the password is checked (`service.accounts.sign_in_limit`). The form works without scripts, and is
refused in frames and from pages of other sites.

A sealed device cookie names an account and a browser. It does not authenticate the user. It gives
the browser a separate limit of attempts, so that attackers cannot exhaust the owner's attempts.
"""

import html
import json
import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from bridge.contract.errors import ErrorCode
from bridge.email import canonical_email
from bridge.engine.errors import EngineError
from bridge.engine.http import html_pages
from bridge.engine.http.engine_state import EngineState, engine_of, peer_of
from bridge.engine.http.html_pages import language_of
from bridge.engine.http.requests.audit_events import audit_event, record_refusal
from bridge.engine.http.requests.guard import is_cross_site, is_framed, read_form
from bridge.engine.http.sign_in.account_session import COOKIE, account_cookie
from bridge.engine.links import Binding, Purpose, link_address
from bridge.engine.service.accounts import second_factor
from bridge.engine.service.accounts.own_account import AccountSession, SignInProof, signed_in
from bridge.engine.service.accounts.own_account import sign_in as create_session
from bridge.engine.service.accounts.passwords import Credentials, credentials_of
from bridge.engine.service.accounts.sessions import end_session
from bridge.engine.service.accounts.sign_in_limit import (
    Bucket,
    SignInAttempt,
    buckets_of_account,
    buckets_of_owner,
)
from bridge.engine.service.accounts.users import AccountRef
from bridge.engine.service.work import ActorRef, Work

router = APIRouter(include_in_schema=False)


async def take_attempt(engine: EngineState, buckets: Sequence[Bucket]) -> SignInAttempt:
    """Count an attempt before its password is hashed; raise `too_many_attempts`."""
    attempt = await engine.work.run(lambda: engine.sign_in_limiter.take(buckets))
    if attempt is None:
        limit = engine.settings.rates.failed_authentications
        detail = "too many attempts to sign in; wait some minutes"
        headers = {"Retry-After": str(limit.seconds // max(1, limit.count))}
        raise EngineError(ErrorCode.TOO_MANY_ATTEMPTS, detail, headers=headers)
    return attempt


async def check_password(
    engine: EngineState, email: str, password: str, *, known: bool
) -> Credentials | None:
    """
    Return the credentials of an e-mail address if the password is right; raise `sign_in_busy`.

    `known`: the request has a session or comes from a remembered device.
    """
    found = await engine.work.read(lambda c: credentials_of(c, email))
    right = await engine.hashing.run(lambda: found.verify(password), known=known)
    return found if right else None


async def verify_owner(
    request: Request, signed: AccountSession, password: str, *, pointer: str = "/password"
) -> tuple[str, SignInAttempt]:
    """Check a signed-in user's password; return its hash and the attempt; raise EngineError."""
    engine = engine_of(request)
    limit = engine.settings.rates.failed_authentications
    attempt = await take_attempt(engine, buckets_of_owner(limit, f"session {signed.account.id}"))
    found = await check_password(engine, signed.account.email, password, known=True)
    if found is None:
        record_refusal(request, "confirm", code=ErrorCode.WRONG_PASSWORD)
        raise EngineError(ErrorCode.WRONG_PASSWORD, pointer=pointer)
    return found.password_hash, attempt


def prove_owner(
    engine: EngineState, work: Work, account: AccountRef, password_hash: str, code: str
) -> SignInProof:
    """Check the one-time code after a right password; raise `wrong_password` for a wrong code."""
    if not second_factor.has(work.connection, account.id):
        return SignInProof(account, password_hash)
    if not second_factor.accept(work.connection, engine.keys, account.id, code, work.now):
        raise EngineError(ErrorCode.WRONG_PASSWORD, pointer="/code")
    return SignInProof(account, password_hash, second_factor=True)


_COOKIE: Final = "report_device"
_LIFE: Final = 180 * 24 * 3600  # seconds
_BINDING: Final = Binding("", "", Purpose.DEVICE)
_MAX_COOKIE: Final = 1024  # characters


def device_cookie(engine: EngineState, request: Request, email: str) -> str:
    """Return the Set-Cookie header of the device cookie of an account."""
    device = known_device(engine, request, email) or engine.random(16).hex()
    payload = json.dumps({"email": email, "device": device}).encode()
    sealed = engine.keys.seal_text(payload, _BINDING)
    cookie = f"{engine.addresses.cookie(_COOKIE)}={sealed}; Path=/; HttpOnly; SameSite=Lax"
    secure = "; Secure" if engine.addresses.secure else ""
    return f"{cookie}; Max-Age={_LIFE}{secure}"


def known_device(engine: EngineState, request: Request, email: str) -> str:
    """Return the device id of a browser that has signed in to the account before, else ''."""
    cookie = request.cookies.get(engine.addresses.cookie(_COOKIE), "")
    opened = engine.keys.open_text(cookie, _BINDING) if len(cookie) <= _MAX_COOKIE else None
    payload = json.loads(opened or b"{}")
    return str(payload["device"]) if payload.get("email") == email else ""


HOME = "/reporting/worklist"
ENTRANCE: Final = "/"
"""The address of the installation, which leads each account to its place."""

LANDING_PAGES = (HOME, "/reporting/settings", "/reporting/administration", ENTRANCE)
"""The pages that a sign-in may redirect to, beside those of the console."""

_CONSOLE_PAGE: Final = re.compile(
    r"/console(?:/[A-Za-z0-9._~%-]+)*/?(?:\?[A-Za-z0-9._~%!$&'()*+,;=:@/?-]*)?", re.ASCII
)
_MAX_LANDING_PAGE: Final = 2048  # characters


def login_page(
    request: Request, *, handle: str = "", problem: str = "", status: int = 200
) -> Response:
    """Return the sign-in page; `problem` is a key of the app's message catalogue."""
    query, settings = request.query_params, engine_of(request).settings
    sso = settings.single_sign_on
    boot = {
        "mode": "login",
        "locale": language_of(request),
        "handle": handle or query.get("token", ""),
        "next": landing_page(query.get("next", "")),
        "message": problem,
        "sso": "" if sso is None else sso.label,
        "passwords": settings.passwords,
    }
    return html_pages.app_page(boot, status=status, fallback=_form(boot))


@router.post("/reporting/login")
async def login(request: Request) -> Response:
    """Sign in with a form; then open a link or a landing page."""
    engine, form = engine_of(request), await read_form(request)
    handle = form.get("token", "")
    if is_framed(request) or is_cross_site(engine, request):
        record_refusal(request, "login", code="foreign_origin")
        return login_page(request, handle=handle, problem="not_in_frames", status=403)
    if not engine.settings.passwords:
        record_refusal(request, "login", code="no_passwords")
        return login_page(request, handle=handle, status=403)
    code, status = "wrong_password", 401
    try:
        return await _sign_in_by_password(request, form, handle)
    except EngineError as refusal:
        if refusal.code in (ErrorCode.SIGN_IN_BUSY, ErrorCode.TOO_MANY_ATTEMPTS):
            code, status = "too_many_attempts", refusal.status
        elif refusal.status == HTTPStatus.FORBIDDEN:
            code, status = "no_site", 403
        elif refusal.code is not ErrorCode.WRONG_PASSWORD:
            raise
    record_refusal(request, "login", code=code)
    page = login_page(request, handle=handle, problem=code, status=status)
    if code == "too_many_attempts":
        page.headers["Retry-After"] = "60"
    return page


async def _sign_in_by_password(request: Request, form: dict[str, str], handle: str) -> Response:
    engine = engine_of(request)
    email = canonical_email(form.get("email", ""))
    peer, limiter = peer_of(request), engine.sign_in_limiter
    if engine.proxies.is_undeclared(request.headers, peer) and limiter.is_new_proxy(peer):
        await engine.work.run(lambda: limiter.record_undeclared_proxy(peer))
    device = known_device(engine, request, email)
    attempt = await take_attempt(engine, _buckets(engine, request, email, device))
    found = await check_password(engine, email, form.get("password", ""), known=bool(device))
    if found is None or found.account is None:
        raise EngineError(ErrorCode.WRONG_PASSWORD)
    account, password_hash, code = found.account, found.password_hash, form.get("code", "")

    def prove(work: Work) -> SignInProof:
        own = prove_owner(engine, work, account, password_hash, code)
        engine.sign_in_limiter.give_back(work.connection, attempt)
        return own

    return await begin_session(request, account, prove, handle, form.get("next", ""))


def _buckets(engine: EngineState, request: Request, email: str, device: str) -> tuple[Bucket, ...]:
    limit = engine.settings.rates.failed_authentications
    if device:
        return buckets_of_owner(limit, f"device {device}")
    return buckets_of_account(limit, email, engine.client(request))


ProveOwner = Callable[[Work], SignInProof]
"""Returns the proof of the account's owner, in the transaction that creates the session."""


async def begin_session(
    request: Request, account: AccountRef, prove: ProveOwner, handle: str, next_page: str
) -> Response:
    """
    Create a session for an account and redirect.

    Raise `Forbidden` for an account without a site, and the exceptions of `prove`.
    """
    engine = engine_of(request)
    life, random = engine.settings.lifetimes, engine.random

    def apply(work: Work) -> str:
        secret = create_session(work.connection, prove(work), random, work.now, life)
        work.audit(audit_event(request, "login", account_id=account.id))
        return secret

    secret = await engine.work.change(ActorRef(account.id), engine.clock(), apply)
    link = link_address("", Purpose.LAUNCH, quote_plus(handle))
    response = RedirectResponse(link if handle else landing_page(next_page), 303)
    response.headers["Cache-Control"] = "no-store"
    response.headers.append("Set-Cookie", account_cookie(engine, secret))
    response.headers.append("Set-Cookie", device_cookie(engine, request, account.email))
    return response


async def sign_out(request: Request) -> Response:
    """End the session of the account's cookie."""
    engine = engine_of(request)
    secret = request.cookies.get(engine.addresses.cookie(COOKIE), "")
    life = engine.settings.lifetimes

    def apply(work: Work) -> None:
        found = signed_in(work.connection, secret, work.now, life)
        if found is not None:
            end_session(work.connection, found.session, work.now)
            work.audit(audit_event(request, "logout", account_id=found.account.id))

    await engine.work.change(ActorRef(), engine.clock(), apply)
    return Response(status_code=204, headers={"Set-Cookie": account_cookie(engine, "")})


def landing_page(requested: str) -> str:
    """Return the requested landing page if it is permitted, else the worklist."""
    is_console = len(requested) <= _MAX_LANDING_PAGE and _CONSOLE_PAGE.fullmatch(requested)
    return requested if is_console or requested in LANDING_PAGES else HOME


def _form(boot: dict[str, Any]) -> str:
    """Return the form that the browser shows until the app has started, or without scripts."""
    query = urlencode({"next": boot["next"], "token": boot["handle"]})
    label = html.escape(boot["sso"])
    link = f'<a href="/reporting/login/oidc?{html.escape(query)}">{label}</a>' if label else ""
    if not boot["passwords"]:
        return link
    hidden = "".join(
        f'<input type="hidden" name="{name}" value="{html.escape(boot[key], quote=True)}">'
        for name, key in (("token", "handle"), ("next", "next"))
    )
    return (
        f'<form method="post" action="/reporting/login">{hidden}'
        '<label>E-mail <input name="email" type="email" autocomplete="username" required></label>'
        '<label>Password <input name="password" type="password" '
        'autocomplete="current-password" required></label>'
        '<label>One-time code (if you have an authenticator app) <input name="code" '
        'inputmode="numeric" autocomplete="one-time-code" maxlength="20"></label>'
        f'<button type="submit">Sign in</button></form>{link}'
    )
