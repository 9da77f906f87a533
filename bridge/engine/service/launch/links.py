"""
Links: issue, find, revoke, purge, and move to a newer key.

The database contains the hash of a handle, not the handle, and the payload only sealed.
`link_visits` opens the links of reports.

An init link pre-warms an embedded session without a report or patient (interface reference, init).
Only a site administrator's token can issue one. Loading the link repeatedly within its five minutes
gives the same user; a launch of another user replaces the session.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_core import from_json, to_json
from sqlalchemy import Connection, delete, exists, func, insert, or_, select, update

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.launch import LaunchWarning, NamedUser, first_language
from bridge.engine.links import (
    Binding,
    KeyRing,
    LinkError,
    Purpose,
    RandomBytes,
    Sealed,
    handle_hash,
    is_handle,
    new_handle,
)
from bridge.engine.records.tables import metadata
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.service.accounts.sessions import (
    BrowserSession,
    NewSession,
    add_details,
    begin_session,
)
from bridge.engine.service.accounts.users import settings_of
from bridge.engine.service.caller import Caller
from bridge.engine.service.launch.launch_users import LaunchUsers
from bridge.engine.service.work import Work
from bridge.engine.settings import AccessLifetimes

LINKS = metadata.tables["engine_link"]
TOKENS = metadata.tables["engine_access_token"]
SESSIONS = metadata.tables["engine_browser_session"]
ACCOUNTS = metadata.tables["engine_account"]
MEMBERSHIPS = metadata.tables["engine_membership"]
_INSERT: Final = insert(LINKS)

KEPT_AFTER_EXPIRY_MS = 7 * 24 * 3600 * 1000
"""How long an expired link is stored, so that its bearer learns that it has expired."""


@dataclass(frozen=True, slots=True)
class NewLink:
    """A link to be issued; `payload` is sealed, `target` is a hash of its order."""

    purpose: Purpose
    site_id: str
    expires_at: int
    payload: Mapping[str, Any] = field(repr=False)
    target: str | None = None
    account_id: int | None = None
    token_id: int | None = None
    framed: bool = False
    authority_token_id: int | None = None
    """The token in `userInfo.Auth`, if the link has its authority."""


@dataclass(frozen=True, slots=True)
class FoundLink:
    """A valid link with its payload."""

    pk: int
    site_id: str
    payload: Mapping[str, Any] = field(repr=False)
    expires_at: int = 0
    account_id: int | None = None
    token_id: int | None = None
    framed: bool = False
    opened: bool = False  # whether an earlier request has opened it


@dataclass(frozen=True, slots=True)
class LinkKeys:
    """The key ring and the source of randomness for links."""

    keys: KeyRing
    random_bytes: RandomBytes


def issue(
    connection: Connection, link_keys: LinkKeys, links: Sequence[NewLink], now: int
) -> list[str]:
    """Store links and return their handles, which are stored nowhere."""
    handles = [new_handle(link_keys.random_bytes) for _ in links]
    if links:
        rows = [_row(link_keys, *pair, now) for pair in zip(links, handles, strict=True)]
        connection.execute(_INSERT, rows)
    return handles


def _row(link_keys: LinkKeys, link: NewLink, handle: str, now: int) -> dict[str, Any]:
    hashed = handle_hash(handle)
    payload = to_json(link.payload)
    sealed = link_keys.keys.seal(payload, Binding(hashed, link.site_id, link.purpose))
    return {
        "handle_hash": hashed,
        "purpose": link.purpose.value,
        "site_id": link.site_id,
        "key_id": sealed.key_id,
        "sealed": sealed.data,
        "target": link.target,
        "account_id": link.account_id,
        "token_id": link.token_id,
        "authority_token_id": link.authority_token_id,
        "framed": link.framed,
        "created_at": now,
        "expires_at": link.expires_at,
    }


def find(
    connection: Connection, link_keys: LinkKeys, handle: str, purpose: Purpose, now: int
) -> FoundLink:
    """Return a valid link of this purpose; raise `link_not_found` or `link_expired`."""
    if not is_handle(handle):
        raise EngineError(ErrorCode.LINK_NOT_FOUND)
    return find_hashed(connection, link_keys, handle_hash(handle), purpose, now)


def find_hashed(
    connection: Connection, link_keys: LinkKeys, hashed: str, purpose: Purpose, now: int
) -> FoundLink:
    """Return a valid link by the hash of its handle; raise `link_not_found` or `link_expired`."""
    query = select(LINKS).where(LINKS.c.handle_hash == hashed, LINKS.c.purpose == purpose.value)
    row = connection.execute(query).first()
    if row is None:
        raise EngineError(ErrorCode.LINK_NOT_FOUND)
    if row.revoked_at is not None and not _revoked_with_token(connection, row):
        raise EngineError(ErrorCode.REPORT_DELETED)
    if row.expires_at <= now or row.revoked_at is not None or not _is_member(connection, row):
        raise EngineError(ErrorCode.LINK_EXPIRED)
    binding = Binding(hashed, row.site_id, purpose)
    try:
        payload = from_json(link_keys.keys.open(Sealed(row.key_id, row.sealed), binding))
    except LinkError:
        raise EngineError(ErrorCode.LINK_NOT_FOUND) from None
    return FoundLink(
        row.pk,
        row.site_id,
        payload,
        row.expires_at,
        row.account_id,
        row.token_id,
        bool(row.framed),
        row.opened_at is not None,
    )


def _is_member(connection: Connection, row: Any) -> bool:
    """True if the link's user is an enabled member of its site; true without a user."""
    if row.account_id is None:
        return True
    query = (
        select(ACCOUNTS.c.id)
        .join_from(ACCOUNTS, MEMBERSHIPS, MEMBERSHIPS.c.account_id == ACCOUNTS.c.id)
        .where(
            ACCOUNTS.c.id == row.account_id,
            ACCOUNTS.c.disabled_at.is_(None),
            MEMBERSHIPS.c.site_id == row.site_id,
            MEMBERSHIPS.c.left_at.is_(None),
        )
    )
    return connection.execute(query).first() is not None


def _revoked_with_token(connection: Connection, row: Any) -> bool:
    query = select(TOKENS.c.id).where(
        TOKENS.c.id.in_([row.token_id, row.authority_token_id]),
        TOKENS.c.revoked_at == row.revoked_at,
    )
    return connection.execute(query).first() is not None


def lock_link(connection: Connection, link: FoundLink) -> None:
    """
    Lock a link until the commit; raise `report_deleted` if it was revoked.

    Call it before creating the report of a link: a concurrent deletion revokes the link.
    """
    query = select(LINKS.c.revoked_at).where(LINKS.c.pk == link.pk).with_for_update()
    row = connection.execute(query).first()
    if row is None or row.revoked_at is not None:
        raise EngineError(ErrorCode.REPORT_DELETED)


def mark_opened(connection: Connection, link: FoundLink, now: int) -> None:
    """Record the first opening of a link."""
    connection.execute(
        update(LINKS)
        .where(LINKS.c.pk == link.pk, LINKS.c.opened_at.is_(None))
        .values(opened_at=now)
    )


def purge(connection: Connection, now: int, limit: int = 1000) -> int:
    """Delete links that expired more than seven days ago, at most `limit`; return their number."""
    return purge_before(connection, now - KEPT_AFTER_EXPIRY_MS, limit)


def purge_before(connection: Connection, moment: int, limit: int = 1000) -> int:
    """Delete links that expired before a moment, at most `limit`; return their number."""
    used = or_(SESSIONS.c.link_pk == LINKS.c.pk, SESSIONS.c.identity_link_pk == LINKS.c.pk)
    old = (
        select(LINKS.c.pk)
        .where(LINKS.c.expires_at < moment, ~exists().where(used))
        .order_by(LINKS.c.expires_at)
        .limit(limit)
    )
    keys = list(connection.execute(old).scalars())
    if keys:
        connection.execute(delete(LINKS).where(LINKS.c.pk.in_(keys)))
    return len(keys)


@dataclass(frozen=True, slots=True)
class ResealStep:
    """
    The result of resealing a batch of links.

    `unreadable` links are sealed under keys that are no longer in the ring; `last` is the position
    to continue from, None at the end.
    """

    moved: int
    unreadable: int
    last: int | None


def count_older(connection: Connection, link_keys: LinkKeys, now: int) -> int:
    """Return the number of valid links with an older key than the newest of the ring."""
    older = (LINKS.c.key_id != link_keys.keys.newest) & (LINKS.c.expires_at > now)
    return int(
        connection.execute(select(func.count()).select_from(LINKS).where(older)).scalar_one()
    )


def reseal(
    connection: Connection, link_keys: LinkKeys, now: int, after: int = 0, limit: int = 500
) -> ResealStep:
    """Move the next valid links with an older key to the newest key of the ring."""
    rows = connection.execute(
        select(LINKS)
        .where(
            LINKS.c.key_id != link_keys.keys.newest, LINKS.c.expires_at > now, LINKS.c.pk > after
        )
        .order_by(LINKS.c.pk)
        .limit(limit)
    ).all()
    moved = sum(_reseal_one(connection, link_keys, row) for row in rows)
    return ResealStep(moved, len(rows) - moved, rows[-1].pk if rows else None)


def _reseal_one(connection: Connection, link_keys: LinkKeys, row: Any) -> bool:
    binding = Binding(row.handle_hash, row.site_id, Purpose(row.purpose))
    try:
        sealed = link_keys.keys.reseal(Sealed(row.key_id, row.sealed), binding)
    except LinkError:
        return False
    if sealed is not None:
        values = {"key_id": sealed.key_id, "sealed": sealed.data}
        connection.execute(update(LINKS).where(LINKS.c.pk == row.pk).values(**values))
    return True


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
    secret: str
    site_id: str
    account_id: int
    language: str
    theme: str


def issue_init_link(
    work: Work, caller: Caller, link_keys: LinkKeys, life: AccessLifetimes, request: InitRequest
) -> InitLink:
    """Issue a session link; raise `Forbidden` without a site administrator's token."""
    users = LaunchUsers(work.connection, caller, work.now)
    administrator = users.role(request.site_id) is SiteRole.ADMINISTRATOR
    authority = users.authority(request.site_id, request.authority)
    if not administrator and authority is None:
        users.refuse_authority(request.authority)
        raise EngineError(ErrorCode.FORBIDDEN, "neither token is a site administrator's")
    users.site_access(request.site_id).check_location(request.location)
    account = users.account(request.site_id, request.user, administrator=True)
    if account is None:
        detail = "UserEmail is required: it names the user of the session"
        raise EngineError(ErrorCode.MISSING_USER, detail, pointer="/userInfo/UserEmail")
    user_settings = settings_of(work.connection, request.site_id, account.id)
    site = users.preferences(request.site_id)
    app = first_language(
        [request.app_language, _text(user_settings.get("AppLanguage")), site.AppLanguage]
    )
    spoken = _text(user_settings.get("SpeechLanguage"))
    speech = first_language([request.speech_language, spoken, site.SpeechLanguage])
    expires_at = work.now + life.session_link * 1000
    link = NewLink(
        Purpose.INIT,
        request.site_id,
        expires_at,
        {"app_language": app, "speech_language": speech, "location": request.location},
        account_id=account.id,
        token_id=caller.token_id,
        framed=True,
        authority_token_id=authority,
    )
    handle = issue(work.connection, link_keys, [link], work.now)[0]
    warnings = (LaunchWarning.AUTH_IGNORED,) if request.authority and authority is None else ()
    return InitLink(handle, expires_at, app, speech, warnings)


def begin_prewarmed(
    work: Work,
    link_keys: LinkKeys,
    life: AccessLifetimes,
    handle: str,
    present: BrowserSession | None,
) -> PrewarmedSession:
    """
    Begin the session of a link; raise `link_not_found` or `link_expired`.

    A browser that already has this session keeps it: `secret` is then empty.
    """
    link = find(work.connection, link_keys, handle, Purpose.INIT, work.now)
    account_id = link.account_id or 0
    language = str(link.payload["app_language"])
    theme = _text(settings_of(work.connection, link.site_id, account_id).get("theme")) or "dark"
    details = {"prewarmed": {name: link.payload[name] for name in _LANGUAGES}}
    if present is not None and (present.site_id, present.account_id) == (link.site_id, account_id):
        add_details(work.connection, present, details)
        return PrewarmedSession("", link.site_id, account_id, language, theme)
    new = NewSession(link.site_id, account_id, framed=True, link_pk=link.pk, details=details)
    secret = begin_session(work.connection, link_keys.random_bytes, new, work.now, life)
    mark_opened(work.connection, link, work.now)
    return PrewarmedSession(secret, link.site_id, account_id, language, theme)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
