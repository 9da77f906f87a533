"""What `bridge check` says about signing in: second factors, and addresses behind a proxy."""

import ipaddress
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from bridge.engine.service.throttle import has_undeclared_proxy
from bridge.errors import BridgeError
from bridge.wiring.findings import Finding, Severity
from bridge.wiring.stores import engine_is_ready, open_engine_database
from config import Settings, SettingsError

_SHARED: Final = (
    "attempts to sign in from all addresses count as one: a stranger's guesses keep out "
    "browsers that are not remembered; name the proxy in http.trusted_proxies"
)


def sign_in(settings: Settings) -> Iterator[Finding]:
    """Look at how people sign in to the internal engine."""
    if not settings.engine.is_internal:
        return
    given = settings.sign_in
    if given.second_factor == "optional" and given.oidc is None and given.passwords:
        message = "accounts with a console role may sign in with a password alone"
        yield Finding(Severity.WARNING, "sign_in.second_factor", message)
    if settings.http.trusted_proxies:
        return
    public = urlsplit(settings.http.public_url).hostname or ""
    if _is_loopback(settings.http.bind.host) and not _is_loopback(public):
        yield Finding(Severity.WARNING, "http.trusted_proxies", f"behind a proxy {_SHARED}")
    elif _seen(settings):
        message = f"a request had X-Forwarded-For of an undeclared proxy; {_SHARED}"
        yield Finding(Severity.WARNING, "http.trusted_proxies", message)


def _seen(settings: Settings) -> bool:
    try:
        database = open_engine_database(settings)
    except (BridgeError, SettingsError):
        return False  # the check of the databases says why
    try:
        if not engine_is_ready(database):
            return False
        with database.read() as connection:
            return has_undeclared_proxy(connection)
    except (BridgeError, SettingsError):
        return False  # the check of the databases says why
    finally:
        database.dispose()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
