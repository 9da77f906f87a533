"""The source by which limits count the clients of HTTP; MLLP counts by the same rule."""

import pytest

from bridge.network_source import source_of
from mllp.admission import source_of as mllp_source_of


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:DB8:0:0:ffff:ffff:ffff:ffff", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("a name", "a name"),
    ],
)
def test_a_network_of_ipv6_is_one_source(address: str, source: str) -> None:
    """One host has a /64; both spellings of an IPv4 address are one source."""
    assert source_of(address) == source
    assert mllp_source_of(address) == source
