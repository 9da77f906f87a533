"""Findings about security: active protections of worker processes, second factors, proxies."""

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from bridge.admin.checks.findings import CheckFinding, CheckSeverity
from bridge.engine.service.accounts.sign_in_limit import undeclared_proxies
from bridge.errors import BridgeError
from bridge.network_source import Proxies
from bridge.wiring.stores import engine_is_ready, open_engine_database
from bridge.workers.confinement import ALL, FILTER, NAMESPACES
from bridge.workers.errors import WorkerError
from bridge.workers.pool import HOOKS
from config import Settings, SettingsError

PLACE = "worker processes"


def protections() -> list[CheckFinding]:
    """List the protections that are active in a worker process, and warn of those that are not."""
    try:
        return findings(HOOKS.protections())
    except WorkerError as error:
        return [CheckFinding(CheckSeverity.WARNING, PLACE, f"none can be started here: {error}")]


def findings(active: Sequence[str]) -> list[CheckFinding]:
    """Say what is active and what is not; own namespaces are of no use behind the filter."""
    found = []
    if active:
        found.append(
            CheckFinding(CheckSeverity.NOTE, PLACE, f"active protections: {'; '.join(active)}")
        )
    else:
        text = "no protection is active: hooks run with the rights of the service"
        found.append(CheckFinding(CheckSeverity.WARNING, PLACE, text))
    missing = [each for each in ALL if each not in active]
    if FILTER in active and NAMESPACES in missing:
        missing.remove(NAMESPACES)
    if active and missing:
        text = f"not offered by this kernel or container: {'; '.join(missing)}"
        found.append(CheckFinding(CheckSeverity.WARNING, PLACE, text))
    return found


_SHARED: Final = (
    "attempts to sign in from all addresses count as one: a stranger's guesses keep out "
    "browsers that are not remembered; name the proxy in http.trusted_proxies"
)


def sign_in(settings: Settings) -> Iterator[CheckFinding]:
    """Look at how people sign in to the internal engine."""
    if not settings.engine.is_internal:
        return
    given = settings.sign_in
    if given.second_factor == "optional" and given.oidc is None and given.passwords:
        message = "accounts with a console role may sign in with a password alone"
        yield CheckFinding(CheckSeverity.WARNING, "sign_in.second_factor", message)
    declared = settings.http.trusted_proxies
    public = urlsplit(settings.http.public_url).hostname or ""
    trusted = Proxies(declared)
    if undeclared := [each for each in _seen(settings) if not trusted.include(each)]:
        message = f"requests came by the undeclared proxy {', '.join(undeclared)}; {_SHARED}"
        yield CheckFinding(CheckSeverity.WARNING, "http.trusted_proxies", message)
    elif not declared and _is_loopback(settings.http.bind.host) and not _is_loopback(public):
        yield CheckFinding(
            CheckSeverity.WARNING, "http.trusted_proxies", f"behind a proxy {_SHARED}"
        )


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
