"""
Console roles for commands and upgrades.

The use cases are those of the console (`access_administration`). The accounts of the report engine
are in its database, or behind HTTP if the engine is another service.
"""

import asyncio
import time
from collections.abc import Collection, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any, Final, TypeVar

from bridge.admin.access import grants
from bridge.admin.access.access_administration import (
    AccessAdministration,
    AccountDirectory,
    Administrator,
    GrantEntry,
)
from bridge.admin.access.permissions import ALL_SITES_ROLES, ConsoleRole, Grant
from bridge.admin.audit_events import recorded
from bridge.admin.engine_administration import EngineAdministration, administer
from bridge.admin.errors import GrantRefused, NoSuchItem
from bridge.admin.report_engine import ReportEngine
from bridge.audit.events import operator
from bridge.contract.responses import AccountInfo, EnrolmentLink
from bridge.engine.service.accounts.system_accounts import AccountFacts
from bridge.engine_client.client import EngineClient
from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.wiring.engine import engine_http, engine_tokens
from bridge.wiring.stores import bridge_database, migrate_all
from config import Settings, load

T = TypeVar("T")
_MAX_ID_DIGITS: Final = 18  # an id of so many digits fits into a 64-bit column


class InvalidGrant(BridgeError):
    """A role that does not exist, or sites that do not fit the role."""


def make_grant(
    email: str, role: str, sites: Collection[str] | None, *, bodies: bool = False
) -> Grant:
    """Return a grant of a role, limited to `sites` if any. Raises InvalidGrant."""
    if role not in set(ConsoleRole):
        raise InvalidGrant(f"--role must be one of {', '.join(ConsoleRole)}")
    if role == ConsoleRole.SITE_ADMINISTRATOR and not sites:
        raise InvalidGrant("a site administrator needs --site")
    if role in ALL_SITES_ROLES and sites:
        raise InvalidGrant(f"--site does not apply to {role}, a role for all sites")
    return Grant(email, ConsoleRole(role), bodies, frozenset(sites) if sites else None)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class ConsoleAccess:
    """Use cases of `bridge console`; each change writes one audit event of the operator."""

    def __init__(
        self,
        database: Database,
        accounts: AccountDirectory,
        runner: asyncio.Runner,
        *,
        provider: bool,
    ) -> None:
        self._database = database
        self._accounts = accounts
        self._runner = runner
        self._access = AccessAdministration(database, accounts, _now_ms, provider=provider)

    def grant(
        self, email: str, wanted: Grant, *, pending: bool, force: bool
    ) -> EnrolmentLink | None:
        """Grant a role; `pending` creates the account if it does not exist."""

        async def work() -> EnrolmentLink | None:
            if pending and await self._accounts.account(email) is None:
                await self._create(email)
            return await self._access.grant(self._operator(force=force), email, wanted)

        return self._recorded("grant", email, work())

    def revoke(self, email: str, *, force: bool) -> bool:
        """Revoke a role; return whether the account had one."""
        work = self._access.revoke(self._operator(force=force), email)
        try:
            self._recorded("revoke", email, work)
        except NoSuchItem:
            return False
        return True

    def entries(self) -> list[GrantEntry]:
        return self._runner.run(self._access.entries())

    async def _create(self, email: str) -> None:
        if not isinstance(self._accounts, EngineAccounts):
            detail = "create the account at the service of engine.base_url first"
            raise GrantRefused("unknown_account", detail, 404)
        self._accounts.reserve(email)

    def _operator(self, *, force: bool) -> Administrator:
        return Administrator(operator(), force=force)

    def _recorded(self, action: str, email: str, work: Coroutine[Any, Any, T]) -> T:
        with recorded(self._database, action, ("user", email)):
            return self._runner.run(work, context=copy_context())


@contextmanager
def console_access(home: Path) -> Iterator[ConsoleAccess]:
    """Open the databases for a command. First bind grants of older releases to account ids."""
    settings = load(home)
    with (
        asyncio.Runner() as runner,
        bridge_database(home) as database,
        _accounts(settings, runner) as accounts,
    ):
        if isinstance(accounts, EngineAccounts):
            _bind_grants(database, accounts)
        provider = settings.sign_in.oidc is not None
        yield ConsoleAccess(database, accounts, runner, provider=provider)


def resolve_grants(settings: Settings, database: Database) -> None:
    """Bind grants of older releases, which have e-mail addresses only, to account ids."""
    if not settings.engine.is_internal or not grants.grants_without_account(database):
        return
    with administer(settings) as engine:
        _bind_grants(database, EngineAccounts(engine))


class EngineAccounts:
    """The accounts of the internal engine, read from its database. The methods block."""

    def __init__(self, engine: EngineAdministration) -> None:
        self._engine = engine

    async def account(self, email_or_id: str) -> AccountInfo | None:
        """Find an account by its e-mail address or its id."""
        if email_or_id.isascii() and email_or_id.isdigit():
            return self._by_id(email_or_id)
        # The engine ignores the case of an address.
        return _account(self._engine.account(email_or_id))

    async def enrol(
        self, account_id: str, *, second_factor: bool, end_tokens: bool
    ) -> EnrolmentLink:
        """End password, second factor and sessions of an account; return an enrolment link."""
        email = self._known(account_id).email
        link = self._engine.enrol_user(email, second_factor=second_factor, end_tokens=end_tokens)
        return EnrolmentLink(link=link)

    async def require_second_factor(self, account_id: str, *, required: bool) -> None:
        self._engine.require_second_factor(int(account_id), required=required)

    async def set_disabled(self, account_id: str, *, disabled: bool) -> None:
        email = self._known(account_id).email
        if disabled:
            self._engine.disable_user(email)
        else:
            self._engine.enable_user(email)

    async def sites(self) -> frozenset[str]:
        return frozenset(each["SiteID"] for each in self._engine.sites())

    def reserve(self, email: str) -> AccountInfo:
        """Return the account of an address; create one without sites if there is none."""
        self._engine.reserve_user(email)
        found = _account(self._engine.account(email))
        if found is None:
            raise NoSuchItem
        return found

    def _by_id(self, account_id: str) -> AccountInfo | None:
        if not (account_id.isascii() and account_id.isdecimal()):
            return None
        if len(account_id) > _MAX_ID_DIGITS:
            return None
        return _account(self._engine.account_by_id(int(account_id)))

    def _known(self, account_id: str) -> AccountInfo:
        found = self._by_id(account_id)
        if found is None:
            raise NoSuchItem
        return found


def _account(facts: AccountFacts | None) -> AccountInfo | None:
    return None if facts is None else AccountInfo.model_validate(facts.as_json())


def upgrade_databases(home: Path) -> dict[str, tuple[str, ...]]:
    """Migrate the databases of a data directory; return the revisions of each."""
    settings = load(home)
    revisions = migrate_all(settings)
    with bridge_database(home) as database:
        resolve_grants(settings, database)
    return revisions


@contextmanager
def _accounts(settings: Settings, runner: asyncio.Runner) -> Iterator[AccountDirectory]:
    if settings.engine.is_internal:
        with administer(settings) as engine:
            yield EngineAccounts(engine)
        return
    http = engine_http(settings, None)
    try:
        yield ReportEngine(EngineClient(http, engine_tokens(settings)))
    finally:
        runner.run(http.aclose())


def _bind_grants(database: Database, accounts: EngineAccounts) -> None:
    """
    Bind each old grant to the account of its address; reserve an account if there is none.

    A reserved account belongs to no site, and only a system administrator can create an enrolment
    link for it. Nobody else can obtain the grant.
    """
    for email in grants.grants_without_account(database):
        found = accounts.reserve(email)
        asyncio.run(accounts.require_second_factor(found.account_id, required=True))
        grants.bind_account(database, email, found.account_id, suspended=found.disabled)
