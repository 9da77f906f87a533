"""
The source of a network address: the unit by which limits count clients.

An IPv4 address is its own source. The source of an IPv6 address is its /64 network, because one
host can choose the other 64 bits itself. An IPv4 address that IPv6 carries is an IPv4 address.
`mllp.admission` has the same rule for MLLP; that package does not import this one.
"""

import ipaddress
from typing import Final

Parsed = ipaddress.IPv4Address | ipaddress.IPv6Address

_NETWORK_BITS: Final = 64


def parse_address(address: str) -> Parsed | None:
    """Return the address without its zone, IPv4-mapped ones as IPv4; None if it is none."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def source_of(address: str) -> str:
    """Return the source of an address; a text that is no address is its own source."""
    parsed = parse_address(address)
    return address if parsed is None else source_of_parsed(parsed)


def source_of_parsed(parsed: Parsed) -> str:
    """Return the source of an address from `parse_address`."""
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(ipaddress.IPv6Network((int(parsed), _NETWORK_BITS), strict=False))
