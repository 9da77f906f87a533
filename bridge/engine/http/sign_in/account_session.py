"""
The session of a signed-in account: its cookie, and the routes that require it.

Browsers send the cookie with every request, also from pages of other sites. Therefore a request
that changes something must also come from a page of this service.
"""

from typing import Annotated

from fastapi import Depends, Request
from typing_extensions import override

from bridge.authority import is_fresh
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.requests.audit_events import record_refusal
from bridge.engine.http.requests.guard import EngineRoute, require_same_origin
from bridge.engine.service.accounts.own_account import AccountSession, signed_in
from bridge.engine.service.accounts.sessions import SEEN_EVERY_MS, BrowserSession, keep_alive
from bridge.engine.service.caller import Caller
from bridge.web.bodies import SAFE_METHODS

COOKIE = "report_account"
NO_TOKEN = 0
"""The token id of a caller who has signed in without a token."""


def account_cookie(engine: EngineState, secret: str) -> str:
    """Return the Set-Cookie header of an account session; an empty secret deletes the cookie."""
    cookie = f"{engine.addresses.cookie(COOKIE)}={secret}; Path=/; HttpOnly; SameSite=Lax"
    cookie += "; Secure" if engine.addresses.secure else ""
    return cookie if secret else f"{cookie}; Max-Age=0"


async def signed_in_account(engine: EngineState, request: Request) -> AccountSession | None:
    """Return the session of the account cookie, if there is one, and keep it alive."""
    secret = request.cookies.get(engine.addresses.cookie(COOKIE), "")
    if not secret:
        return None
    now, life = engine.clock(), engine.settings.lifetimes
    found = await engine.work.read(lambda c: signed_in(c, secret, now, life))
    # Background polls, which name themselves, do not keep a session alive.
    attended = request.headers.get("x-unattended") is None
    if found is not None and attended and now - found.session.last_seen_at > SEEN_EVERY_MS:
        session = found.session
        await engine.work.run(lambda: _keep_alive(engine, session, now))
    return found


def _keep_alive(engine: EngineState, session: BrowserSession, now: int) -> None:
    # Written without a change notification: no report has changed.
    with engine.work.database.write() as connection:
        keep_alive(connection, session, now)


class AccountRoute(EngineRoute):
    """A route for signed-in users; it sets `request.state.signed` and `request.state.caller`."""

    @override
    async def admit(self, request: Request) -> None:
        engine = engine_of(request)
        signed = await signed_in_account(engine, request)
        if signed is None:
            record_refusal(request, "account", code="signed_out")
            raise EngineError(ErrorCode.SIGNED_OUT)
        request.state.signed = signed
        account = signed.account
        request.state.caller = Caller(NO_TOKEN, account.id, account.email)
        if request.method not in SAFE_METHODS:
            require_same_origin(engine, request)


def require_recent_proof(request: Request) -> None:
    """Raise 403 if a session makes the request whose owner has not authenticated recently."""
    signed: AccountSession | None = getattr(request.state, "signed", None)
    if signed is not None and not is_fresh(signed.authenticated_at, engine_of(request).clock()):
        detail = "confirm your password to do this, and try again"
        raise EngineError(ErrorCode.REAUTHENTICATION_REQUIRED, detail)


async def _signed(request: Request) -> AccountSession:
    signed: AccountSession = request.state.signed
    return signed


SignedInDep = Annotated[AccountSession, Depends(_signed)]
