"""Which of our public addresses a request came in on, and from whom.

Forwarded headers count only when the peer is a trusted proxy. A host that is not
one of ours never gets into a link: the main address is used instead.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Addresses:
    """The public addresses of this installation, and the proxies in front of it."""

    def __init__(self, public: str, regional: Sequence[str], proxies: Sequence[str]) -> None:
        self._public = public.rstrip("/")
        self._known = {_origin(each): each.rstrip("/") for each in (*regional, public)}
        self._proxies = tuple(ipaddress.ip_network(each, strict=False) for each in proxies)

    @property
    def secure(self) -> bool:
        """Whether browsers reach us over https."""
        return self._public.startswith("https:")

    def base(self, scheme: str, headers: Mapping[str, str], peer: str) -> str:
        """Return the public address without a trailing slash."""
        host, schemes = headers.get("host", ""), [scheme]
        if self._trusts(peer):
            host = _first(headers.get("x-forwarded-host", "")) or host
            told = _first(headers.get("x-forwarded-proto", ""))
            # A proxy that does not say how it was reached may well have taken the TLS off.
            schemes = [told] if told else [scheme, "https"]
        found = (self._known.get(_origin(f"{each}://{host}")) for each in schemes)
        return next((each for each in found if each), self._public)

    def client(self, headers: Mapping[str, str], peer: str) -> str:
        """Return the address of whoever asks: the last hop that is not a trusted proxy."""
        if not self._trusts(peer):
            return peer
        hops = [each.strip() for each in headers.get("x-forwarded-for", "").split(",")]
        strangers = [hop for hop in hops if hop and not self._trusts(hop)]
        return strangers[-1] if strangers else peer

    def hides_clients(self, headers: Mapping[str, str], peer: str) -> bool:
        """Tell whether a proxy nearby forwards requests, and no proxy is declared."""
        if self._proxies or "x-forwarded-for" not in headers:
            return False
        try:
            return ipaddress.ip_address(peer).is_private
        except ValueError:
            return False

    def _trusts(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._proxies)


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
