"""
Passwords of accounts: stored as Argon2 hashes, verified outside of any transaction.

Hashing is slow on purpose: the event loop uses `bridge.engine.live.credential_checks`.
"""

from dataclasses import dataclass, field
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import Connection, select, update

from bridge.email import canonical_email
from bridge.engine.errors import EngineError
from bridge.engine.rules.passwords import find_weakness
from bridge.engine.service.accounts.users import ACCOUNTS, AccountRef

_HASHER = PasswordHasher()


@dataclass(frozen=True, slots=True)
class Credentials:
    """
    The password hash of an account; `account` is None for an unknown or disabled address.

    `totp` is True if a one-time code is required.
    """

    account: AccountRef | None
    password_hash: str = field(default="", repr=False)
    totp: bool = False

    def verify(self, password: str) -> bool:
        try:
            _HASHER.verify(self.password_hash or _dummy_hash(), password)
        except (VerificationError, InvalidHashError, UnicodeError):
            return False
        return bool(self.password_hash) and self.account is not None


def credentials_of(connection: Connection, email: str) -> Credentials:
    """Return the credentials of an address; those of an unknown address match no password."""
    row = connection.execute(
        select(ACCOUNTS).where(
            ACCOUNTS.c.email == canonical_email(email), ACCOUNTS.c.disabled_at.is_(None)
        )
    ).first()
    if row is None:
        return Credentials(None)
    account = AccountRef(row.id, row.email)
    return Credentials(account, row.password_hash or "", row.totp_sealed is not None)


def still_has(connection: Connection, account_id: int, password_hash: str) -> bool:
    """True if an account is enabled and still has the password that was verified."""
    query = select(ACCOUNTS.c.id).where(
        ACCOUNTS.c.id == account_id,
        ACCOUNTS.c.password_hash == password_hash,
        ACCOUNTS.c.disabled_at.is_(None),
    )
    return connection.execute(query.with_for_update()).first() is not None


def require_strong(password: str, email: str, name: str = "") -> None:
    """Raise `EngineError` if the policy refuses a password."""
    found = find_weakness(password, email, name)
    if found is not None:
        raise EngineError(found, pointer="/wanted")


def hash_password(password: str) -> str:
    """Return the Argon2 hash of a password."""
    return _HASHER.hash(password)


def store_hash(connection: Connection, account_id: int, password_hash: str, now: int) -> None:
    own = ACCOUNTS.c.id == account_id
    connection.execute(update(ACCOUNTS).where(own).values(password_hash=password_hash))
    mark_enrolled(connection, account_id, now)


def mark_enrolled(connection: Connection, account_id: int, now: int) -> None:
    """Record the first time that the owner of an account authenticated."""
    not_enrolled = (ACCOUNTS.c.id == account_id) & ACCOUNTS.c.enrolled_at.is_(None)
    connection.execute(update(ACCOUNTS).where(not_enrolled).values(enrolled_at=now))


@cache
def _dummy_hash() -> str:
    """Return a hash to verify against without an account, so that the time is the same."""
    return _HASHER.hash("nobody has this password")
