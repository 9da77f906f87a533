"""
Sign-in and sign-out with a plain HTML form, which works without scripts.

An attempt is counted before the password is checked (`service.accounts.sign_in_limit`). The form is
refused in frames and from pages of other sites.
"""

import html
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from bridge.engine.errors import Forbidden
from bridge.engine.http.engine_state import EngineState, engine_of, peer_of
from bridge.engine.http.pages import html_pages
from bridge.engine.http.pages.html_pages import language_of
from bridge.engine.http.requests.audit_events import audit_event, record_refusal
from bridge.engine.http.requests.same_origin import is_cross_site, is_framed
from bridge.engine.http.sign_in.account_session import account_cookie, cookie_name
from bridge.engine.http.sign_in.password_check import (
    TooManyAttempts,
    check_password,
    device_cookie,
    known_device,
    prove_owner,
    take_attempt,
)
from bridge.engine.live.credential_checks import TooBusy
from bridge.engine.service.accounts.own_account import SignInProof, WrongPassword, signed_in
from bridge.engine.service.accounts.own_account import sign_in as begin
from bridge.engine.service.accounts.sessions import end_session
from bridge.engine.service.accounts.sign_in_limit import Bucket, attempt_of, attempt_of_owner
from bridge.engine.service.accounts.users import AccountRef, canonical_email
from bridge.engine.service.work import ActorRef, Work

HOME = "/reporting/worklist"
LANDING_PAGES = (HOME, "/reporting/settings", "/reporting/administration", "/console")
"""The pages that a sign-in may redirect to."""


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


async def sign_in(request: Request, form: dict[str, str]) -> Response:
    """Sign a user in and redirect to their link or to a landing page."""
    engine = engine_of(request)
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
    except TooManyAttempts:
        code, status = "too_many_attempts", 429
    except TooBusy:
        code, status = "too_many_attempts", TooBusy.status
    except Forbidden:
        code, status = "no_site", 403
    except WrongPassword:
        pass
    record_refusal(request, "login", code=code)
    page = login_page(request, handle=handle, problem=code, status=status)
    if code == "too_many_attempts":
        page.headers["Retry-After"] = "60"
    return page


async def _sign_in_by_password(request: Request, form: dict[str, str], handle: str) -> Response:
    engine = engine_of(request)
    email = canonical_email(form.get("email", ""))
    peer = peer_of(request)
    if engine.proxies.hide(request.headers, peer) and engine.throttle.is_new_proxy(peer):
        await engine.work.run(lambda: engine.throttle.note_undeclared_proxy(peer))
    device = known_device(engine, request, email)
    attempt = await take_attempt(engine, _buckets(engine, request, email, device))
    found = await check_password(engine, email, form.get("password", ""), known=bool(device))
    if found is None or found.account is None:
        raise WrongPassword
    account, password_hash, code = found.account, found.password_hash, form.get("code", "")

    def prove(work: Work) -> SignInProof:
        own = prove_owner(engine, work, account, password_hash, code)
        engine.throttle.give_back(work.connection, attempt)
        return own

    return await begin_session(request, account, prove, handle, form.get("next", ""))


def _buckets(engine: EngineState, request: Request, email: str, device: str) -> tuple[Bucket, ...]:
    limit = engine.settings.rates.failed_authentications
    if device:
        return attempt_of_owner(limit, f"device {device}")
    return attempt_of(limit, email, engine.client(request))


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
        secret = begin(work.connection, prove(work), random, work.now, life)
        work.audit(audit_event(request, "login", account_id=account.id))
        return secret

    secret = await engine.work.change(ActorRef(account.id), engine.clock(), apply)
    link = f"/reporting/launch-report/clinical?{urlencode({'token': handle})}"
    answer = RedirectResponse(link if handle else landing_page(next_page), 303)
    answer.headers["Cache-Control"] = "no-store"
    answer.headers.append("Set-Cookie", account_cookie(engine, secret))
    answer.headers.append("Set-Cookie", device_cookie(engine, request, account.email))
    return answer


async def sign_out(request: Request) -> Response:
    """End the session of the account's cookie."""
    engine = engine_of(request)
    secret, life = request.cookies.get(cookie_name(engine), ""), engine.settings.lifetimes

    def apply(work: Work) -> None:
        found = signed_in(work.connection, secret, work.now, life)
        if found is not None:
            end_session(work.connection, found.session, work.now)
            work.audit(audit_event(request, "logout", account_id=found.account.id))

    await engine.work.change(ActorRef(), engine.clock(), apply)
    return Response(status_code=204, headers={"Set-Cookie": account_cookie(engine, "")})


def landing_page(requested: str) -> str:
    """Return the requested landing page if it is permitted, else the worklist."""
    return requested if requested in LANDING_PAGES else HOME


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
