"""
Actions of system administrators on accounts of all sites, for the console's HTTP and the commands.

Callers check `bridge.authority` first.
"""

import re
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection, Row, func, select, update

from bridge.contract.errors import ErrorCode
from bridge.email import canonical_email
from bridge.engine.errors import EngineError
from bridge.engine.links import RandomBytes
from bridge.engine.service.accounts import enrolment, sessions, users
from bridge.engine.service.accounts import second_factor as factors
from bridge.engine.service.accounts.enrolment import IssuedEnrolment
from bridge.engine.service.accounts.users import ACCOUNTS
from bridge.engine.service.caller import MEMBERSHIPS

_KEY = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


class ConsoleRoles(Protocol):
    """The console roles of accounts; blocking. A disabled account has none."""

    def suspend(self, account_id: int) -> bool:
        """
        Suspend the role of an account before it is disabled.

        False if the account is the last system administrator; then nothing changes.
        """

    def resume(self, account_id: int) -> None:
        """Restore the role of an account after it was enabled."""


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """The state of an account across all sites."""

    account_id: int
    email: str
    disabled: bool
    enrolled: bool
    has_password: bool
    second_factor_required: bool
    has_second_factor: bool
    sites: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "accountId": str(self.account_id),
            "email": self.email,
            "disabled": self.disabled,
            "enrolled": self.enrolled,
            "password": self.has_password,
            "secondFactor": self.has_second_factor,
            "secondFactorRequired": self.second_factor_required,
            "sites": list(self.sites),
        }


@dataclass(frozen=True, slots=True)
class ReaderCounts:
    """Members of sites without a role in the console; `invited`: they have not enrolled yet."""

    enrolled: int
    invited: int


def count_readers(connection: Connection) -> ReaderCounts:
    """Count the accounts that read on a site and have no role in the console."""
    is_enrolled = ACCOUNTS.c.enrolled_at.is_not(None)
    is_member = select(MEMBERSHIPS.c.site_id).where(
        MEMBERSHIPS.c.account_id == ACCOUNTS.c.id, MEMBERSHIPS.c.left_at.is_(None)
    )
    counts = (
        select(is_enrolled.label("enrolled"), func.count().label("number"))
        .where(
            ACCOUNTS.c.disabled_at.is_(None),
            ACCOUNTS.c.second_factor_required.is_(False),
            is_member.exists(),
        )
        .group_by(is_enrolled)
    )
    found = {bool(row.enrolled): row.number for row in connection.execute(counts)}
    return ReaderCounts(found.get(True, 0), found.get(False, 0))


def key_of(account_id: str) -> int:
    """Parse an account id; return 0, which no account has, for anything else."""
    return int(account_id) if _KEY.fullmatch(account_id) else 0


def facts_of(connection: Connection, account_id: int) -> AccountFacts | None:
    """Return an account by its id, or None."""
    return _facts(connection, connection.execute(_query(ACCOUNTS.c.id == account_id)).first())


def facts_by_email(connection: Connection, email: str) -> AccountFacts | None:
    """Return the account of an address, or None."""
    same = ACCOUNTS.c.email == canonical_email(email)
    return _facts(connection, connection.execute(_query(same)).first())


def require_account(connection: Connection, account_id: str) -> AccountFacts:
    """Return an account by its id as text; raise `account_not_found`."""
    found = facts_of(connection, key_of(account_id))
    if found is None:
        raise EngineError(ErrorCode.ACCOUNT_NOT_FOUND)
    return found


def reserve(connection: Connection, email: str, now: int) -> AccountFacts:
    """Return the account of an address; create one that is on no site if there is none."""
    found = facts_by_email(connection, email)
    if found is not None:
        return found
    created = users.create_account(connection, email, now)
    return require_account(connection, str(created.id))


def enrol(
    connection: Connection,
    account_id: int,
    random_bytes: RandomBytes,
    now: int,
    seconds: int | None,
    *,
    second_factor: bool | None = None,
    end_tokens: bool = True,
) -> IssuedEnrolment | None:
    """
    Remove an account's credentials and issue an enrolment link; None if passwords are off
    (`seconds` None).

    `second_factor` sets whether the account must have one; None leaves the setting.
    """
    if users.is_disabled(connection, account_id):
        raise EngineError(ErrorCode.ACCOUNT_DISABLED)
    enrolment.reset(connection, account_id, now, end_tokens=end_tokens)
    if second_factor is not None:
        factors.require(connection, account_id, required=second_factor)
    if seconds is None:
        return None
    return enrolment.issue(connection, account_id, random_bytes, now, seconds)


def change_email(connection: Connection, account_id: int, email: str, now: int) -> None:
    """Change the address of an account and end its sessions; raise `address_taken`."""
    wanted = canonical_email(email)
    other = users.find_account(connection, wanted)
    if other is not None and other.id != account_id:
        raise EngineError(ErrorCode.ADDRESS_TAKEN)
    own = ACCOUNTS.c.id == account_id
    connection.execute(update(ACCOUNTS).where(own).values(email=wanted))
    sessions.end_sessions(connection, account_id, now)
    sessions.end_enrolments(connection, account_id, now)


def _query(where: Any) -> Any:
    return select(ACCOUNTS).where(where)


def _facts(connection: Connection, row: Row[Any] | None) -> AccountFacts | None:
    if row is None:
        return None
    return AccountFacts(
        row.id,
        row.email,
        row.disabled_at is not None,
        row.enrolled_at is not None,
        row.password_hash is not None,
        bool(row.second_factor_required),
        row.totp_sealed is not None,
        tuple(users.sites_of(connection, row.id)),
    )
