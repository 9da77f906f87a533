"""
One-time codes of an authenticator app (RFC 6238: SHA-1, six digits, 30 seconds).

The secret is sealed with the key ring. A code is accepted once. Codes of earlier time steps are
then refused.
"""

import base64
import hmac
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from sqlalchemy import Connection, or_, select, update

from bridge.engine.links import Binding, KeyRing, LinkError, Purpose, RandomBytes, Sealed
from bridge.engine.service.accounts.users import ACCOUNTS

SECRET_BYTES: Final = 20
STEP_SECONDS: Final = 30
DIGITS: Final = 6
_DRIFT: Final = (0, -1, 1)  # time steps; the clock of a phone may differ by one
ISSUER: Final = "Report Bridge"


@dataclass(frozen=True, slots=True)
class SealedSecret:
    key_id: str
    data: bytes


def new_secret(random_bytes: RandomBytes) -> bytes:
    return random_bytes(SECRET_BYTES)


def seal(keys: KeyRing, account_id: int, secret: bytes) -> SealedSecret:
    sealed = keys.seal(secret, _binding(account_id))
    return SealedSecret(sealed.key_id, sealed.data)


def unseal(keys: KeyRing, account_id: int, sealed: SealedSecret) -> bytes | None:
    """Return a secret; None if its key was removed or it belongs to another account."""
    try:
        return keys.open(Sealed(sealed.key_id, sealed.data), _binding(account_id))
    except LinkError:
        return None


def base32(secret: bytes) -> str:
    """Return a secret in the form that authenticator apps accept."""
    return base64.b32encode(secret).decode("ascii")


def provisioning_uri(secret: bytes, email: str) -> str:
    """Return the URI that the QR code contains (Key URI Format)."""
    return _totp(secret).get_provisioning_uri(email, ISSUER)


def matching_step(secret: bytes, code: str, now: int) -> int | None:
    """Return the time step of a code, None for a wrong code; `now` in milliseconds."""
    digits = "".join(code.split())
    if len(digits) != DIGITS or not (digits.isascii() and digits.isdecimal()):
        return None
    present = now // 1000 // STEP_SECONDS
    totp = _totp(secret)
    for drift in _DRIFT:
        step = present + drift
        if step >= 0 and hmac.compare_digest(totp.generate(step * STEP_SECONDS), digits.encode()):
            return step
    return None


def accept(connection: Connection, keys: KeyRing, account_id: int, code: str, now: int) -> bool:
    """Accept the code of an account once, in a write transaction; False for any other code."""
    row = connection.execute(select(ACCOUNTS).where(ACCOUNTS.c.id == account_id)).first()
    if row is None or row.totp_sealed is None:
        return False
    secret = unseal(keys, account_id, SealedSecret(row.totp_key_id, row.totp_sealed))
    step = None if secret is None else matching_step(secret, code, now)
    if step is None:
        return False
    unused = or_(ACCOUNTS.c.totp_step.is_(None), ACCOUNTS.c.totp_step < step)
    done = connection.execute(
        update(ACCOUNTS).where(ACCOUNTS.c.id == account_id, unused).values(totp_step=step)
    )
    return done.rowcount == 1


def has(connection: Connection, account_id: int) -> bool:
    own = (ACCOUNTS.c.id == account_id) & ACCOUNTS.c.totp_sealed.is_not(None)
    return connection.execute(select(ACCOUNTS.c.id).where(own)).first() is not None


def store(
    connection: Connection, account_id: int, sealed: SealedSecret | None, step: int | None = None
) -> None:
    """Set or remove an account's authenticator; `step` is that of the code that verified it."""
    values = {
        "totp_key_id": sealed.key_id if sealed else None,
        "totp_sealed": sealed.data if sealed else None,
        "totp_step": step,
    }
    connection.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == account_id).values(**values))


def require(connection: Connection, account_id: int, *, required: bool) -> None:
    own = ACCOUNTS.c.id == account_id
    connection.execute(update(ACCOUNTS).where(own).values(second_factor_required=required))


def is_required(connection: Connection, account_id: int) -> bool:
    """True if the account must have a second factor: it has a role in the console."""
    own = (ACCOUNTS.c.id == account_id) & ACCOUNTS.c.second_factor_required
    return connection.execute(select(ACCOUNTS.c.id).where(own)).first() is not None


def reseal(connection: Connection, keys: KeyRing) -> tuple[int, int]:
    """Move secrets to the newest key; return the numbers of moved and unreadable ones."""
    moved = unreadable = 0
    old = ACCOUNTS.c.totp_sealed.is_not(None) & (ACCOUNTS.c.totp_key_id != keys.newest)
    for row in connection.execute(select(ACCOUNTS).where(old)).all():
        secret = unseal(keys, row.id, SealedSecret(row.totp_key_id, row.totp_sealed))
        if secret is None:
            unreadable += 1
            continue
        store(connection, row.id, seal(keys, row.id, secret), row.totp_step)
        moved += 1
    return moved, unreadable


def _binding(account_id: int) -> Binding:
    return Binding(f"account {account_id}", "", Purpose.TOTP)


def _totp(secret: bytes) -> TOTP:
    return TOTP(secret, DIGITS, SHA1(), STEP_SECONDS, enforce_key_length=False)  # noqa: S303  # RFC 6238
