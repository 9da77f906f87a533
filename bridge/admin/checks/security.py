"""Security checks: protections of worker processes, second factors, proxies."""

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from bridge.admin.checks.findings import CheckFinding, CheckSeverity
from bridge.admin.report_engine import internal_engine
from bridge.errors import BridgeError
from bridge.network_source import Proxies
from bridge.workers.confinement import ALL_PROTECTIONS, FILTER, NAMESPACES
from bridge.workers.host import WorkerError
from bridge.workers.pool import HOOKS
from config import Settings, SettingsError

PLACE = "worker processes"


def check_protections() -> list[CheckFinding]:
    """Report active and missing protections of worker processes."""
    try:
        return protection_findings(HOOKS.protections())
    except WorkerError as error:
        return [CheckFinding(CheckSeverity.WARNING, PLACE, f"cannot be started: {error}")]


def protection_findings(active: Sequence[str]) -> list[CheckFinding]:
    """Report active and missing protections. With the filter, namespaces are not needed."""
    found = []
    if active:
        found.append(
            CheckFinding(CheckSeverity.NOTE, PLACE, f"active protections: {'; '.join(active)}")
        )
    else:
        text = "no protection is active: hooks run with the rights of the service"
        found.append(CheckFinding(CheckSeverity.WARNING, PLACE, text))
    missing = [each for each in ALL_PROTECTIONS if each not in active]
    if FILTER in active and NAMESPACES in missing:
        missing.remove(NAMESPACES)
    if active and missing:
        text = f"not supported by this kernel or container: {'; '.join(missing)}"
        found.append(CheckFinding(CheckSeverity.WARNING, PLACE, text))
    return found


_SHARED: Final = (
    "sign-in attempts of all addresses count together, so failed attempts of a third party block "
    "browsers that are not remembered; add the proxy to http.trusted_proxies"
)


def check_sign_in(settings: Settings) -> Iterator[CheckFinding]:
    """Check the sign-in settings of the internal engine."""
    if not settings.engine.is_internal:
        return
    options = settings.sign_in
    if options.second_factor == "optional" and options.oidc is None and options.passwords:
        message = "accounts with a console role may sign in with a password alone"
        yield CheckFinding(CheckSeverity.WARNING, "sign_in.second_factor", message)
    declared = settings.http.trusted_proxies
    public = urlsplit(settings.http.public_url).hostname or ""
    trusted = Proxies(declared)
    if undeclared := [
        each for each in _undeclared_proxies(settings) if not trusted.is_trusted(each)
    ]:
        message = f"requests came through the undeclared proxy {', '.join(undeclared)}; {_SHARED}"
        yield CheckFinding(CheckSeverity.WARNING, "http.trusted_proxies", message)
    elif not declared and _is_loopback(settings.http.bind.host) and not _is_loopback(public):
        yield CheckFinding(
            CheckSeverity.WARNING, "http.trusted_proxies", f"behind a proxy {_SHARED}"
        )


def _undeclared_proxies(settings: Settings) -> list[str]:
    try:
        with internal_engine(settings, migrate=False) as engine:
            found: list[str] = engine.call("GET", "operator", "undeclared-proxies")
    except (BridgeError, SettingsError):
        return []  # `check_databases` reports the reason
    return found


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
