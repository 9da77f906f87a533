"""For whom a launch is, and on whose authority (interface document, Authentication 3 to 6).

Registers users that an administrator names; nobody else can bring strangers to a site.
"""

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection

from bridge.engine.errors import Forbidden, RuleBroken
from bridge.engine.launch.errors import BadAuthority, BadLaunch, NoAuthority
from bridge.engine.launch.request import LaunchRequest, NamedUser
from bridge.engine.rules.identity import is_placeholder, looks_like_email
from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts.tokens import authenticate
from bridge.engine.service.accounts.users import (
    SiteUser,
    canonical_email,
    find_member,
    is_email,
    register,
)
from bridge.engine.service.caller import (
    Caller,
    SiteAccess,
    TokenScope,
    read_site_access,
    role_on,
)
from bridge.engine.service.sites.preferences import Preferences, read_preferences
from bridge.engine.settings import Lifetimes

_AUTH: Final = "/userInfo/Auth"


@dataclass(frozen=True, slots=True)
class LaunchGrant:
    """
    The user a launch is for (None: whoever signs in), and what its link may do.

    `authenticated` links act as that user; `framed` ones also inside another page. `auth_ignored`:
    the request brought a useless `userInfo.Auth`, and the header's token was enough.
    """

    account: SiteUser | None
    authenticated: bool
    framed: bool
    auth_ignored: bool = False


@dataclass(slots=True)
class LaunchUsers:
    """Finds the users of launches by one caller; remembers them for the length of a batch."""

    connection: Connection
    caller: Caller
    now: int
    _sites: dict[str, SiteAccess] = field(default_factory=dict)
    _authorities: dict[tuple[str, str], bool] = field(default_factory=dict)
    _users: dict[tuple[str, NamedUser, bool], SiteUser] = field(default_factory=dict)
    _joined: set[str] = field(default_factory=set)

    def launcher(self, request: LaunchRequest) -> LaunchGrant:
        """Return for whom a request launches; raise when it may not."""
        site_id = request.identity.site_id
        role = self.role(site_id)
        lent = self.has_authority(site_id, request.authority)
        administrator = role is SiteRole.ADMINISTRATOR or lent
        if not administrator:
            if role is None and not request.authority:
                raise Forbidden
            self.refuse_authority(request.authority)
        self.site_access(site_id).check_location(request.location)
        account = self.account(site_id, request.user, administrator=administrator)
        _refuse_placeholders(request, self.caller, self.site_access(site_id).name, account)
        framed = bool(administrator and request.user and request.user.email and request.user.name)
        ignored = bool(request.authority) and not lent
        return LaunchGrant(account, administrator and account is not None, framed, ignored)

    def forget(self) -> None:
        """Forget users that were registered in a part of the transaction that was undone."""
        self._users.clear()
        self._joined.clear()

    @property
    def met(self) -> int:
        """How many users launches have named or registered, at least all that are new."""
        return len(self._users) + len(self._joined)

    def role(self, site_id: str) -> SiteRole | None:
        """Return the caller's role on a site; raise `SiteNotFound`."""
        return self.site_access(site_id).role

    def site_access(self, site_id: str) -> SiteAccess:
        """Return the caller's standing on a site; raise `SiteNotFound`."""
        if site_id not in self._sites:
            self._sites[site_id] = read_site_access(self.connection, self.caller, site_id)
        return self._sites[site_id]

    def links_orders(self, site_id: str) -> bool:
        """Tell whether the caller may link orders of a site; raise `SiteNotFound`."""
        return (
            self.caller.permits(TokenScope.WRITE) and self.role(site_id) is SiteRole.ADMINISTRATOR
        )

    def preferences(self, site_id: str) -> Preferences:
        """Return a site's choices; raise `SiteNotFound`."""
        return read_preferences(self.site_access(site_id).settings)

    def lifetimes(self, site_id: str, general: Lifetimes) -> tuple[int, int]:
        """Return the seconds that a site's links live: those that act as a user, and others."""
        return self.preferences(site_id).lifetimes(general)

    def has_authority(self, site_id: str, secret: str) -> bool:
        """Tell whether `userInfo.Auth` is a token of an administrator of the site, for launches."""
        if not secret:
            return False
        key = (site_id, secret)
        if key not in self._authorities:
            bearer = authenticate(self.connection, secret, self.now)
            self._authorities[key] = (
                bearer is not None
                and bearer.permits(TokenScope.LAUNCH)
                and role_on(self.connection, bearer, site_id) is SiteRole.ADMINISTRATOR
            )
        return self._authorities[key]

    def refuse_authority(self, secret: str) -> None:
        """Raise for a `userInfo.Auth` that lends no authority; nothing for none."""
        if not secret:
            return
        if authenticate(self.connection, secret, self.now) is None:
            raise BadAuthority(pointer=_AUTH)
        detail = "userInfo.Auth is not a launch token of an administrator of the site"
        raise NoAuthority(detail, pointer=_AUTH)

    def account(
        self, site_id: str, user: NamedUser | None, *, administrator: bool
    ) -> SiteUser | None:
        """Return the named user, or the caller; registers for administrators."""
        if user is None or not user.email:
            return self._caller_account(site_id)
        if not is_email(user.email):
            detail = "UserEmail is not an e-mail address"
            raise BadLaunch("bad_email", detail, pointer="/userInfo/UserEmail")
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
        """Return the caller; on another's authority they become a member, too."""
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
            raise NoAuthority(pointer="/userInfo/UserEmail")
        return person


def _refuse_placeholders(
    request: LaunchRequest, caller: Caller, name: str, account: SiteUser | None
) -> None:
    """Interface document, Authentication 8: no e-mail address and no own identity as a patient."""
    emails = {caller.email} | ({account.email} if account else set())
    names = {name} | ({account.name} if account else set())
    if request.user:
        emails.add(request.user.email)
        names.add(request.user.name)
    own = {"emails": frozenset(emails - {""}), "names": frozenset(names - {""})}
    for tag in ("PatientMRN", "Accession"):
        if is_placeholder(request.tags[tag], **own):
            raise RuleBroken(Reason.PLACEHOLDER, pointer=f"/clinicalInfo/{tag}")
    if looks_like_email(request.patient_name):
        raise RuleBroken(Reason.PLACEHOLDER, pointer="/clinicalInfo/PatientName")
