"""Administration of the internal engine's sites, users and tokens for commands, without HTTP."""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pydantic import ValidationError
from sqlalchemy import Connection

from bridge import authority
from bridge.admin.access.granted_roles import GrantedRoles
from bridge.admin.audit_events import append_event
from bridge.audit.events import Outcome, code_of
from bridge.authority import AccountAction
from bridge.email import is_email
from bridge.engine.errors import EngineError
from bridge.engine.http.models.administration import SiteChangeBody
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts import (
    enrolment,
    passwords,
    second_factor,
    sessions,
    system_accounts,
    tokens,
    users,
)
from bridge.engine.service.sites import site_settings
from bridge.engine.service.sites.audit_states import StateReader
from bridge.engine.service.work import FEED_CHANNEL
from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.wiring.stores import migrate_engine, open_engine_database
from config import Settings

_DAY: Final = 24 * 3600 * 1000


class AdministrationRefused(BridgeError):
    """The engine refused a change."""


class EngineAdministration:
    """Each method is one audited transaction. Raises AdministrationRefused."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def add_site(
        self,
        site_id: str,
        *,
        name: str,
        time_zone: str,
        sign_delay: int,
        locations: tuple[str, ...],
        host_origins: tuple[str, ...],
    ) -> None:
        """Add a site; `sign_delay` in seconds."""
        site = site_settings.SiteSettings(
            site_id, name, time_zone, sign_delay, locations, host_origins
        )
        event = {**self.event("site-create", site_id), "before": {}}
        with self.auditing(event) as (connection, now):
            site_settings.add_site(connection, site, now)
            event["after"] = site_settings.audit_state(site)

    def sites(self) -> list[dict[str, Any]]:
        with self._database.read() as connection:
            return [
                site_settings.site_json(each) for each in site_settings.list_sites(connection, None)
            ]

    def site(self, site_id: str) -> dict[str, Any]:
        with as_refusal(), self._database.read() as connection:
            return site_settings.site_json(site_settings.get_site(connection, site_id))

    def change_site(self, site_id: str, changes: Mapping[str, Any]) -> None:
        """Change members of a site, by their names in the API."""
        with as_refusal():
            members = site_settings.prepare(_checked(changes))
        event = self.event("site-update", site_id, members=sorted(members))
        with self.auditing(event) as (connection, _):
            current = site_settings.get_site(connection, site_id, lock=True)
            changed = site_settings.apply_changes(current, members)
            site_settings.update_site(connection, changed)
            event.update(site_settings.difference(current, changed))

    def add_user(
        self, email: str, *, name: str, site_id: str, administrator: bool, password: str | None
    ) -> str | None:
        """
        Add a user to a site, or change their name or role there; return an enrolment link.

        `password` sets the first password of an account that has not enrolled; then no link is
        returned.
        """
        if not is_email(email):
            raise AdministrationRefused("this is not a valid e-mail address")
        role = SiteRole.ADMINISTRATOR if administrator else SiteRole.USER
        hashed = None if password is None else self._hashed(email, name, password)
        event = self.event("user-update", site_id, role=role.value)
        event["target"] = ("user", email.strip().lower())
        with self.auditing(event) as (connection, now):
            site_settings.get_site(connection, site_id)
            event["before"] = users.membership(connection, site_id, email)
            account = users.register(connection, site_id, email, name, now, role=role)
            event["after"] = users.membership(connection, site_id, email)
            facts = system_accounts.require_account(connection, str(account.id))
            if hashed is not None:
                self._decide(AccountAction.SET_PASSWORD, facts)
                sessions.end_enrolments(connection, account.id, now)
                passwords.store_hash(connection, account.id, hashed, now)
                return None
            if facts.enrolled or not self._settings.sign_in.passwords:
                return None
            seconds = self._link_seconds
            issued = enrolment.issue(connection, account.id, secrets.token_bytes, now, seconds)
            return issued.address(self._settings.http.public_url)

    def reserve_user(self, email: str) -> system_accounts.AccountFacts:
        """Return the account of an address; create one without sites if there is none."""
        if not is_email(email):
            raise AdministrationRefused("this is not a valid e-mail address")
        with self.transaction("user-reserve", target=("user", email)) as (connection, now):
            return system_accounts.reserve(connection, email, now)

    def enrol_user(
        self, email: str, *, second_factor: bool | None = None, end_tokens: bool = False
    ) -> str | None:
        """
        End the password, the one-time codes and the sessions of a user; return an enrolment link.

        Return None if users sign in at the OpenID provider only.
        """
        with self._account_change("user-enrol", email) as (connection, now, facts):
            self._decide(AccountAction.ENROL, facts)
            issued = system_accounts.enrol(
                connection,
                facts.account_id,
                secrets.token_bytes,
                now,
                self._link_seconds if self._settings.sign_in.passwords else None,
                second_factor=second_factor,
                end_tokens=end_tokens,
            )
            self._database.notify(connection, FEED_CHANNEL)
        return None if issued is None else issued.address(self._settings.http.public_url)

    def disable_user(self, email: str, *, force: bool = False) -> None:
        """
        Disable a user; their sessions, tokens and links end immediately.

        Refused for the last system administrator of the console, unless `force`.
        """
        with as_refusal():
            with self._database.read() as connection:
                account_id = self._facts(connection, email).account_id
            GrantedRoles(self._settings).suspend(account_id, force=force)
        with self._account_change("user-disable", email) as (connection, now, facts):
            self._decide(AccountAction.DISABLE, facts)
            sessions.disable(connection, facts.account_id, now)
            self._database.notify(connection, FEED_CHANNEL)

    def enable_user(self, email: str) -> None:
        """Allow a disabled user to sign in again."""
        with self._account_change("user-enable", email) as (connection, _, facts):
            self._decide(AccountAction.ENABLE, facts)
            sessions.enable(connection, facts.account_id)
        GrantedRoles(self._settings).resume(facts.account_id)

    def change_email(self, email: str, wanted: str) -> None:
        """Change the e-mail address of a user; their sessions end."""
        if not is_email(wanted):
            raise AdministrationRefused("this is not a valid e-mail address")
        event = {**self.event("user-email"), "target": ("user", email)}
        with self.auditing({**event, "before": {"email": email}, "after": {"email": wanted}}) as (
            connection,
            now,
        ):
            facts = self._facts(connection, email)
            self._decide(AccountAction.CHANGE_EMAIL, facts)
            system_accounts.change_email(connection, facts.account_id, wanted, now)
            self._database.notify(connection, FEED_CHANNEL)

    def require_second_factor(self, account_id: int, *, required: bool) -> None:
        """Set whether an account needs a second factor, as one with a console role does."""
        event = self.event("user-second-factor", required=required)
        event["target"] = ("account", str(account_id))
        with self.auditing(event) as (connection, _):
            before = system_accounts.facts_of(connection, account_id)
            event["before"] = {"required": before and before.second_factor_required}
            event["after"] = {"required": required}
            second_factor.require(connection, account_id, required=required)

    def account(self, email: str) -> system_accounts.AccountFacts | None:
        """Return the account of an address, or None."""
        with self._database.read() as connection:
            return system_accounts.facts_by_email(connection, email)

    def account_by_id(self, account_id: int) -> system_accounts.AccountFacts | None:
        """Return an account by its id, or None."""
        with self._database.read() as connection:
            return system_accounts.facts_of(connection, account_id)

    @property
    def _link_seconds(self) -> int:
        return int(self._settings.lifetimes.enrolment_link)

    def _facts(self, connection: Connection, email: str) -> system_accounts.AccountFacts:
        found = system_accounts.facts_by_email(connection, email)
        if found is None:
            raise AdministrationRefused("there is no such user")
        return found

    @staticmethod
    def _decide(action: AccountAction, facts: system_accounts.AccountFacts) -> None:
        """Apply `bridge.authority`: a user of the data directory is a system administrator."""
        operator = authority.AccountActor(rights=authority.Rights(system=True))
        target = authority.AccountTarget(facts.account_id, enrolled=facts.enrolled)
        refusal = authority.decide(operator, target, authority.AccountRequest(action))
        if refusal is authority.AccountRefusal.OWNER_ONLY:
            hint = f"`bridge user enrol {facts.email}` gives its owner a link to set a new one"
            raise AdministrationRefused(f"{authority.TEXTS[refusal]}; {hint}")
        if refusal is not None:
            raise AdministrationRefused(authority.TEXTS[refusal])

    @staticmethod
    def _hashed(email: str, name: str, password: str) -> str:
        with as_refusal():
            passwords.require_strong(password, email, name)
        return passwords.hash_password(password)

    def users(self, site_id: str) -> list[dict[str, Any]]:
        with self.reading(site_id) as connection:
            found = users.members(connection, site_id)
        return [
            {"email": each.email, "name": each.name, "role": each.role, "disabled": each.disabled}
            for each in found
        ]

    def create_token(self, email: str, *, label: str, expires_days: int | None) -> str:
        """Create a token and return its secret, which cannot be read again."""
        event = self.event("token-create", user=email.strip().lower(), label=label)
        with self.auditing(event) as (connection, now):
            account = users.find_account(connection, email)
            if account is None:
                raise AdministrationRefused("there is no such user")
            if users.is_disabled(connection, account.id):
                raise users.AccountDisabled
            token_id, secret = tokens.create_token(
                connection,
                account.id,
                now=now,
                random_bytes=secrets.token_bytes,
                label=label,
                expires_at=None if expires_days is None else now + expires_days * _DAY,
            )
            event["target"] = ("token", str(token_id))
            event["before"] = {}
            event["after"] = {"account": account.id, "label": label, "days": expires_days}
            return secret

    def tokens(self, site_id: str | None) -> Sequence[tokens.TokenView]:
        """Return the tokens of a site's users, or all of them, without their secrets."""
        with as_refusal(), self._database.read() as connection:
            if site_id is None:
                return tokens.all_tokens(connection)
            site_settings.get_site(connection, site_id)
            at_home = users.accounts_at_home(connection, site_id)
            return tokens.tokens_of_site(connection, site_id, at_home)

    def revoke_token(self, token_id: int) -> None:
        event = self.event("token-revoke", token=token_id)
        event["target"] = ("token", str(token_id))
        with self.auditing(event) as (connection, now):
            if not tokens.exists(connection, token_id):
                raise AdministrationRefused("there is no such token")
            event.update(tokens.revocation(connection, token_id, now))
            tokens.revoke_token(connection, token_id, now)

    @contextmanager
    def reading(self, site_id: str) -> Iterator[Connection]:
        """Open a read transaction for an existing site."""
        with as_refusal(), self._database.read() as connection:
            site_settings.get_site(connection, site_id)
            yield connection

    @contextmanager
    def _account_change(
        self, action: str, email: str
    ) -> Iterator[tuple[Connection, int, system_accounts.AccountFacts]]:
        """Open a transaction that changes an account; yield it with its time and the account."""
        event = {**self.event(action), "target": ("user", email)}
        with self.auditing(event) as (connection, now):
            before = self._facts(connection, email)
            yield connection, now, before
            after = system_accounts.require_account(connection, str(before.account_id))
            event.update(system_accounts.difference(before, after))

    @contextmanager
    def transaction(
        self,
        action: str,
        site_id: str | None = None,
        *,
        target: tuple[str, str] | None = None,
        state: StateReader | None = None,
        **details: Any,
    ) -> Iterator[tuple[Connection, int]]:
        """
        Open a transaction that includes the audit event of the action; yield it with its time (ms).

        `state` reads the target, for the event's members `before` and `after`.
        """
        event = {**self.event(action, site_id, **details), "target": target}
        with self.auditing(event) as opened:
            before = None if state is None else state(opened[0])
            yield opened
            if state is not None:
                event |= {"before": before, "after": state(opened[0])}

    @staticmethod
    def event(action: str, site_id: str | None = None, **details: Any) -> dict[str, Any]:
        """Return the members of an audit event; the transaction may complete them."""
        return {"action": action, "site_id": site_id, "details": details}

    @contextmanager
    def auditing(self, event: dict[str, Any]) -> Iterator[tuple[Connection, int]]:
        """
        Open a transaction and append `event` to the chain in it; yield it with its time (ms).

        A refusal or a failure is recorded in a separate transaction.
        """
        now = time.time_ns() // 1_000_000
        try:
            with as_refusal(), self._database.write() as connection:
                yield connection, now
                append_event(connection, self._database, now, **event)
        except Exception as error:
            refused = isinstance(error, BridgeError)
            event["outcome"] = Outcome.REFUSED if refused else Outcome.FAILED
            event["details"] = {**event["details"], "code": code_of(error.__cause__ or error)}
            with self._database.write() as connection:
                append_event(connection, self._database, now, **event)
            raise


def _checked(changes: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(changes) - set(SiteChangeBody.model_fields))
    if unknown:
        raise AdministrationRefused(f"a site has no {', '.join(unknown)}")
    try:
        return SiteChangeBody.model_validate(dict(changes)).changes()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise AdministrationRefused(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


@contextmanager
def administer(settings: Settings) -> Iterator[EngineAdministration]:
    """Open the internal engine's database for a command."""
    if not settings.engine.is_internal:
        raise AdministrationRefused(
            "sites, users and tokens belong to the service at engine.base_url"
        )
    database = open_engine_database(settings)
    try:
        migrate_engine(database)
        yield EngineAdministration(database, settings)
    finally:
        database.dispose()


@contextmanager
def as_refusal() -> Iterator[None]:
    """Convert errors of the engine to AdministrationRefused."""
    try:
        yield
    except EngineError as error:
        raise AdministrationRefused(
            f"{error} ({error.pointer})" if error.pointer else str(error)
        ) from error
