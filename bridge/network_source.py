"""
The address of a client, and its source, by which limits count clients.

The address is that of the connection, or the one that a trusted proxy forwards.

The source of an IPv4 address is the address. The source of an IPv6 address is its /64 network,
because a host can choose the other 64 bits. An IPv4-mapped address counts as IPv4.
`mllp.limits` has the same rule for MLLP; that package does not import this one.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

Parsed = ipaddress.IPv4Address | ipaddress.IPv6Address

_NETWORK_BITS: Final = 64
_WITH_PORT: Final = re.compile(r"\[([^\]]*)\](?::\d+)?|([^:]*):\d+")
_PROXY_HEADERS: Final = ("x-forwarded-for", "forwarded", "x-real-ip", "via", "x-forwarded-host")


def parse_address(address: str) -> Parsed | None:
    """Return an address without its zone, an IPv4-mapped one as IPv4; None for other texts."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def split_origin(url: str) -> tuple[str, str]:
    """Return scheme and authority of a URL in a header; both are empty if it is malformed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.scheme, parts.netloc


def source_of(address: str) -> str:
    """Return the source of an address; a text that is no address is its own source."""
    parsed = parse_address(address)
    return address if parsed is None else source_of_parsed(parsed)


def source_of_parsed(parsed: Parsed) -> str:
    """Return the source of an address from `parse_address`."""
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(ipaddress.IPv6Network((int(parsed), _NETWORK_BITS), strict=False))


class Proxies:
    """The reverse proxies whose forwarded headers count, by their networks."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        self._networks = tuple(ipaddress.ip_network(network, strict=False) for network in networks)

    def is_trusted(self, address: str) -> bool:
        parsed = parse_address(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def client(self, headers: Mapping[str, str], peer: str) -> str:
        """Return the address of a client: the last hop that is not a trusted proxy."""
        if not self.is_trusted(peer):
            return peer
        hops = [_without_port(part) for part in headers.get("x-forwarded-for", "").split(",")]
        untrusted = [hop for hop in hops if hop and not self.is_trusted(hop)]
        return untrusted[-1] if untrusted else peer

    def is_undeclared(self, headers: Mapping[str, str], peer: str) -> bool:
        """True if a peer is a private proxy that is not trusted, by the headers it adds."""
        parsed = parse_address(peer)
        nearby = parsed is not None and parsed.is_private and not self.is_trusted(peer)
        return nearby and any(header in headers for header in _PROXY_HEADERS)


def _without_port(hop: str) -> str:
    """Return the address of a hop without its port: connections of one client differ in it."""
    found = _WITH_PORT.fullmatch(hop.strip())
    return hop.strip() if found is None else found[1] or found[2] or ""
