"""
Sign-in by an OpenID Connect provider, in addition to passwords or instead of them.

The state of an attempt is sealed into a cookie, so that any node can finish it. The provider
authenticates the user. The account must exist: administrators decide who may sign in.
"""

import hmac
import json
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.requests.audit_events import record_refusal
from bridge.engine.http.requests.guard import is_framed
from bridge.engine.http.sign_in import password_sign_in
from bridge.engine.http.sign_in.account_session import signed_in_account
from bridge.engine.http.sign_in.oidc_provider import SignOnAttempt, SignOnFailed
from bridge.engine.http.sign_in.password_sign_in import take_attempt
from bridge.engine.links import Binding, Purpose
from bridge.engine.service.accounts.own_account import SignInProof
from bridge.engine.service.accounts.sessions import end_session
from bridge.engine.service.accounts.sign_in_limit import buckets_of_source
from bridge.engine.service.accounts.users import known_account
from bridge.engine.service.work import Work

PATH: Final = "/reporting/login/oidc"
router = APIRouter(include_in_schema=False)

_COOKIE: Final = "report_sign_on"
_LIFE: Final = 600  # seconds from the redirect to the callback
_BINDING: Final = Binding("", "", Purpose.SIGN_ON)


@router.get(PATH)
async def begin_single_sign_on(request: Request) -> Response:
    """Send the browser to the provider."""
    engine, provider = engine_of(request), engine_of(request).provider
    if provider is None or is_framed(request):
        return _failed(request, "not_offered")
    query = request.query_params
    confirms = bool(query.get("confirm"))
    try:
        redirect = f"{engine.base_url(request)}{PATH}/callback"
        address, attempt = await provider.begin(redirect, force_login=confirms)
    except SignOnFailed as failure:
        return _failed(request, failure.code)
    state = {
        **asdict(attempt),
        "at": engine.clock(),
        "next": password_sign_in.landing_page(query.get("next", "")),
        "handle": query.get("token", "")[:64],
        "confirms": confirms,
    }
    headers = {"Set-Cookie": _cookie(engine, state), "Cache-Control": "no-store"}
    return RedirectResponse(address, 303, headers)


@router.get(f"{PATH}/callback")
async def finish_single_sign_on(request: Request) -> Response:
    """Sign the user in when the provider redirects the browser back."""
    try:
        return await _finish(request)
    except SignOnFailed as failure:
        return _failed(request, failure.code)
    except EngineError as refusal:
        if refusal.code in (ErrorCode.WRONG_PASSWORD, ErrorCode.TOO_MANY_ATTEMPTS):
            return _failed(request, "too_many_attempts")
        if refusal.status == HTTPStatus.FORBIDDEN:
            return _failed(request, "no_site")
        raise


async def _finish(request: Request) -> Response:
    engine, provider = engine_of(request), engine_of(request).provider
    state, query = _unseal(engine, request.cookies.get(_COOKIE, "")), request.query_params
    if provider is None or state is None:
        raise SignOnFailed("attempt_unknown")
    if not hmac.compare_digest(query.get("state", "").encode(), state["state"].encode()):
        raise SignOnFailed("attempt_unknown")
    if "error" in query or not query.get("code"):
        raise SignOnFailed("provider_refuses")
    sign_on = SignOnAttempt(state["redirect"], state["state"], state["nonce"], state["verifier"])
    limit = engine.settings.rates.failed_authentications
    attempt = await take_attempt(engine, buckets_of_source(limit, "oidc", engine.client(request)))
    authenticated_since = state["at"] // 1000 if state["confirms"] else None
    email = await provider.email(sign_on, query["code"], authenticated_since=authenticated_since)
    account = await engine.work.read(lambda connection: known_account(connection, email))
    if account is None:
        raise SignOnFailed("no_account")
    before = await signed_in_account(engine, request) if state["confirms"] else None
    if state["confirms"] and (before is None or before.account.id != account.id):
        raise SignOnFailed("another_account")

    def prove(work: Work) -> SignInProof:
        engine.sign_in_limiter.give_back(work.connection, attempt)
        if before is not None:
            end_session(work.connection, before.session, work.now)
        return SignInProof(account, second_factor=True)

    response = await password_sign_in.begin_session(
        request, account, prove, state["handle"], state["next"]
    )
    response.headers.append("Set-Cookie", f"{_COOKIE}=; Max-Age=0{_attributes(engine)}")
    return response


def _failed(request: Request, code: str) -> Response:
    """Record the cause and show the sign-in page; the page names no internal cause."""
    record_refusal(request, "login", code=code)
    problem = code if code in {"no_account", "no_site", "too_many_attempts"} else "sso_failed"
    return password_sign_in.login_page(request, problem=problem, status=401)


def _cookie(engine: EngineState, state: dict[str, Any]) -> str:
    sealed = engine.keys.seal_text(json.dumps(state).encode(), _BINDING)
    return f"{_COOKIE}={sealed}; Max-Age={_LIFE}{_attributes(engine)}"


def _attributes(engine: EngineState) -> str:
    secure = "; Secure" if engine.addresses.secure else ""
    return f"; Path={PATH}; HttpOnly; SameSite=Lax{secure}"


def _unseal(engine: EngineState, cookie: str) -> dict[str, Any] | None:
    opened = engine.keys.open_text(cookie, _BINDING)
    if opened is None:
        return None
    state: dict[str, Any] = json.loads(opened)
    return state if engine.clock() - state["at"] <= _LIFE * 1000 else None
