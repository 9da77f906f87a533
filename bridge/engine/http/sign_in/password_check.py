"""
Password checks within the limit of attempts, and remembered devices.

Every password check is here: sign-in, confirmation, password change.

A sealed device cookie names an account and a browser. It does not authenticate the user. It gives
the browser a separate limit of attempts, so that attackers cannot exhaust the owner's attempts.
"""

import base64
import json
from collections.abc import Sequence
from typing import Final

from fastapi import Request

from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.requests.audit_events import record_refusal
from bridge.engine.http.requests.problems import HttpProblem, Problem
from bridge.engine.links import Binding, Purpose, SealBroken, Sealed, UnknownSealKey
from bridge.engine.service.accounts import second_factor
from bridge.engine.service.accounts.own_account import AccountSession, SignInProof, WrongPassword
from bridge.engine.service.accounts.passwords import Credentials, credentials_of
from bridge.engine.service.accounts.sign_in_limit import Bucket, SignInAttempt, attempt_of_owner
from bridge.engine.service.accounts.users import AccountRef
from bridge.engine.service.work import Work


class TooManyAttempts(HttpProblem):
    """Too many attempts to sign in; further ones are refused for some time."""

    def __init__(self, seconds: int) -> None:
        detail = "too many attempts to sign in; wait some minutes"
        headers = {"Retry-After": str(seconds)}
        super().__init__(Problem(429, "too_many_attempts", detail, headers=headers, retryable=True))


async def take_attempt(engine: EngineState, buckets: Sequence[Bucket]) -> SignInAttempt:
    """Count an attempt before its password is hashed; raise `TooManyAttempts`."""
    attempt = await engine.work.run(lambda: engine.throttle.take(buckets))
    if attempt is None:
        limit = engine.settings.rates.failed_authentications
        raise TooManyAttempts(limit.seconds // max(1, limit.count))
    return attempt


async def check_password(
    engine: EngineState, email: str, password: str, *, known: bool
) -> Credentials | None:
    """
    Return the credentials of an e-mail address if the password is right; raise `TooBusy`.

    `known`: the request has a session or comes from a remembered device.
    """
    found = await engine.work.read(lambda c: credentials_of(c, email))
    right = await engine.hashing.run(lambda: found.verify(password), known=known)
    return found if right else None


async def verify_owner(
    request: Request, signed: AccountSession, password: str, *, pointer: str = "/password"
) -> tuple[str, SignInAttempt]:
    """Check the password of a signed-in user; return its hash, or raise `WrongPassword`."""
    engine = engine_of(request)
    limit = engine.settings.rates.failed_authentications
    attempt = await take_attempt(engine, attempt_of_owner(limit, f"session {signed.account.id}"))
    found = await check_password(engine, signed.account.email, password, known=True)
    if found is None:
        record_refusal(request, "confirm", code=WrongPassword.code)
        raise WrongPassword(pointer=pointer)
    return found.password_hash, attempt


def prove_owner(
    engine: EngineState, work: Work, account: AccountRef, password_hash: str, code: str
) -> SignInProof:
    """Check the one-time code after a right password; raise `WrongPassword` for a wrong code."""
    if not second_factor.has(work.connection, account.id):
        return SignInProof(account, password_hash)
    if not second_factor.accept(work.connection, engine.keys, account.id, code, work.now):
        raise WrongPassword(pointer="/code")
    return SignInProof(account, password_hash, second_factor=True)


_COOKIE: Final = "report_device"
_SECURE_COOKIE: Final = "__Host-report_device"
_LIFE: Final = 180 * 24 * 3600  # seconds
_BINDING: Final = Binding("", "", Purpose.DEVICE)
_MAX_COOKIE: Final = 1024  # characters


def device_cookie(engine: EngineState, request: Request, email: str) -> str:
    """Return the Set-Cookie header of the device cookie of an account."""
    device = known_device(engine, request, email) or engine.random(16).hex()
    payload = json.dumps({"email": email, "device": device}).encode()
    sealed = engine.keys.seal(payload, _BINDING)
    data = base64.urlsafe_b64encode(sealed.data).decode("ascii")
    cookie = f"{_cookie_name(engine)}={sealed.key_id}.{data}; Path=/; HttpOnly; SameSite=Lax"
    secure = "; Secure" if engine.addresses.secure else ""
    return f"{cookie}; Max-Age={_LIFE}{secure}"


def known_device(engine: EngineState, request: Request, email: str) -> str:
    """Return the device id of a browser that has signed in to the account before, else ''."""
    cookie = request.cookies.get(_cookie_name(engine), "")
    key_id, _, data = cookie.partition(".")
    if not data or len(cookie) > _MAX_COOKIE:
        return ""
    try:
        sealed = Sealed(key_id, base64.urlsafe_b64decode(data))
        payload = json.loads(engine.keys.open(sealed, _BINDING))
    except (SealBroken, UnknownSealKey, ValueError):
        return ""
    return str(payload["device"]) if payload["email"] == email else ""


def _cookie_name(engine: EngineState) -> str:
    return _SECURE_COOKIE if engine.addresses.secure else _COOKIE
