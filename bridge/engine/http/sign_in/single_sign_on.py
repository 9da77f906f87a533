"""Sign in by an OpenID Connect provider, beside or in the place of passwords.

What an attempt must bring back is sealed into a cookie, so that any node may finish it. An account
must exist: the provider says who somebody is, administrators say who may come in.
"""

import base64
import hmac
import json
from dataclasses import asdict
from typing import Any, Final

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from bridge.engine.errors import Forbidden
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.requests.audit_events import record_refusal
from bridge.engine.http.requests.same_origin import is_framed
from bridge.engine.http.sign_in import password_form
from bridge.engine.http.sign_in.account_session import signed_in_account
from bridge.engine.http.sign_in.oidc_provider import SignOnAttempt, SignOnFailed
from bridge.engine.http.sign_in.password_check import TooManyAttempts, take_attempt
from bridge.engine.links import Binding, Purpose, SealBroken, Sealed, UnknownSealKey
from bridge.engine.service.accounts.own_account import SignInProof, WrongPassword
from bridge.engine.service.accounts.sessions import end_session
from bridge.engine.service.accounts.sign_in_limit import attempt_of_source
from bridge.engine.service.accounts.users import known_account
from bridge.engine.service.work import Work

PATH: Final = "/reporting/login/oidc"
_COOKIE: Final = "report_sign_on"
_LIFE: Final = 600  # seconds between the button and the way back
_BINDING: Final = Binding("", "", Purpose.SIGN_ON)


async def begin(request: Request) -> Response:
    """Send the browser to the provider."""
    engine, provider = engine_of(request), engine_of(request).provider
    if provider is None or is_framed(request):
        return _failed(request, "not_offered")
    query = request.query_params
    confirms = bool(query.get("confirm"))
    try:
        redirect = f"{engine.base_url(request)}{PATH}/callback"
        address, begun = await provider.begin(redirect, again=confirms)
    except SignOnFailed as failure:
        return _failed(request, failure.code)
    kept = {
        **asdict(begun),
        "at": engine.clock(),
        "next": password_form.landing_page(query.get("next", "")),
        "handle": query.get("token", "")[:64],
        "confirms": confirms,
    }
    headers = {"Set-Cookie": _cookie(engine, kept), "Cache-Control": "no-store"}
    return RedirectResponse(address, 303, headers)


async def finish(request: Request) -> Response:
    """Take the browser that comes back from the provider, and sign its person in."""
    try:
        return await _finished(request)
    except SignOnFailed as failure:
        return _failed(request, failure.code)
    except (TooManyAttempts, WrongPassword):
        return _failed(request, "too_many_attempts")
    except Forbidden:
        return _failed(request, "no_site")


async def _finished(request: Request) -> Response:
    engine, provider = engine_of(request), engine_of(request).provider
    kept, given = _opened(engine, request.cookies.get(_COOKIE, "")), request.query_params
    if provider is None or kept is None:
        raise SignOnFailed("attempt_unknown")
    if not hmac.compare_digest(given.get("state", "").encode(), kept["state"].encode()):
        raise SignOnFailed("attempt_unknown")
    if "error" in given or not given.get("code"):
        raise SignOnFailed("provider_refuses")
    begun = SignOnAttempt(kept["redirect"], kept["state"], kept["nonce"], kept["verifier"])
    limit = engine.settings.rates.failed_authentications
    attempt = await take_attempt(engine, attempt_of_source(limit, "oidc", engine.client(request)))
    again_since = kept["at"] // 1000 if kept["confirms"] else None
    email = await provider.email(begun, given["code"], again_since=again_since)
    account = await engine.work.read(lambda connection: known_account(connection, email))
    if account is None:
        raise SignOnFailed("no_account")
    before = await signed_in_account(engine, request) if kept["confirms"] else None
    if kept["confirms"] and (before is None or before.account.id != account.id):
        raise SignOnFailed("another_account")

    def proving(work: Work) -> SignInProof:
        engine.throttle.give_back(work.connection, attempt)
        if before is not None:
            end_session(work.connection, before.session, work.now)
        return SignInProof(account, second_factor=True)

    answer = await password_form.begin_session(
        request, account, proving, kept["handle"], kept["next"]
    )
    answer.headers.append("Set-Cookie", _gone(engine))
    return answer


def _failed(request: Request, code: str) -> Response:
    """Show the login again, and record why; the page says no more than that it did not work."""
    record_refusal(request, "login", code=code)
    told = code if code in {"no_account", "no_site", "too_many_attempts"} else "sso_failed"
    return password_form.login_page(request, problem=told, status=401)


def _cookie(engine: EngineState, kept: dict[str, Any]) -> str:
    sealed = engine.keys.seal(json.dumps(kept).encode(), _BINDING)
    data = base64.urlsafe_b64encode(sealed.data).decode("ascii")
    return f"{_COOKIE}={sealed.key_id}.{data}; Max-Age={_LIFE}{_attributes(engine)}"


def _gone(engine: EngineState) -> str:
    return f"{_COOKIE}=; Max-Age=0{_attributes(engine)}"


def _attributes(engine: EngineState) -> str:
    secure = "; Secure" if engine.addresses.secure else ""
    return f"; Path={PATH}; HttpOnly; SameSite=Lax{secure}"


def _opened(engine: EngineState, cookie: str) -> dict[str, Any] | None:
    key_id, _, data = cookie.partition(".")
    try:
        sealed = Sealed(key_id, base64.urlsafe_b64decode(data))
        kept: dict[str, Any] = json.loads(engine.keys.open(sealed, _BINDING))
    except (SealBroken, UnknownSealKey, ValueError):
        return None
    return kept if engine.clock() - kept["at"] <= _LIFE * 1000 else None
