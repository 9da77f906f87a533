"""
`bridge check --live`, for destinations that are an HTTP address: what it says to a question.

The question is OPTIONS (RFC 9110 9.3.7): it bears no message, and changes nothing there.
"""

import ssl
from collections.abc import Iterator
from typing import Final

import httpx

from bridge.transports.errors import TransportError
from bridge.transports.web.dialect import read_authorization
from bridge.wiring.asking import reason, root
from bridge.wiring.findings import Finding, Severity
from config import Settings
from config.addresses import WebAddress
from config.sections import Destination

_SECONDS: Final = 5.0
_UNAUTHORIZED: Final = frozenset({401, 403, 407})
_GONE: Final = frozenset({404, 410})
_OTHER_METHODS: Final = frozenset({501, 505})
"""It has no OPTIONS, and says so as servers say that something is broken."""


def ask_web(
    settings: Settings, chosen: Destination, address: WebAddress, tls: ssl.SSLContext | None
) -> Iterator[Finding]:
    """Ask the address of a destination; `tls`: how its handshake is made."""
    place, host = f"destination {chosen.name}", f"{address.host}:{address.port}"
    name = (chosen.tls.server_name if chosen.tls else None) or address.host
    try:
        status = _status(str(address), tls, name, _headers(settings, chosen))
    except TransportError:
        return  # the check that asks nobody has said what is wrong
    except httpx.TimeoutException:
        message = f"no answer from {host} within {_SECONDS:g} s: it is down, slow or behind a wall"
        yield Finding(Severity.ERROR, place, message)
    except httpx.RemoteProtocolError:
        message = f"{host} does not answer as HTTP does: is that its port?"
        yield Finding(Severity.ERROR, place, message)
    except httpx.HTTPError as error:
        yield Finding(Severity.ERROR, place, reason(root(error), host))
    else:
        yield from _said(place, host, status)


def _headers(settings: Settings, chosen: Destination) -> dict[str, str]:
    file = chosen.authorization_file
    shown = read_authorization(
        f"destination {chosen.name}", None if file is None else settings.path(file)
    )
    return {} if shown is None else {"authorization": shown.decode("latin-1")}


def _status(url: str, tls: ssl.SSLContext | None, name: str, headers: dict[str, str]) -> int:
    with (
        httpx.Client(verify=tls or True, timeout=_SECONDS, trust_env=False) as client,
        client.stream("OPTIONS", url, headers=headers, extensions={"sni_hostname": name}) as answer,
    ):
        return answer.status_code  # no more is read of it


def _said(place: str, host: str, status: int) -> Iterator[Finding]:
    answers = f"{host} answers {status} to a question without a message"
    if status in _UNAUTHORIZED:
        message = f"{host} does not let us in ({status}): set authorization_file, or mend it"
        yield Finding(Severity.ERROR, place, message)
    elif status in _GONE:
        yield Finding(Severity.WARNING, place, f"{answers}: is that its path?")
    elif httpx.codes.is_redirect(status):
        message = f"{host} sends us elsewhere ({status}), where no result goes: set that address"
        yield Finding(Severity.ERROR, place, message)
    elif httpx.codes.is_server_error(status) and status not in _OTHER_METHODS:
        yield Finding(Severity.WARNING, place, f"{answers}: look there")
