"""
The public address that a request was sent to, for links in responses.

Forwarded headers are used only if the peer is a trusted proxy. An unknown host never gets into a
link: the link then has the main address.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from bridge.network_source import Proxies

_DEFAULT_PORTS = {"http": 80, "https": 443}


class PublicAddresses:
    """The public addresses of this installation; `proxies` are the trusted proxies."""

    def __init__(self, public: str, regional: Sequence[str], proxies: Proxies) -> None:
        self._public = public.rstrip("/")
        self._known = {_origin(each): each.rstrip("/") for each in (*regional, public)}
        self._proxies = proxies

    @property
    def secure(self) -> bool:
        """Whether the main public address is https."""
        return self._public.startswith("https:")

    def base(self, scheme: str, headers: Mapping[str, str], peer: str) -> str:
        """Return the public address without a trailing slash."""
        host, schemes = headers.get("host", ""), [scheme]
        if self._proxies.include(peer):
            host = _first(headers.get("x-forwarded-host", "")) or host
            proto = _first(headers.get("x-forwarded-proto", ""))
            # A proxy without X-Forwarded-Proto may have terminated TLS.
            schemes = [proto] if proto else [scheme, "https"]
        found = (self._known.get(_origin(f"{each}://{host}")) for each in schemes)
        return next((each for each in found if each), self._public)


def is_loopback(address: str) -> bool:
    """Tell whether an IP address is a loopback address."""
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
