"""
The user of a launch, and the authority for it (interface reference, Authentication 3 to 6).

Users that an administrator names are registered. Other callers cannot add users to a site.
"""

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection

from bridge.contract.errors import ErrorCode
from bridge.email import canonical_email, is_email
from bridge.engine.errors import EngineError
from bridge.engine.launch import LaunchInput, NamedUser
from bridge.engine.rules.order import is_placeholder, looks_like_email
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts.tokens import authenticate
from bridge.engine.service.accounts.users import SiteUser, find_member, register
from bridge.engine.service.caller import Caller, SiteAccess, TokenScope, read_site_access, role_on
from bridge.engine.service.sites.site_settings import Preferences, read_preferences
from bridge.engine.settings import AccessLifetimes

_AUTH: Final = "/userInfo/Auth"


@dataclass(frozen=True, slots=True)
class LaunchGrant:
    """
    The user of a launch (None: the user who signs in), and the permissions of its link.

    `authenticated` links act as that user; `framed` ones may also open inside another page.
    `authority` is the id of the token in `userInfo.Auth`. `auth_ignored`: that token was invalid,
    and the header's token was sufficient.
    """

    account: SiteUser | None
    authenticated: bool
    framed: bool
    auth_ignored: bool = False
    authority: int | None = None


@dataclass(slots=True)
class LaunchUsers:
    """Finds the users of launches of one caller, and caches them for one batch."""

    connection: Connection
    caller: Caller
    now: int
    _sites: dict[str, SiteAccess] = field(default_factory=dict)
    _authorities: dict[tuple[str, str], int | None] = field(default_factory=dict)
    _users: dict[tuple[str, NamedUser, bool], SiteUser] = field(default_factory=dict)
    _joined: set[str] = field(default_factory=set)

    def grant(self, request: LaunchInput) -> LaunchGrant:
        """Return the user and the permissions of a launch; raise if the caller may not launch."""
        site_id = request.identity.site
        role = self.role(site_id)
        authority = self.authority(site_id, request.authority)
        administrator = role is SiteRole.ADMINISTRATOR or authority is not None
        if not administrator:
            if role is None and not request.authority:
                raise EngineError(ErrorCode.FORBIDDEN)
            self.refuse_authority(request.authority)
        self.site_access(site_id).check_location(request.location)
        account = self.account(site_id, request.user, administrator=administrator)
        _refuse_placeholders(request, self.caller, self.site_access(site_id).name, account)
        framed = bool(administrator and request.user and request.user.email and request.user.name)
        ignored = bool(request.authority) and authority is None
        acts = administrator and account is not None
        return LaunchGrant(account, acts, framed, ignored, authority)

    def forget(self) -> None:
        """Drop cached users that a rolled-back savepoint registered."""
        self._users.clear()
        self._joined.clear()

    @property
    def user_count(self) -> int:
        """The number of named or registered users; it grows with every new user."""
        return len(self._users) + len(self._joined)

    def role(self, site_id: str) -> SiteRole | None:
        """Return the caller's role on a site; raise `site_not_found`."""
        return self.site_access(site_id).role

    def site_access(self, site_id: str) -> SiteAccess:
        """Return the caller's access to a site; raise `site_not_found`."""
        if site_id not in self._sites:
            self._sites[site_id] = read_site_access(self.connection, self.caller, site_id)
        return self._sites[site_id]

    def links_orders(self, site_id: str) -> bool:
        """True if the caller may link orders of a site; raise `site_not_found`."""
        return (
            self.caller.permits(TokenScope.WRITE) and self.role(site_id) is SiteRole.ADMINISTRATOR
        )

    def preferences(self, site_id: str) -> Preferences:
        """Return a site's preferences; raise `site_not_found`."""
        return read_preferences(self.site_access(site_id).settings)

    def lifetimes(self, site_id: str, general: AccessLifetimes) -> tuple[int, int]:
        """Return the seconds that a site's links live: those that act as a user, and others."""
        return self.preferences(site_id).lifetimes(general)

    def authority(self, site_id: str, secret: str) -> int | None:
        """Return the id of `userInfo.Auth` if it is a launch token of a site's administrator."""
        if not secret:
            return None
        key = (site_id, secret)
        if key not in self._authorities:
            bearer = authenticate(self.connection, secret, self.now)
            granted = (
                bearer is not None
                and bearer.permits(TokenScope.LAUNCH)
                and role_on(self.connection, bearer, site_id) is SiteRole.ADMINISTRATOR
            )
            self._authorities[key] = bearer.token_id if bearer and granted else None
        return self._authorities[key]

    def refuse_authority(self, secret: str) -> None:
        """Raise if `userInfo.Auth` was sent and gives no authority."""
        if not secret:
            return
        if authenticate(self.connection, secret, self.now) is None:
            raise EngineError(ErrorCode.AUTH_INVALID, pointer=_AUTH)
        detail = "userInfo.Auth is not a launch token of an administrator of the site"
        raise EngineError(ErrorCode.USER_NOT_PERMITTED, detail, pointer=_AUTH)

    def account(
        self, site_id: str, user: NamedUser | None, *, administrator: bool
    ) -> SiteUser | None:
        """Return the named user, or the caller; register the user for administrators."""
        if user is None or not user.email:
            return self._caller_account(site_id)
        if not is_email(user.email):
            detail = "UserEmail is not an e-mail address"
            raise EngineError(ErrorCode.BAD_EMAIL, detail, pointer="/userInfo/UserEmail")
        if canonical_email(user.email) == self.caller.email and not administrator:
            return self._caller_account(site_id)
        key = (site_id, user, administrator)
        if key not in self._users:
            self._users[key] = (
                register(self.connection, site_id, user.email, user.name, self.now)
                if administrator
                else self._member(site_id, user.email)
            )
        return self._users[key]

    def _caller_account(self, site_id: str) -> SiteUser | None:
        """Return the caller. With another token's authority they become a member of the site."""
        caller, site_access = self.caller, self.site_access(site_id)
        if caller.account_id is None:
            return None
        if site_access.role is None and site_id not in self._joined:
            register(self.connection, site_id, caller.email, "", self.now)
            self._joined.add(site_id)
        return SiteUser(caller.account_id, caller.email, site_access.name)

    def _member(self, site_id: str, email: str) -> SiteUser:
        person = find_member(self.connection, site_id, email)
        if person is None:
            raise EngineError(ErrorCode.USER_NOT_PERMITTED, pointer="/userInfo/UserEmail")
        return person


def _refuse_placeholders(
    request: LaunchInput, caller: Caller, name: str, account: SiteUser | None
) -> None:
    """Refuse e-mail addresses and the user's own identity as patient (Authentication 8)."""
    emails = {caller.email} | ({account.email} if account else set())
    names = {name} | ({account.name} if account else set())
    if request.user:
        emails.add(request.user.email)
        names.add(request.user.name)
    identities = {"emails": frozenset(emails - {""}), "names": frozenset(names - {""})}
    for tag in ("PatientMRN", "Accession"):
        if is_placeholder(request.tags[tag], **identities):
            raise EngineError(ErrorCode.PLACEHOLDER_IDENTIFIER, pointer=f"/clinicalInfo/{tag}")
    if looks_like_email(request.patient_name):
        raise EngineError(ErrorCode.PLACEHOLDER_IDENTIFIER, pointer="/clinicalInfo/PatientName")
