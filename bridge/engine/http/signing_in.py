"""
Sign in and out: by a plain form, which works before and without any script.

Counts failures by address and by account. Never inside a frame, never for a page of
somebody else.
"""

import html
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from bridge.engine.errors import Forbidden
from bridge.engine.http import pages
from bridge.engine.http.accounts import account_cookie, cookie_name
from bridge.engine.http.addresses import is_loopback
from bridge.engine.http.auditing import deed_of, refused
from bridge.engine.http.notices import language_of
from bridge.engine.http.same_origin import foreign, in_frame
from bridge.engine.http.state import Engine, engine_of
from bridge.engine.service.accounts import sign_in as begin
from bridge.engine.service.accounts import signed_in
from bridge.engine.service.sessions import end_session
from bridge.engine.service.users import Account, canonical_email, check_password
from bridge.engine.service.work import Actor, Work

HOME = "/reporting/worklist"
PLACES = (HOME, "/reporting/settings", "/reporting/administration", "/console")
"""The pages that signing in may lead to."""


def login_page(
    request: Request, *, handle: str = "", problem: str = "", status: int = 200
) -> Response:
    """Return the page that asks who is there; `problem` is a key of the app's catalogue."""
    query, settings = request.query_params, engine_of(request).settings
    sso = settings.single_sign_on
    boot = {
        "mode": "login",
        "locale": language_of(request),
        "handle": handle or query.get("token", ""),
        "next": place(query.get("next", "")),
        "message": problem,
        "sso": "" if sso is None else sso.label,
        "passwords": settings.passwords,
    }
    return pages.app_page(boot, status=status, fallback=_form(boot))


async def sign_in(request: Request, form: dict[str, str]) -> Response:
    """Sign a user in and go on: to their link, or to the worklist."""
    engine = engine_of(request)
    handle = form.get("token", "")
    if in_frame(request) or foreign(engine, request):
        refused(request, "login", code="foreign_origin")
        return login_page(request, handle=handle, problem="not_in_frames", status=403)
    email = canonical_email(form.get("email", ""))
    if not engine.settings.passwords:
        refused(request, "login", code="no_passwords")
        return login_page(request, handle=handle, status=403)
    if not _may_try(engine, request, email):
        return login_page(request, handle=handle, problem="too_many_attempts", status=429)
    account = await engine.work.read(lambda c: check_password(c, email, form.get("password", "")))
    if account is None:
        _count(engine, request, email)
        refused(request, "login", code="wrong_password")
        return login_page(request, handle=handle, problem="wrong_password", status=401)
    try:
        return await enter(request, account, handle, form.get("next", ""))
    except Forbidden:
        refused(request, "login", code=Forbidden.code)
        return login_page(request, handle=handle, problem="no_site", status=403)


async def enter(request: Request, account: Account, handle: str, wanted: str) -> Response:
    """Begin a session for whoever was recognized and go on; raise `Forbidden` without a site."""
    engine = engine_of(request)
    secret = await _begin(engine, request, account)
    link = f"/reporting/launch-report/clinical?{urlencode({'token': handle})}"
    headers = {"Set-Cookie": account_cookie(engine, secret), "Cache-Control": "no-store"}
    return RedirectResponse(link if handle else place(wanted), 303, headers)


async def _begin(engine: Engine, request: Request, account: Account) -> str:
    life, random = engine.settings.lifetimes, engine.random

    def deed(work: Work) -> str:
        secret = begin(work.connection, account, random, work.now, life)
        work.note(deed_of(request, "login", account_id=account.id))
        return secret

    return await engine.work.change(Actor(account.id), engine.clock(), deed)


async def sign_out(request: Request) -> Response:
    """End the session of the account's cookie."""
    engine = engine_of(request)
    secret, life = request.cookies.get(cookie_name(engine), ""), engine.settings.lifetimes

    def deed(work: Work) -> None:
        found = signed_in(work.connection, secret, work.now, life)
        if found is not None:
            end_session(work.connection, found.session, work.now)
            work.note(deed_of(request, "logout", account_id=found.account.id))

    await engine.work.change(Actor(), engine.clock(), deed)
    return Response(status_code=204, headers={"Set-Cookie": account_cookie(engine, "")})


def _may_try(engine: Engine, request: Request, email: str) -> bool:
    quota = engine.settings.rates.failed_authentications
    tried = (engine.quotas.peek(*key, quota) for key in _keys(engine, request, email))
    return all(allowance is None or allowance.granted for allowance in tried)


def _count(engine: Engine, request: Request, email: str) -> None:
    for key in _keys(engine, request, email):
        engine.quotas.take(*key, engine.settings.rates.failed_authentications)


def _keys(engine: Engine, request: Request, email: str) -> tuple[tuple[str, str], ...]:
    """By account, and by address; this machine's own may be a proxy that nobody told us of."""
    client = engine.client(request)
    account = (("account", email),)
    return account if is_loopback(client) else (("authentication", client), *account)


def place(wanted: str) -> str:
    """Return a page that signing in may lead to: the wanted one, if it is one of them."""
    return wanted if wanted in PLACES else HOME


def _form(boot: dict[str, Any]) -> str:
    """Return the form as it stands until the app takes its place, or where no script runs."""
    asked = urlencode({"next": boot["next"], "token": boot["handle"]})
    label = html.escape(boot["sso"])
    link = f'<a href="/reporting/login/oidc?{html.escape(asked)}">{label}</a>' if label else ""
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
        f'<button type="submit">Sign in</button></form>{link}'
    )
