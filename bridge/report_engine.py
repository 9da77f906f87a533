"""
The internal engine as an ASGI application, and the transport to the configured engine.

The engine's endpoints are imported where they are used: they take half of the start of a command,
and most commands do not call them.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from bridge.audit.events import operator
from bridge.engine.documents.errors import PdfUnavailable
from bridge.engine.settings import (
    AccessLifetimes,
    EngineSettings,
    ModelEndpoint,
    RateLimits,
    SingleSignOn,
    SizeLimits,
    WritingAids,
)
from bridge.engine_client.client import AccessTokens, InProcess, over_http
from bridge.errors import BridgeError
from bridge.quotas import FAILURE_SECONDS, Quota
from bridge.store.database import Database
from config import Settings
from config.secret_files import (
    KEY_BYTES,
    WatchedKeys,
    read_link_keys,
    read_secret,
    read_token,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

    from bridge.engine.service.accounts.system_accounts import ConsoleRoles

Clock = Callable[[], int]

_LOOPBACK_OF: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # for calls to a server that listens on all addresses


def engine_settings(settings: Settings) -> EngineSettings:
    """Return the settings of the engine, with its secrets. Raises SettingsError."""
    keys = settings.path(settings.engine.link_keys_file)
    return EngineSettings(
        link_keys=read_link_keys(keys),
        changed_link_keys=WatchedKeys(keys).changed,
        public_url=settings.http.public_url,
        regional_urls=tuple(settings.http.regional_urls),
        trusted_proxies=tuple(settings.http.trusted_proxies),
        service_token=read_token(settings.path(settings.engine.token_file)),
        browser_init=settings.engine.browser_init,
        assistance=_assistance(settings),
        single_sign_on=_single_sign_on(settings),
        passwords=settings.sign_in.passwords,
        second_factor=settings.sign_in.second_factor == "required",
        rates=_rates(settings),
        sizes=SizeLimits(**settings.sizes.model_dump()),
        lifetimes=_lifetimes(settings),
    )


def _lifetimes(settings: Settings) -> AccessLifetimes:
    seconds = {name: int(value) for name, value in settings.lifetimes.model_dump().items()}
    return AccessLifetimes(**seconds)


def _assistance(settings: Settings) -> WritingAids:
    assistance = settings.assistance

    def endpoint(url: str, model: str, key_file: Path | None) -> ModelEndpoint | None:
        key = read_secret(settings.path(key_file)) if key_file else ""
        return ModelEndpoint(url, model, key) if url else None

    return WritingAids(
        endpoint(
            assistance.transcription_url,
            assistance.transcription_model,
            assistance.transcription_key_file,
        ),
        endpoint(assistance.placing_url, assistance.placing_model, assistance.placing_key_file),
        assistance.browser_speech,
    )


def _single_sign_on(settings: Settings) -> SingleSignOn | None:
    oidc = settings.sign_in.oidc
    if oidc is None:
        return None
    secret, ca = oidc.client_secret_file, oidc.ca
    return SingleSignOn(
        oidc.issuer,
        oidc.client_id,
        read_secret(settings.path(secret)) if secret else "",
        oidc.label,
        oidc.scopes,
        oidc.email_claim,
        oidc.verified_only,
        str(settings.path(ca)) if ca else "",
    )


def _rates(settings: Settings) -> RateLimits:
    rates = settings.rates
    return RateLimits(
        reads=Quota(rates.reads),
        launches=Quota(rates.launches),
        exports=Quota(rates.exports),
        failed_authentications=Quota(rates.failed_authentications, FAILURE_SECONDS),
    )


def engine_application(
    settings: Settings,
    database: Database,
    clock: Clock,
    roles: "ConsoleRoles",
) -> "FastAPI":
    """Build the internal engine. The runtime starts its background work."""
    from bridge.engine.http.engine_application import create_application  # noqa: PLC0415  # see above

    return create_application(
        engine_settings(settings),
        database,
        clock=clock,
        roles=roles,
    )


def operator_application(
    settings: Settings, database: Database, clock: Clock, roles: "ConsoleRoles"
) -> "FastAPI":
    """
    Build the internal engine for a command, which calls it in its own process as the operator.

    A command also runs where the secrets of the service are missing: it seals nothing but what
    `rotate-keys` seals again, so its key ring may be a temporary one.
    """
    from bridge.engine.http.engine_application import create_application  # noqa: PLC0415  # see above

    keys = settings.path(settings.engine.link_keys_file)
    engine = EngineSettings(
        link_keys=read_link_keys(keys) if keys.exists() else (("", os.urandom(KEY_BYTES)),),
        public_url=settings.http.public_url,
        passwords=settings.sign_in.passwords,
        lifetimes=_lifetimes(settings),
    )
    return create_application(engine, database, clock=clock, roles=roles, operator=operator())


@dataclass(frozen=True, slots=True)
class PageAssets:
    """The URLs of the files that a page loads, and the elements that load its fonts."""

    script: str
    preloads: tuple[str, ...]
    styles: tuple[str, ...]
    fonts: tuple[str, ...]


def page_assets(app: str) -> PageAssets:
    """Return the files of a web app, which the engine serves; `app` is its source, `src/…`."""
    from bridge.engine.http.html_pages import ASSET_PATH, font_link  # noqa: PLC0415  # see above
    from bridge.engine.http.static_files import entry  # noqa: PLC0415  # see above

    built = entry(app)
    preloads = tuple(f"{ASSET_PATH}{preload}" for preload in built.preloads)
    styles = tuple(f"{ASSET_PATH}{style}" for style in built.styles)
    fonts = tuple(map(font_link, built.fonts))
    return PageAssets(f"{ASSET_PATH}{built.script}", preloads, styles, fonts)


class PdfWriterMissing(BridgeError):
    """This machine cannot write a PDF."""


def set_pages(template: bytes, data: Mapping[str, Any]) -> bytes:
    """
    Return a PDF that the engine's writer sets from a template, which reads `data.json`.

    `data` gets the members `fonts` and `mono`. Raises PdfWriterMissing.
    """
    from bridge.engine.documents.exports import pdf  # noqa: PLC0415  # see above

    fonts = [pdf.LATIN, f"Noto Sans CJK {pdf.FACES['ja']}"]
    known = {**data, "fonts": fonts, "mono": [pdf.MONOSPACED, fonts[1]]}
    content = json.dumps(known, ensure_ascii=False).encode()
    try:
        return pdf.set_pages({"main": template, "data.json": content})
    except PdfUnavailable as error:
        raise PdfWriterMissing(str(error)) from None


def engine_tokens(settings: Settings) -> AccessTokens:
    """Read the access tokens for calls to the engine. Raises SettingsError."""
    by_site = {
        site: read_token(settings.path(file)) for site, file in settings.engine.tokens.items()
    }
    default_file = settings.path(settings.engine.token_file)
    default = "" if by_site and not default_file.exists() else read_token(default_file)
    return AccessTokens(default, by_site)


def engine_http(settings: Settings, application: "FastAPI | None") -> httpx.AsyncClient | InProcess:
    """Return the connection of an EngineClient: HTTP, or calls in this process."""
    if not settings.engine.is_internal:
        return over_http(settings.engine.base_url)
    if application is not None:
        return InProcess(application, settings.http.public_url)
    bind = settings.http.bind
    host = _LOOPBACK_OF.get(bind.host, bind.host)
    authority = f"[{host}]" if ":" in host else host
    return over_http(f"http://{authority}:{bind.port}")
