"""Which of our public addresses a request came in on.

Forwarded headers count only when the peer is a trusted proxy. A host that is not
one of ours never gets into a link: the main address is used instead.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from bridge.network_source import Proxies

_DEFAULT_PORTS = {"http": 80, "https": 443}


class PublicAddresses:
    """The public addresses of this installation; `proxies` are in front of it."""

    def __init__(self, public: str, regional: Sequence[str], proxies: Proxies) -> None:
        self._public = public.rstrip("/")
        self._known = {_origin(each): each.rstrip("/") for each in (*regional, public)}
        self._proxies = proxies

    @property
    def secure(self) -> bool:
        """Whether browsers reach us over https."""
        return self._public.startswith("https:")

    def base(self, scheme: str, headers: Mapping[str, str], peer: str) -> str:
        """Return the public address without a trailing slash."""
        host, schemes = headers.get("host", ""), [scheme]
        if self._proxies.include(peer):
            host = _first(headers.get("x-forwarded-host", "")) or host
            told = _first(headers.get("x-forwarded-proto", ""))
            # A proxy that does not say how it was reached may well have taken the TLS off.
            schemes = [told] if told else [scheme, "https"]
        found = (self._known.get(_origin(f"{each}://{host}")) for each in schemes)
        return next((each for each in found if each), self._public)


def is_loopback(address: str) -> bool:
    """Tell whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _first(header: str) -> str:
    return header.split(",", maxsplit=1)[0].strip().lower()


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return ("", "", None)
    return (parts.scheme, (parts.hostname or "").lower(), port)
