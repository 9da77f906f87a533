"""
`bridge check --live`: ask every peer of a home whether it is there and trusts us.

Connects, shakes hands as the settings say, writes and removes a file in folders; sends no message.
"""

import os
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx

from bridge.contract import TOKEN_HEADER
from bridge.wiring.checks import Finding, Severity, as_in_force
from bridge.wiring.secret_files import read_token
from config import Settings, SettingsError, load
from config.addresses import FolderAddress, WebAddress, Where
from config.sections import Destination

_SECONDS: Final = 5.0
_REFUSED: Final = frozenset({401, 403})


def check_live(home: Path) -> list[Finding]:
    """Ask everybody; return what was found. Settings that cannot be read find nothing here."""
    try:
        settings = as_in_force(load(home))
    except SettingsError:
        return []  # the check that asks nobody has said what is wrong
    return [
        *_service(settings),
        *(
            found
            for each in settings.listener
            if each.enabled
            for found in _folder(settings, each.bind)
        ),
        *(
            found
            for each in settings.destination
            if each.enabled
            for found in _destination(settings, each)
        ),
    ]


def _service(settings: Settings) -> Iterator[Finding]:
    engine, place = settings.engine, "engine.base_url"
    if engine.is_internal:
        return
    try:
        token = read_token(settings.path(next(iter(engine.tokens.values()), engine.token_file)))
        headers = {TOKEN_HEADER: token}
        url = f"{engine.base_url}/api/report/status"
        answer = httpx.post(url, json={}, headers=headers, timeout=_SECONDS)
    except SettingsError:
        return
    except httpx.HTTPError as error:
        yield Finding(Severity.ERROR, place, f"no answer: {type(error).__name__}")
        return
    if answer.status_code in _REFUSED:
        yield Finding(Severity.ERROR, place, f"the token is refused ({answer.status_code})")


def _folder(settings: Settings, address: Where) -> Iterator[Finding]:
    if not isinstance(address, FolderAddress):
        return
    path = settings.path(Path(address.path))
    probe = path / f".bridge-check-{os.getpid()}.tmp"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        yield Finding(Severity.ERROR, str(address), f"cannot be written: {error.strerror}")


def _destination(settings: Settings, chosen: Destination) -> Iterator[Finding]:
    place, address = f"destination {chosen.name}", chosen.address
    if isinstance(address, FolderAddress):
        yield from _folder(settings, address)
        return
    try:
        with socket.create_connection((address.host, address.port), _SECONDS) as plain:
            if chosen.tls is None and not (isinstance(address, WebAddress) and address.secure):
                return
            name = (chosen.tls.server_name if chosen.tls else None) or address.host
            with _context(settings, chosen).wrap_socket(plain, server_hostname=name) as wire:
                yield from _expiry(settings, place, wire)
    except ssl.SSLError as error:
        yield Finding(Severity.ERROR, place, f"TLS: {error.reason or 'no handshake'}")
    except OSError as error:
        where = f"{address.host}:{address.port}"
        reason = error.strerror or "no answer"
        yield Finding(Severity.ERROR, place, f"nobody answers at {where}: {reason}")


def _context(settings: Settings, chosen: Destination) -> ssl.SSLContext:
    tls = chosen.tls
    ca = None if tls is None or tls.ca is None else str(settings.path(tls.ca))
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls is not None and tls.crl is not None:
        context.load_verify_locations(str(settings.path(tls.crl)))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if tls is not None and tls.certificate is not None:
        key = None if tls.key is None else settings.path(tls.key)
        context.load_cert_chain(settings.path(tls.certificate), key)
    return context


def _expiry(settings: Settings, place: str, wire: ssl.SSLSocket) -> Iterator[Finding]:
    shown = wire.getpeercert() or {}
    until = ssl.cert_time_to_seconds(str(shown["notAfter"])) if "notAfter" in shown else None
    if until is None:
        return
    left = until - datetime.now(UTC).timestamp()
    if left < settings.alerts.certificate_before:
        yield Finding(Severity.WARNING, place, f"its certificate expires in {left / 86400:.0f} d")
