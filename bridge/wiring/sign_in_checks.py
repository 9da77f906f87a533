"""What `bridge check` says about signing in: second factors, and addresses behind a proxy."""

import ipaddress
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from bridge.engine.service.throttle import undeclared_proxies
from bridge.errors import BridgeError
from bridge.network_source import Proxies
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
    declared = settings.http.trusted_proxies
    public = urlsplit(settings.http.public_url).hostname or ""
    trusted = Proxies(declared)
    if undeclared := [each for each in _seen(settings) if not trusted.include(each)]:
        message = f"requests came by the undeclared proxy {', '.join(undeclared)}; {_SHARED}"
        yield Finding(Severity.WARNING, "http.trusted_proxies", message)
    elif not declared and _is_loopback(settings.http.bind.host) and not _is_loopback(public):
        yield Finding(Severity.WARNING, "http.trusted_proxies", f"behind a proxy {_SHARED}")


def _seen(settings: Settings) -> list[str]:
    """List the proxies that the engine noted (`throttle`)."""
    try:
        database = open_engine_database(settings)
    except (BridgeError, SettingsError):
        return []  # the check of the databases says why
    try:
        if not engine_is_ready(database):
            return []
        with database.read() as connection:
            return undeclared_proxies(connection)
    except (BridgeError, SettingsError):
        return []  # the check of the databases says why
    finally:
        database.dispose()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
