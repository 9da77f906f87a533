"""
The signed-in account: sign-in, its session, and what users change about themselves.

An account session belongs to no report. It opens the worklist, and reports from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, true

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.links import RandomBytes
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.accounts import second_factor as factors
from bridge.engine.service.accounts import sessions, users
from bridge.engine.service.accounts.passwords import mark_enrolled, still_has, store_hash
from bridge.engine.service.accounts.sessions import (
    BrowserSession,
    NewSession,
    add_details,
    begin_session,
    find_session,
)
from bridge.engine.service.accounts.users import ACCOUNTS, AccountRef
from bridge.engine.service.caller import MEMBERSHIPS, SITES, BrowserUser
from bridge.engine.service.sites.site_settings import preferences_of
from bridge.engine.settings import AccessLifetimes

CHOICES = ("AppLanguage", "SpeechLanguage", "theme", "signatureText")
_KIND = "account"


@dataclass(frozen=True, slots=True)
class AccountSession:
    session: BrowserSession
    account: AccountRef

    @property
    def browser_user(self) -> BrowserUser:
        """The account of the session, valid for all its sites."""
        return BrowserUser(self.account.id)

    @property
    def authenticated_at(self) -> int:
        """When the owner last authenticated, in milliseconds."""
        return int(self.session.details.get("authenticated_at", 0))

    @property
    def second_factor(self) -> bool:
        """Whether that authentication had a second factor: a one-time code, or the provider's."""
        return bool(self.session.details.get("second_factor"))


@dataclass(frozen=True, slots=True)
class SignInProof:
    """A successful authentication; `password_hash` is None if the provider authenticated."""

    account: AccountRef
    password_hash: str | None = field(default=None, repr=False)
    second_factor: bool = False


def sign_in(
    connection: Connection,
    proof: SignInProof,
    random_bytes: RandomBytes,
    now: int,
    life: AccessLifetimes,
) -> str:
    """
    Begin a session for an account and return its secret.

    Raise `wrong_password` if the password was changed or the account disabled after the password
    was verified, and `forbidden` if the account is on no site and has no role in the console.
    """
    account = proof.account
    if proof.password_hash is None:
        if users.is_disabled(connection, account.id):
            raise EngineError(ErrorCode.WRONG_PASSWORD)
        mark_enrolled(connection, account.id, now)
    elif not still_has(connection, account.id, proof.password_hash):
        raise EngineError(ErrorCode.WRONG_PASSWORD)
    home_site = users.home_site_of(connection, account.id)
    if home_site is None and not factors.is_required(connection, account.id):
        raise EngineError(ErrorCode.FORBIDDEN)
    details = {"kind": _KIND, "authenticated_at": now, "second_factor": proof.second_factor}
    new = NewSession(home_site or "", account.id, details=details)
    return begin_session(connection, random_bytes, new, now, life)


def confirm(connection: Connection, signed: AccountSession, proof: SignInProof, now: int) -> None:
    """Record a repeated authentication with the password; raise `wrong_password` as `sign_in`."""
    password_hash = proof.password_hash or ""
    if not still_has(connection, signed.account.id, password_hash):
        raise EngineError(ErrorCode.WRONG_PASSWORD)
    second_factor = proof.second_factor or signed.second_factor
    details = {"authenticated_at": now, "second_factor": second_factor}
    add_details(connection, signed.session, details)


def signed_in(
    connection: Connection, secret: str, now: int, life: AccessLifetimes
) -> AccountSession | None:
    """Return the account session of a secret; None if it has ended."""
    session = find_session(connection, secret, now, life)
    if session is None or session.details.get("kind") != _KIND:
        return None
    query = select(ACCOUNTS.c.email).where(ACCOUNTS.c.id == session.account_id)
    email = connection.execute(query).scalar_one()
    return AccountSession(session, AccountRef(session.account_id, email))


def _within(only_site: str | None) -> ColumnElement[bool]:
    return true() if only_site is None else MEMBERSHIPS.c.site_id == only_site


def account_json(connection: Connection, signed: AccountSession) -> dict[str, Any]:
    return {
        **profile(connection, signed.browser_user),
        "accountId": str(signed.account.id),
        "site": signed.browser_user.site_id,
        "authenticatedAt": iso(signed.authenticated_at),
        "secondFactor": signed.second_factor,
    }


def profile(connection: Connection, browser_user: BrowserUser) -> dict[str, Any]:
    """
    Return an account as its owner sees it, with the sites that the session is valid for.

    Name, signature and settings are those of the account's home site; an account on no site has
    none.
    """
    account_id = browser_user.account_id
    row = connection.execute(select(ACCOUNTS).where(ACCOUNTS.c.id == account_id)).one()
    home = _home_membership(connection, browser_user)
    at_home = preferences_of(connection, home.site_id) if home.site_id else None
    compare = at_home is not None and bool(at_home.AutoComparePrior)
    sites = connection.execute(
        select(SITES.c.site_id, SITES.c.name, SITES.c.time_zone, MEMBERSHIPS.c.role)
        .join_from(MEMBERSHIPS, SITES, MEMBERSHIPS.c.site_id == SITES.c.site_id)
        .where(
            MEMBERSHIPS.c.account_id == account_id,
            MEMBERSHIPS.c.left_at.is_(None),
            _within(browser_user.site_id),
        )
        .order_by(SITES.c.name, SITES.c.site_id)
    )
    return {
        "email": row.email,
        "name": home.name,
        "signature": home.signature,
        "password": row.password_hash is not None,
        **{name: home.settings.get(name, "") for name in CHOICES},
        "AutoComparePrior": home.settings.get("AutoComparePrior", compare),
        "sites": [
            {
                "SiteID": site.site_id,
                "name": site.name or site.site_id,
                "timeZone": site.time_zone,
                "role": SiteRole(site.role).value,
            }
            for site in sites
        ],
    }


def save_choices(
    connection: Connection, browser_user: BrowserUser, choices: Mapping[str, Any]
) -> None:
    """Save a user's settings for all their sites; an empty value restores the default."""
    settings = {**_home_membership(connection, browser_user, lock=True).settings, **choices}
    settings = {name: value for name, value in settings.items() if value not in ("", None)}
    users.update_membership(
        connection, browser_user.account_id, browser_user.site_id, settings=settings
    )


def save_page_choices(
    connection: Connection, session: BrowserSession, choices: Mapping[str, Any]
) -> None:
    """
    Save a user's settings on the site of the open report.

    A language that is chosen on the page takes precedence over the launch's, also when the page is
    reloaded.
    """
    save_choices(connection, BrowserUser(session.account_id, session.site_id), choices)
    if language := choices.get("AppLanguage"):
        add_details(connection, session, {"chosen_language": language})


def rename(connection: Connection, browser_user: BrowserUser, name: str) -> None:
    """Change the name that a user's future reports are signed with, on all their sites."""
    if name != _home_membership(connection, browser_user).name:
        users.update_membership(
            connection, browser_user.account_id, browser_user.site_id, name=name
        )


@dataclass(frozen=True, slots=True)
class _Home:
    """How the home site knows a user; an account on no site has the defaults."""

    site_id: str = ""
    name: str = ""
    signature: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def _home_membership(
    connection: Connection, browser_user: BrowserUser, *, lock: bool = False
) -> _Home:
    home = browser_user.site_id or users.home_site_of(connection, browser_user.account_id)
    if home is None:
        return _Home()
    query = select(MEMBERSHIPS).where(
        MEMBERSHIPS.c.account_id == browser_user.account_id, MEMBERSHIPS.c.site_id == home
    )
    row = connection.execute(query.with_for_update(key_share=True) if lock else query).one()
    return _Home(row.site_id, row.name, row.signature, row.settings)


def change_password(
    connection: Connection, signed: AccountSession, present: str, wanted: str, now: int
) -> None:
    """
    Change a password and end the account's other sessions; both passwords are given as hashes.

    Raise `wrong_password` if `present` is no longer the account's hash.
    """
    if not still_has(connection, signed.account.id, present):
        raise EngineError(ErrorCode.WRONG_PASSWORD, pointer="/present")
    store_hash(connection, signed.account.id, wanted, now)
    sessions.end_sessions(connection, signed.account.id, now, but=signed.session.pk)
