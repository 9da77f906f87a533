"""Try a listener or a destination of the settings: connect to it, as its senders or we would."""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bridge.console.errors import Unknown
from bridge.operations.probing import Step, Target, try_connection, try_folder
from config import Settings
from config.addresses import FolderAddress, WebAddress
from config.listeners import Listener
from config.sections import Destination

_LIMIT = 5.0  # seconds for a listener of our own
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # where we listen, to where we ask


async def probe(settings: Settings, kind: str, name: str) -> Sequence[Mapping[str, Any]]:
    """Try one of the settings, and say what was found, step by step. Raises Unknown."""
    found: Sequence[Listener | Destination] = (
        settings.listener if kind == "listener" else settings.destination
    )
    chosen = next((each for each in found if each.name == name), None)
    if chosen is None:
        raise Unknown
    return [asdict(step) for step in await steps(settings, chosen)]


async def steps(settings: Settings, chosen: Listener | Destination) -> Sequence[Step]:
    """Try a listener or destination, whether the settings have it or not."""
    address = chosen.bind if isinstance(chosen, Listener) else chosen.address
    if isinstance(address, FolderAddress):
        return await try_folder(settings.path(Path(address.path)))
    if isinstance(chosen, Listener):
        tls = _any_certificate() if chosen.tls is not None else None
        host = _ANYWHERE.get(address.host, address.host)
        return await try_connection(Target(host, address.port, _LIMIT, tls))
    try:
        context = _trust(settings, chosen)
    except (OSError, ssl.SSLError):
        return [Step("tls", ok=False, code="the files of the settings cannot be read")]
    name = chosen.tls.server_name if chosen.tls else None
    limit = chosen.connect_timeout
    return await try_connection(Target(address.host, address.port, limit, context, name or ""))


def _any_certificate() -> ssl.SSLContext:
    """Greet a listener of our own whatever it shows: what it shows is what is asked for."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _trust(settings: Settings, chosen: Destination) -> ssl.SSLContext | None:
    """Trust whom the destination's settings trust, and show what they show."""
    if chosen.tls is None:
        address = chosen.address
        secure = isinstance(address, WebAddress) and address.secure
        return ssl.create_default_context() if secure else None
    tls = chosen.tls
    ca = None if tls.ca is None else str(settings.path(tls.ca))
    context = ssl.create_default_context(cafile=ca)
    if tls.crl is not None:
        context.load_verify_locations(cafile=str(settings.path(tls.crl)))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if tls.certificate is not None and tls.key is not None:
        context.load_cert_chain(str(settings.path(tls.certificate)), str(settings.path(tls.key)))
    return context
