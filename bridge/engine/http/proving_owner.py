"""
Prove to be the owner of an account by its password, within the limit of attempts.

The one place where a password is compared: the form, confirmations and changes of passwords.
"""

from collections.abc import Sequence

from fastapi import Request

from bridge.engine.http.auditing import refused
from bridge.engine.http.problems import Problem, Refused
from bridge.engine.http.state import Engine, engine_of
from bridge.engine.service import second_factor
from bridge.engine.service.accounts import Proof, SignedIn, WrongPassword
from bridge.engine.service.passwords import Credentials, credentials_of
from bridge.engine.service.throttle import Attempt, Bucket, attempt_of_owner
from bridge.engine.service.users import Account
from bridge.engine.service.work import Work


class TooManyAttempts(Refused):
    """Attempts to sign in are used up for a while."""

    def __init__(self, seconds: int) -> None:
        detail = "too many attempts to sign in; wait some minutes"
        headers = {"Retry-After": str(seconds)}
        super().__init__(Problem(429, "too_many_attempts", detail, headers=headers, retryable=True))


async def counted(engine: Engine, buckets: Sequence[Bucket]) -> Attempt:
    """Count an attempt before anything is computed for it; raise `TooManyAttempts`."""
    attempt = await engine.work.run(lambda: engine.throttle.take(buckets))
    if attempt is None:
        limit = engine.settings.rates.failed_authentications
        raise TooManyAttempts(limit.seconds // max(1, limit.count))
    return attempt


async def compared(engine: Engine, email: str, password: str, *, known: bool) -> Credentials | None:
    """
    Return the credentials of an address if the password is theirs; raise `TooBusy`.

    `known`: the request comes with a session or from a remembered device.
    """
    found = await engine.work.read(lambda c: credentials_of(c, email))
    right = await engine.hashing.run(lambda: found.verify(password), known=known)
    return found if right else None


async def verify(
    request: Request, signed: SignedIn, password: str, *, pointer: str = "/password"
) -> tuple[str, Attempt]:
    """Return the hash that a signed-in owner's password matches; raise `WrongPassword`."""
    engine = engine_of(request)
    limit = engine.settings.rates.failed_authentications
    attempt = await counted(engine, attempt_of_owner(limit, f"session {signed.account.id}"))
    found = await compared(engine, signed.account.email, password, known=True)
    if found is None:
        refused(request, "confirm", code=WrongPassword.code)
        raise WrongPassword(pointer=pointer)
    return found.password_hash, attempt


def proof(engine: Engine, work: Work, account: Account, password_hash: str, code: str) -> Proof:
    """Return what a right password and a code prove; raise `WrongPassword` for a wrong code."""
    if not second_factor.has(work.connection, account.id):
        return Proof(account, password_hash)
    if not second_factor.accept(work.connection, engine.keys, account.id, code, work.now):
        raise WrongPassword(pointer="/code")
    return Proof(account, password_hash, second_factor=True)
