"""
Enrolment links: the only way to set a password without the current one.

A link is random, stored as a hash, works once, and expires. A new link invalidates the older ones.

Each view of a link shows the secret of a new authenticator. Its form contains the secret, sealed
for this link. A person who looked at the link earlier does not know the secret that the owner sets
up. The link stores the newest secret, for a form that is sent without one.
"""

import base64
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, insert, select, update

from bridge.engine.links import Binding, KeyRing, Purpose, RandomBytes
from bridge.engine.service.accounts import passwords, second_factor, sessions
from bridge.engine.service.accounts.second_factor import SealedSecret
from bridge.engine.service.accounts.sessions import ENROLMENTS
from bridge.engine.service.accounts.users import ACCOUNTS, MEMBERSHIPS

PATH: Final = "/reporting/enrol"
TOKEN_BYTES: Final = 24
_KEPT_MS: Final = 30 * 24 * 3600 * 1000
"""How long an expired link is stored, so that its bearer learns that it has expired."""


class EnrolmentState(StrEnum):
    OPEN = "open"
    USED = "used"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class IssuedEnrolment:
    """A new link: its token, which is stored nowhere, and its expiry in milliseconds."""

    token: str
    expires_at: int

    def address(self, base_url: str) -> str:
        return f"{base_url}{PATH}?token={self.token}"


@dataclass(frozen=True, slots=True)
class FoundEnrolment:
    """A link that was found by its token, with its account."""

    state: EnrolmentState
    pk: int = 0
    account_id: int = 0
    email: str = ""
    name: str = ""
    second_factor: bool = False
    secret: SealedSecret | None = None


UNKNOWN_LINK: Final = FoundEnrolment(EnrolmentState.UNKNOWN)


def reset(connection: Connection, account_id: int, now: int, *, end_tokens: bool) -> None:
    """Remove password and second factor, and end the sessions (`end_tokens`: also the tokens)."""
    own = ACCOUNTS.c.id == account_id
    connection.execute(update(ACCOUNTS).where(own).values(password_hash=None))
    second_factor.store(connection, account_id, None)
    sessions.end_sessions(connection, account_id, now)
    sessions.end_enrolments(connection, account_id, now)
    if end_tokens:
        sessions.end_tokens(connection, account_id, now)
        sessions.end_links(connection, account_id, now)


def issue(
    connection: Connection, account_id: int, random_bytes: RandomBytes, now: int, seconds: int
) -> IssuedEnrolment:
    """Issue an enrolment link of an account; its older links become invalid."""
    sessions.end_enrolments(connection, account_id, now)
    old = ENROLMENTS.c.expires_at < now - _KEPT_MS
    connection.execute(ENROLMENTS.delete().where(old))
    token = base64.urlsafe_b64encode(random_bytes(TOKEN_BYTES)).rstrip(b"=").decode("ascii")
    expires_at = now + seconds * 1000
    connection.execute(
        insert(ENROLMENTS).values(
            token_hash=sessions.secret_hash(token),
            account_id=account_id,
            created_at=now,
            expires_at=expires_at,
        )
    )
    return IssuedEnrolment(token, expires_at)


def find(connection: Connection, token: str, now: int) -> FoundEnrolment:
    """Return the link of a token with its state."""
    row = connection.execute(
        select(ENROLMENTS, ACCOUNTS.c.email, ACCOUNTS.c.second_factor_required)
        .join_from(ENROLMENTS, ACCOUNTS, ENROLMENTS.c.account_id == ACCOUNTS.c.id)
        .where(
            ENROLMENTS.c.token_hash == sessions.secret_hash(token), ACCOUNTS.c.disabled_at.is_(None)
        )
    ).first()
    if row is None:
        return UNKNOWN_LINK
    name = connection.execute(
        select(MEMBERSHIPS.c.name).where(MEMBERSHIPS.c.account_id == row.account_id).limit(1)
    ).scalar_one_or_none()
    sealed = None
    if row.totp_sealed is not None:
        sealed = SealedSecret(row.totp_key_id, row.totp_sealed)
    required = bool(row.second_factor_required)
    return FoundEnrolment(
        _state(row, now), row.pk, row.account_id, row.email, name or "", required, sealed
    )


def store_secret(
    connection: Connection, keys: KeyRing, found: FoundEnrolment, secret: bytes
) -> None:
    """Store the secret of the newest view with its link."""
    sealed = second_factor.seal(keys, found.account_id, secret)
    values = {"totp_key_id": sealed.key_id, "totp_sealed": sealed.data}
    connection.execute(update(ENROLMENTS).where(ENROLMENTS.c.pk == found.pk).values(**values))


def form_binding(found: FoundEnrolment) -> Binding:
    """Return the binding of the form field with the secret of a view."""
    return Binding(f"account {found.account_id} enrolment {found.pk}", "", Purpose.TOTP)


def complete(
    connection: Connection,
    found: FoundEnrolment,
    password_hash: str,
    authenticator: SealedSecret | None,
    step: int | None,
    now: int,
) -> bool:
    """
    Use a link and store the password and second factor; False if it has been used before.

    `step` is that of the code that verified the authenticator.
    """
    usable = (ENROLMENTS.c.pk == found.pk) & ENROLMENTS.c.used_at.is_(None)
    usable &= ENROLMENTS.c.ended_at.is_(None) & (ENROLMENTS.c.expires_at > now)
    values: dict[str, Any] = {"used_at": now, "totp_key_id": None, "totp_sealed": None}
    if connection.execute(update(ENROLMENTS).where(usable).values(**values)).rowcount != 1:
        return False
    passwords.store_hash(connection, found.account_id, password_hash, now)
    second_factor.store(connection, found.account_id, authenticator, step)
    sessions.end_sessions(connection, found.account_id, now)
    return True


def _state(row: Any, now: int) -> EnrolmentState:
    if row.used_at is not None:
        return EnrolmentState.USED
    if row.ended_at is not None:
        return EnrolmentState.SUPERSEDED
    return EnrolmentState.EXPIRED if row.expires_at <= now else EnrolmentState.OPEN
