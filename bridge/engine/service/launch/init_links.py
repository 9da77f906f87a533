"""
Init links: pre-warm an embedded session without a report or patient (interface document, init).

Only a site administrator's token can issue one. Loading the link repeatedly within its five minutes
gives the same user; a launch of another user replaces the session.
"""

from dataclasses import dataclass, field

from bridge.engine.errors import BadLaunch, Forbidden
from bridge.engine.launch import LaunchWarning, NamedUser, first_language
from bridge.engine.links import Purpose
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts.sessions import (
    BrowserSession,
    NewSession,
    add_details,
    begin_session,
)
from bridge.engine.service.accounts.users import settings_of
from bridge.engine.service.caller import Caller
from bridge.engine.service.launch import links
from bridge.engine.service.launch.launch_users import LaunchUsers
from bridge.engine.service.work import Work
from bridge.engine.settings import AccessLifetimes

_LANGUAGES = ("app_language", "speech_language")


@dataclass(frozen=True, slots=True)
class InitRequest:
    """User, site and languages of a session; None: the language of the user or the site."""

    site_id: str
    user: NamedUser = field(repr=False)
    location: str = ""
    authority: str = field(default="", repr=False)
    app_language: str | None = None
    speech_language: str | None = None


@dataclass(frozen=True, slots=True)
class InitLink:
    """A session link before it has a URL; `expires_at` in milliseconds."""

    handle: str
    expires_at: int
    app_language: str
    speech_language: str
    warnings: tuple[LaunchWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class PrewarmedSession:
    """A session without a report."""

    secret: str
    site_id: str
    account_id: int
    language: str
    theme: str


def issue_init_link(
    work: Work,
    caller: Caller,
    link_keys: links.LinkKeys,
    life: AccessLifetimes,
    request: InitRequest,
) -> InitLink:
    """Issue a session link; raise `Forbidden` without a site administrator's token."""
    users = LaunchUsers(work.connection, caller, work.now)
    administrator = users.role(request.site_id) is SiteRole.ADMINISTRATOR
    granted = users.has_authority(request.site_id, request.authority)
    if not administrator and not granted:
        users.refuse_authority(request.authority)
        raise Forbidden("neither token is a site administrator's")
    users.site_access(request.site_id).check_location(request.location)
    account = users.account(request.site_id, request.user, administrator=True)
    if account is None:
        detail = "UserEmail is required: it names the user of the session"
        raise BadLaunch("missing_user", detail, pointer="/userInfo/UserEmail")
    own = settings_of(work.connection, request.site_id, account.id)
    site = users.preferences(request.site_id)
    app = first_language([request.app_language, _text(own.get("AppLanguage")), site.AppLanguage])
    spoken = _text(own.get("SpeechLanguage"))
    speech = first_language([request.speech_language, spoken, site.SpeechLanguage])
    expires_at = work.now + life.session_link * 1000
    link = links.NewLink(
        Purpose.INIT,
        request.site_id,
        expires_at,
        {"app_language": app, "speech_language": speech, "location": request.location},
        account_id=account.id,
        token_id=caller.token_id,
        framed=True,
    )
    handle = links.issue(work.connection, link_keys, [link], work.now)[0]
    warnings = (LaunchWarning.AUTH_IGNORED,) if request.authority and not granted else ()
    return InitLink(handle, expires_at, app, speech, warnings)


def begin_prewarmed(
    work: Work,
    link_keys: links.LinkKeys,
    life: AccessLifetimes,
    handle: str,
    present: BrowserSession | None,
) -> PrewarmedSession:
    """
    Begin the session of a link; raise `LinkGone` or `LinkExpired`.

    A browser that already has this session keeps it: `secret` is then empty.
    """
    link = links.find(work.connection, link_keys, handle, Purpose.INIT, work.now)
    account_id = link.account_id or 0
    language = str(link.payload["app_language"])
    theme = _text(settings_of(work.connection, link.site_id, account_id).get("theme")) or "dark"
    details = {"prewarmed": {name: link.payload[name] for name in _LANGUAGES}}
    if present is not None and (present.site_id, present.account_id) == (link.site_id, account_id):
        add_details(work.connection, present, details)
        return PrewarmedSession("", link.site_id, account_id, language, theme)
    new = NewSession(link.site_id, account_id, framed=True, link_pk=link.pk, details=details)
    secret = begin_session(work.connection, link_keys.random_bytes, new, work.now, life)
    links.mark_opened(work.connection, link, work.now)
    return PrewarmedSession(secret, link.site_id, account_id, language, theme)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
