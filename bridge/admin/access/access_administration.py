"""
Access administration: grants, enrolment links and disabled accounts, for console and commands.

`bridge.authority` decides which actor may do what to which account. `bridge.admin.access.grants`
ensures that a system administrator remains. A grant with more rights first ends the password, the
sessions and the tokens of the account, so nobody who used the account before obtains the rights.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bridge.admin.access import grants
from bridge.admin.access.permissions import ConsoleRole, Grant
from bridge.admin.audit_events import recorded
from bridge.admin.errors import GrantRefused, NoSuchItem
from bridge.admin.report_engine import CommandEngine, ReportEngine, internal_engine, report_engine
from bridge.audit.events import operator
from bridge.authority import (
    NO_RIGHTS,
    AccountAction,
    AccountActor,
    AccountRequest,
    AccountTarget,
    Rights,
    decide,
)
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import AccountInfo, EnrolmentLink
from bridge.executors import CONSOLE_THREADS
from bridge.store.database import Database
from bridge.store.databases import bridge_database, migrate_all
from config import Settings, load

_STATUS: Final = {
    ErrorCode.UNKNOWN_ACCOUNT: 404,
    ErrorCode.UNKNOWN_SITE: 400,
    ErrorCode.OWN_ACCOUNT: 409,
    ErrorCode.LAST_ADMINISTRATOR: 409,
}
_FORBIDDEN: Final = 403


@dataclass(frozen=True, slots=True)
class Administrator:
    """
    The actor of a change.

    An operator with the data directory has no `grant`. Only an operator may `force` a change that
    leaves no system administrator.
    """

    name: str
    grant: Grant | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class GrantEntry:
    """A grant with its account; `pending`: the owner must still enrol."""

    grant: Grant
    account: AccountInfo | None
    pending: bool

    @property
    def email(self) -> str:
        """The present e-mail address of the account, else that of the grant."""
        return self.grant.email if self.account is None else self.account.email

    @property
    def disabled(self) -> bool:
        return self.account is not None and self.account.disabled

    @property
    def second_factor(self) -> bool:
        return self.account is not None and self.account.second_factor


class AccessAdministration:
    """Changes grants and accounts. Raises GrantRefused, NoSuchItem, and errors of `accounts`."""

    def __init__(
        self,
        database: Database,
        accounts: ReportEngine,
        clock: Callable[[], int],
        *,
        provider: bool = False,
    ) -> None:
        """`clock` is in ms; `provider`: users sign in at an OpenID provider."""
        self._database = database
        self._accounts = accounts
        self._clock = clock
        self._provider = provider

    async def grant(
        self, by: Administrator, email_or_id: str, wanted: Grant
    ) -> EnrolmentLink | None:
        """
        Assign a role to an account, replacing its present role.

        If the new role has more rights, the owner must enrol again: returns the enrolment link.
        """
        account, before = await self._known(email_or_id)
        wanted = replace(wanted, account_id=account.account_id, email=account.email)
        require_authority(by, account, before, AccountAction.GRANT, wanted)
        if account.disabled:
            raise GrantRefused("account_disabled", "the account is disabled", 409)
        await self._require_sites(wanted)
        link = None
        if wanted.grants_more_than(before):
            # Checked first too, because a refused change must not end a password.
            await CONSOLE_THREADS.run(self._check, wanted, before, by)
            link = await self._accounts.enrol(
                account.account_id, second_factor=True, end_tokens=True
            )
        await CONSOLE_THREADS.run(self._save, wanted, before, by)
        return link

    async def revoke(self, by: Administrator, email_or_id: str) -> None:
        """Remove the role of an account. Raises NoSuchItem if it has none."""
        account, before = await self.find(email_or_id)
        if account is None:
            if not await CONSOLE_THREADS.run(
                grants.remove_unbound_grant, self._database, email_or_id.strip().lower()
            ):
                raise NoSuchItem
            return
        require_authority(by, account, before, AccountAction.REVOKE_GRANT)
        account_id = account.account_id
        if not await CONSOLE_THREADS.run(
            grants.remove_grant, self._database, account_id, force=by.force
        ):
            raise NoSuchItem
        await self._accounts.require_second_factor(account_id, required=False)

    async def enrol(self, by: Administrator, email_or_id: str) -> EnrolmentLink:
        """End password and sessions of an account; return an enrolment link for its owner."""
        account, before = await self._known(email_or_id)
        require_authority(by, account, before, AccountAction.ENROL)
        return await self._accounts.enrol(
            account.account_id, second_factor=before is not None, end_tokens=True
        )

    async def set_disabled(self, by: Administrator, email_or_id: str, *, disabled: bool) -> None:
        """Disable or enable an account."""
        account, before = await self._known(email_or_id)
        require_authority(
            by, account, before, AccountAction.DISABLE if disabled else AccountAction.ENABLE
        )
        await self._accounts.set_disabled(account.account_id, disabled=disabled)

    async def find(self, email_or_id: str) -> tuple[AccountInfo | None, Grant | None]:
        """Find an account by its e-mail address or its id, and its grant."""
        account = await self._accounts.account(email_or_id) if email_or_id else None
        if account is None:
            return None, None
        return account, await CONSOLE_THREADS.run(
            grants.grant_of, self._database, account.account_id
        )

    async def entries(self) -> list[GrantEntry]:
        rows = await CONSOLE_THREADS.run(grants.all_grants, self._database)
        return [await self._entry(row) for row in rows]

    async def _entry(self, grant: Grant) -> GrantEntry:
        account = await self._accounts.account(grant.account_id) if grant.account_id else None
        can_sign_in = (
            account is not None and account.enrolled and (account.password or self._provider)
        )
        return GrantEntry(grant, account, pending=not can_sign_in)

    async def _known(self, email_or_id: str) -> tuple[AccountInfo, Grant | None]:
        account, before = await self.find(email_or_id)
        if account is None:
            raise _refused(ErrorCode.UNKNOWN_ACCOUNT)
        return account, before

    async def _require_sites(self, wanted: Grant) -> None:
        if wanted.role is ConsoleRole.SITE_ADMINISTRATOR and not wanted.sites:
            raise GrantRefused("site_needed", "a site administrator needs a site", 400)
        if wanted.sites is None:
            return
        missing = sorted(wanted.sites - await self._accounts.sites())
        if missing:
            raise _refused(ErrorCode.UNKNOWN_SITE, ", ".join(missing))

    def _check(self, wanted: Grant, before: Grant | None, by: Administrator) -> None:
        grants.check_grant(self._database, wanted, before=before, force=by.force)

    def _save(self, wanted: Grant, before: Grant | None, by: Administrator) -> None:
        now = self._clock()
        grants.save_grant(self._database, wanted, now, by.name, before=before, force=by.force)


def require_authority(
    by: Administrator,
    account: AccountInfo,
    role: Grant | None,
    action: AccountAction,
    wanted: Grant | None = None,
    site: str | None = None,
) -> None:
    """
    Raise GrantRefused if `bridge.authority` forbids the action on an account with this role.

    `wanted` is the role to assign. `site` is the site of the action, which the actor administers.
    """
    rights = Rights(system=True) if by.grant is None else by.grant.rights
    own = None if by.grant is None else by.grant.account_id
    administers = frozenset() if site is None else frozenset({site})
    target = AccountTarget(account.account_id, NO_RIGHTS if role is None else role.rights)
    request = AccountRequest(action, site, grants=NO_RIGHTS if wanted is None else wanted.rights)
    refusal = decide(AccountActor(own, rights, administers), target, request)
    if refusal is not None:
        raise _refused(refusal)


def _refused(refusal: ErrorCode, detail: str = "") -> GrantRefused:
    text = f"{refusal.text}: {detail}" if detail else refusal.text
    return GrantRefused(refusal, text, _STATUS.get(refusal, _FORBIDDEN))


class ConsoleAccess:
    """Use cases of `bridge console`; each change writes one audit event of the operator."""

    def __init__(self, settings: Settings, database: Database, engine: CommandEngine) -> None:
        self._settings = settings
        self._database = database
        self._engine = engine
        provider = settings.sign_in.oidc is not None
        self._access = AccessAdministration(database, engine.engine, _now_ms, provider=provider)

    def grant(
        self, email: str, wanted: Grant, *, pending: bool, force: bool
    ) -> EnrolmentLink | None:
        """Grant a role; `pending` creates the account if it does not exist."""

        async def work() -> EnrolmentLink | None:
            if pending and await self._engine.engine.account(email) is None:
                if not self._settings.engine.is_internal:
                    detail = "create the account at the service of engine.base_url first"
                    raise GrantRefused("unknown_account", detail, 404)
                await self._engine.engine.reserve(email)
            return await self._access.grant(Administrator(operator(), force=force), email, wanted)

        with recorded(self._database, "grant", ("user", email)):
            return self._engine.run(work())

    def revoke(self, email: str, *, force: bool) -> bool:
        """Revoke a role; return whether the account had one."""
        try:
            with recorded(self._database, "revoke", ("user", email)):
                by = Administrator(operator(), force=force)
                self._engine.run(self._access.revoke(by, email))
        except NoSuchItem:
            return False
        return True

    def entries(self) -> list[GrantEntry]:
        return self._engine.run(self._access.entries())


@contextmanager
def console_access(home: Path) -> Iterator[ConsoleAccess]:
    """Open the database and the report engine. First bind grants of older releases to accounts."""
    settings = load(home)
    with bridge_database(home) as database, report_engine(settings) as engine:
        if settings.engine.is_internal:
            _bind_grants(database, engine)
        yield ConsoleAccess(settings, database, engine)


def disable_user(home: Path, email: str, *, force: bool) -> None:
    """Disable a user of the internal engine, also the last system administrator if `force`."""
    with internal_engine(load(home)) as opened:
        account = opened.run(opened.engine.account(email))
        if force and account is not None:
            with bridge_database(home) as database:
                grants.suspend_grant(database, account.account_id, force=True)
        opened.run(opened.engine.set_disabled(email, disabled=True))


def resolve_grants(settings: Settings, database: Database) -> None:
    """Bind grants of older releases, which have e-mail addresses only, to account ids."""
    if settings.engine.is_internal and grants.grants_without_account(database):
        with internal_engine(settings) as engine:
            _bind_grants(database, engine)


def upgrade_databases(home: Path) -> dict[str, tuple[str, ...]]:
    """Migrate the databases of a data directory; return the revisions of each."""
    settings = load(home)
    revisions = migrate_all(settings)
    with bridge_database(home) as database:
        resolve_grants(settings, database)
    return revisions


def _bind_grants(database: Database, engine: CommandEngine) -> None:
    """
    Bind each old grant to the account of its address; reserve an account if there is none.

    A reserved account belongs to no site, and only a system administrator can create an enrolment
    link for it. Nobody else can obtain the grant.
    """
    for email in grants.grants_without_account(database):
        account = engine.run(engine.engine.reserve(email))
        engine.run(engine.engine.require_second_factor(account.account_id, required=True))
        grants.bind_account(database, email, account.account_id, suspended=account.disabled)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
