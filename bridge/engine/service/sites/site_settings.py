"""
Sites and their settings: locations, time zone, sign delay, preferences, prelim groups, templates.

Preferences (languages, lifetimes and switches) are stored as one JSON object of the site, with the
member names of the API. An absent member has the default of the installation. Images are re-encoded
before they are stored.
"""

# ruff: noqa: N815  # the spelling of the interface reference and of the API

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, ClassVar, NewType
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationError,
)
from sqlalchemy import Connection, delete, insert, select, update

from bridge.contract.errors import ErrorCode
from bridge.engine.documents.errors import BadImage
from bridge.engine.documents.exports.model import PageSize
from bridge.engine.documents.uploads.images import ImageLimits, accept
from bridge.engine.errors import EngineError
from bridge.engine.launch import supported_language
from bridge.engine.records.tables import metadata
from bridge.engine.rules.text.document import restore, with_defaults
from bridge.engine.rules.text.plain_text import outline
from bridge.engine.rules.text.signing_checks import Behaviour, SigningCheck
from bridge.engine.service.stored_texts import require_room
from bridge.engine.settings import AccessLifetimes

SITES = metadata.tables["engine_site"]
GROUPS = metadata.tables["engine_prelim_group"]
TEMPLATES = metadata.tables["engine_template"]

TIME_ZONES = frozenset(available_timezones() - {"Factory", "localtime"})
"""The IANA time zones; the two excluded names depend on the machine."""

MAX_SITE_ID = 255
"""Maximum length in bytes of UTF-8."""

MAX_SIGN_DELAY = 86_400
"""Maximum in seconds; the recommended delay is 60."""


_DAY = 24 * 3600


def _known_language(code: str) -> str:
    known = supported_language(code)
    if known is None:
        message = "is not one of the 17 language codes"
        raise ValueError(message)
    return known


Language = Annotated[str, AfterValidator(_known_language)]


class SignChecks(BaseModel):
    """The behaviour of each check before signing in the application."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    emptyField: Behaviour = Behaviour.ALERT
    openBracket: Behaviour = Behaviour.ALERT
    laterality: Behaviour = Behaviour.ALERT
    sexMismatch: Behaviour = Behaviour.ALERT
    suggestion: Behaviour = Behaviour.ALERT

    def behaviour(self, check: SigningCheck) -> Behaviour:
        chosen: Behaviour = getattr(self, check.value)
        return chosen


class Preferences(BaseModel):
    """A site's preferences. Lifetimes are in seconds; None is the installation's default."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    AppLanguage: Language | None = None
    SpeechLanguage: Language | None = None
    AutoComparePrior: StrictBool | None = None
    signChecks: SignChecks = SignChecks()
    confirmSigning: StrictBool = True
    refuseMergedIdentifiers: StrictBool = False
    browserInit: StrictBool = True
    syncLaunchInFrame: StrictBool = False
    webViewObjects: StrictBool = False
    frameLinkSeconds: Annotated[StrictInt, Field(ge=60, le=7 * _DAY)] | None = None
    loginLinkSeconds: Annotated[StrictInt, Field(ge=60, le=366 * _DAY)] | None = None
    pageSize: PageSize = PageSize.A4
    shareSeconds: Annotated[StrictInt, Field(ge=60, le=366 * _DAY)] = 30 * _DAY
    sessionIdleSeconds: Annotated[StrictInt, Field(ge=300, le=480 * 60)] | None = None

    def stored(self) -> dict[str, Any]:
        """Return the members that differ from the defaults, as they are stored."""
        return self.model_dump(exclude_defaults=True)

    def lifetimes(self, general: AccessLifetimes) -> tuple[int, int]:
        """Return the seconds that a site's links live: those that act as a user, and others."""
        return (
            self.frameLinkSeconds or general.frame_link,
            self.loginLinkSeconds or general.login_link,
        )


def read_preferences(stored: Mapping[str, Any] | None) -> Preferences:
    """Parse stored preferences; ignore members of other releases."""
    known = {k: v for k, v in (stored or {}).items() if k in Preferences.model_fields}
    return Preferences(**known)


def preferences_of(connection: Connection, site_id: str) -> Preferences:
    """Return a site's preferences; the defaults for an unknown site."""
    query = select(SITES.c.settings).where(SITES.c.site_id == site_id)
    return read_preferences(connection.execute(query).scalar_one_or_none())


@dataclass(frozen=True, slots=True)
class SiteSettings:
    """A site as administrators see it; `sign_delay` is in seconds, 0 switches it off."""

    site_id: str
    name: str = ""
    time_zone: str = "UTC"
    sign_delay: int = 0
    locations: tuple[str, ...] = ()
    host_origins: tuple[str, ...] = ()
    settings: Mapping[str, Any] | None = None
    header_img_type: str | None = None
    header_img: str | None = None
    footer_img: str | None = None

    def __post_init__(self) -> None:
        """Normalize origins as browsers write them, so that they can be compared as text."""
        origins = dict.fromkeys(canonical_origin(origin) for origin in self.host_origins)
        object.__setattr__(self, "host_origins", tuple(origins))


def add_site(connection: Connection, site: SiteSettings, now: int) -> None:
    """Create a site; raise `site_exists` or `EngineError`."""
    check_site(site)
    if "/" in site.site_id:  # the URLs of the administrative API could not contain it
        raise EngineError(ErrorCode.BAD_SITE, "the SiteID contains a slash", pointer="/SiteID")
    known = select(SITES.c.site_id).where(SITES.c.site_id == site.site_id)
    if connection.execute(known).first() is not None:
        raise EngineError(ErrorCode.SITE_EXISTS)
    connection.execute(insert(SITES).values(**_values(site), site_id=site.site_id, created_at=now))


def update_site(connection: Connection, site: SiteSettings) -> None:
    """Replace a site's settings; raise `EngineError`."""
    check_site(site)
    statement = update(SITES).where(SITES.c.site_id == site.site_id).values(**_values(site))
    if connection.execute(statement).rowcount == 0:
        raise EngineError(ErrorCode.SITE_NOT_FOUND)


def get_site(connection: Connection, site_id: str, *, lock: bool = False) -> SiteSettings:
    """Return a site's settings, locked if `lock`; raise `site_not_found`."""
    query = select(SITES).where(SITES.c.site_id == site_id)
    row = connection.execute(query.with_for_update(key_share=True) if lock else query).first()
    if row is None:
        raise EngineError(ErrorCode.SITE_NOT_FOUND)
    return _site(row)


def lock_site(connection: Connection, site_id: str) -> None:
    """Keep other transactions from changing the site's settings; its reports are not locked."""
    # FOR NO KEY UPDATE: rows that refer to the site can be inserted during the lock.
    query = select(SITES.c.site_id).where(SITES.c.site_id == site_id)
    connection.execute(query.with_for_update(key_share=True))


def list_sites(connection: Connection, only: Sequence[str] | None) -> list[SiteSettings]:
    """Return sites by their id; `only` None means all."""
    query = select(SITES).order_by(SITES.c.site_id)
    if only is not None:
        query = query.where(SITES.c.site_id.in_(only))
    return [_site(row) for row in connection.execute(query)]


def check_site(site: SiteSettings) -> None:
    """Raise `EngineError` with the place of an invalid setting."""
    if not site.site_id.strip() or not site.site_id.isprintable():
        raise EngineError(
            ErrorCode.BAD_SITE, "the SiteID is empty or has control characters", pointer="/SiteID"
        )
    if len(site.site_id.encode()) > MAX_SITE_ID:
        raise EngineError(
            ErrorCode.BAD_SITE, f"the SiteID is longer than {MAX_SITE_ID} bytes", pointer="/SiteID"
        )
    if site.time_zone not in TIME_ZONES:
        raise EngineError(
            ErrorCode.BAD_SITE, "timeZone is not an IANA time zone", pointer="/timeZone"
        )
    if not 0 <= site.sign_delay <= MAX_SIGN_DELAY:
        raise EngineError(
            ErrorCode.BAD_SITE,
            f"signDelay must be 0 to {MAX_SIGN_DELAY} seconds",
            pointer="/signDelay",
        )
    for index, origin in enumerate(site.host_origins):
        if not is_origin(origin):
            detail = "a host origin must be scheme://host[:port], without path and wildcard"
            raise EngineError(ErrorCode.BAD_SITE, detail, pointer=f"/hostOrigins/{index}")


def canonical_origin(text: str) -> str:
    """Return an origin as browsers write it: lower case, without the default port."""
    text = text.lower()
    default = {"http": ":80", "https": ":443"}.get(text.partition(":")[0], "")
    return text.removesuffix(default) if default else text


def is_origin(text: str) -> bool:
    """True if `text` is a web origin that can safely be part of a policy header."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    plain = all(character.isalnum() or character in "-.:" for character in host) and host.isascii()
    shown = f"[{host}]" if ":" in host else host
    return (
        bool(host)
        and plain
        and parts.scheme in ("http", "https")
        and text.lower() == f"{parts.scheme}://{shown}" + (f":{port}" if port else "")
    )


def set_prelim_group(
    connection: Connection,
    site_id: str,
    name: str,
    tags: Sequence[str],
    members: Sequence[str] = (),
    reviewers: Sequence[str] | None = None,
) -> None:
    connection.execute(delete(GROUPS).where(GROUPS.c.site_id == site_id, GROUPS.c.name == name))
    connection.execute(
        insert(GROUPS).values(
            site_id=site_id,
            name=name,
            tags=list(tags),
            members=list(members),
            reviewers=None if reviewers is None else list(reviewers),
            configured=True,
        )
    )


def delete_prelim_group(connection: Connection, site_id: str, name: str) -> None:
    """Delete a prelim group of a site; raise `NotFound`. Its reads stay."""
    here = (GROUPS.c.site_id == site_id, GROUPS.c.name == name)
    if connection.execute(delete(GROUPS).where(*here)).rowcount == 0:
        raise EngineError(ErrorCode.NOT_FOUND, "the site has no such prelim group")


def list_prelim_groups(connection: Connection, site_id: str) -> list[dict[str, Any]]:
    rows = connection.execute(
        select(GROUPS).where(GROUPS.c.site_id == site_id).order_by(GROUPS.c.name)
    )
    return [
        {
            "name": row.name,
            "tags": list(row.tags),
            "members": list(row.members),
            "reviewers": row.reviewers,
            "configured": bool(row.configured),
        }
        for row in rows
    ]


def set_template(
    connection: Connection, site_id: str, number: int, name: str, document: Any, now: int
) -> None:
    """Create or replace a numbered template; the document must have been checked."""
    others = (TEMPLATES.c.site_id == site_id, TEMPLATES.c.number != number)
    require_room(connection, TEMPLATES.c.document, *others)
    here = (TEMPLATES.c.site_id == site_id, TEMPLATES.c.number == number)
    values = {"name": name, "document": with_defaults(document), "settings": {}, "updated_at": now}
    if connection.execute(update(TEMPLATES).where(*here).values(**values)).rowcount == 0:
        connection.execute(insert(TEMPLATES).values(site_id=site_id, number=number, **values))


def delete_template(connection: Connection, site_id: str, number: int) -> None:
    """Delete a numbered template; raise `NotFound`."""
    here = (TEMPLATES.c.site_id == site_id, TEMPLATES.c.number == number)
    if connection.execute(delete(TEMPLATES).where(*here)).rowcount == 0:
        raise EngineError(ErrorCode.NOT_FOUND, "the site has no such template")


def list_templates(connection: Connection, site_id: str) -> list[dict[str, Any]]:
    rows = connection.execute(
        select(TEMPLATES).where(TEMPLATES.c.site_id == site_id).order_by(TEMPLATES.c.number)
    )
    return [
        {
            "number": row.number,
            "name": row.name,
            "document": document,
            "text": outline(restore(document)),
        }
        for row in rows
        for document in [with_defaults(row.document)]  # an earlier release stored none
    ]


def _values(site: SiteSettings) -> dict[str, Any]:
    values = asdict(site)
    del values["site_id"]
    for name in ("locations", "host_origins"):
        values[name] = list(values[name])
    values["settings"] = dict(site.settings or {})
    return values


def _site(row: Any) -> SiteSettings:
    return SiteSettings(
        row.site_id,
        row.name,
        row.time_zone,
        row.sign_delay,
        tuple(row.locations),
        tuple(row.host_origins),
        row.settings,
        row.header_img_type,
        row.header_img,
        row.footer_img,
    )


IMAGE_LIMITS = ImageLimits(max_bytes=2 * 2**20, max_pixels=4_000_000)
"""Limits of header, footer and signature images, which every export contains."""

Changes = NewType("Changes", Mapping[str, Any])
"""Changed members by their names in the API, with re-encoded images."""

_MEMBERS = {
    "name": "name",
    "timeZone": "time_zone",
    "signDelay": "sign_delay",
    "locations": "locations",
    "hostOrigins": "host_origins",
}


def site_json(site: SiteSettings) -> dict[str, Any]:
    return {
        "SiteID": site.site_id,
        "name": site.name,
        "timeZone": site.time_zone,
        "signDelay": site.sign_delay,
        "locations": list(site.locations),
        "hostOrigins": list(site.host_origins),
        "settings": read_preferences(site.settings).model_dump(),
        "headerImgType": site.header_img_type,
        "headerImg": site.header_img,
        "footerImg": site.footer_img,
    }


def prepare(changes: Mapping[str, Any]) -> Changes:
    """
    Re-encode the images of changes; raise `EngineError` with the place.

    Worker processes do it: call it in a thread, before the transaction.
    """
    values = dict(changes)
    if "headerImg" in changes:
        kind, data = header_image(changes.get("headerImgType"), changes["headerImg"])
        values |= {"headerImgType": kind, "headerImg": data}
    if "footerImg" in changes:
        values["footerImg"] = image_uri(changes["footerImg"], "/footerImg")
    return Changes(values)


def apply_changes(site: SiteSettings, changes: Changes) -> SiteSettings:
    """
    Return the site with the changed members; raise `EngineError` with the place.

    `settings` changes only the given preferences. Null restores the default, and removes an image.
    """
    defaults = SiteSettings(site.site_id, name=site.site_id)
    values: dict[str, Any] = {}
    for name, attribute in _MEMBERS.items():
        if name in changes:
            given = changes[name]
            value = getattr(defaults, attribute) if given is None else given
            values[attribute] = tuple(value) if isinstance(value, list) else value
    if "settings" in changes:
        values["settings"] = _preferences(site, changes["settings"] or {})
    if "headerImg" in changes:
        values["header_img_type"] = changes["headerImgType"]
        values["header_img"] = changes["headerImg"]
    if "footerImg" in changes:
        values["footer_img"] = changes["footerImg"]
    return replace(site, **values)


def audit_state(site: SiteSettings) -> dict[str, Any]:
    """Return a site's members for an audit event; images as hashes."""
    members = site_json(site)
    for name in ("headerImg", "footerImg"):
        image = members[name]
        members[name] = image and f"sha256 {hashlib.sha256(image.encode()).hexdigest()[:16]}"
    return members


def _preferences(site: SiteSettings, changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = read_preferences(site.settings).stored() | dict(changes)
    return check_preferences({name: value for name, value in merged.items() if value is not None})


def check_preferences(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a site's preferences as they are stored; raise `EngineError` with the place."""
    try:
        return Preferences(**given).stored()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = "/".join(str(part) for part in first["loc"])
        raise EngineError(
            ErrorCode.BAD_SITE, f"settings: {first['msg']}", pointer=f"/settings/{place}"
        ) from None


def header_image(kind: str | None, data: str | None) -> tuple[str | None, str | None]:
    """Return the re-encoded header image as media type and base64; (None, None) for none."""
    if not data:
        return None, None
    uri = data if data.startswith("data:") else f"data:{kind or 'image/png'};base64,{data}"
    encoded = image_uri(uri, "/headerImg") or ""
    head, _, body = encoded.partition(";base64,")
    return head.removeprefix("data:"), body


def image_uri(uri: str | None, place: str) -> str | None:
    """Return the re-encoded image as a data URI, None for none; raise `EngineError`."""
    if not uri:
        return None
    head, mark, body = uri.partition(";base64,")
    if not head.startswith("data:") or not mark:
        raise EngineError(
            ErrorCode.BAD_SITE,
            "an image must be a data URI: data:image/png;base64,…",
            pointer=place,
        )
    try:
        data = base64.b64decode(body, validate=True)
        image = accept(data, head.removeprefix("data:"), IMAGE_LIMITS)
    except ValueError:  # not base64, or not even ASCII
        raise EngineError(ErrorCode.BAD_SITE, "the image is not base64", pointer=place) from None
    except BadImage as error:
        raise EngineError(ErrorCode.BAD_SITE, error.detail, pointer=place) from None
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode('ascii')}"
