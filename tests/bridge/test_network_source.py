"""The source of an HTTP client for limits. MLLP uses the same rule."""

import pytest

from bridge.network_source import Proxies, source_of
from mllp.limits import source_of as mllp_source_of


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
    """A /64 is one source, and so are both spellings of an IPv4 address."""
    assert source_of(address) == source
    assert mllp_source_of(address) == source


@pytest.mark.parametrize(
    ("hops", "client"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9, 10.0.0.7", "203.0.113.9"),
        ("203.0.113.9:50123", "203.0.113.9"),
        ("203.0.113.9, 10.0.0.7:443", "203.0.113.9"),
        ("[2001:db8::9]:50123", "2001:db8::9"),
        ("[2001:db8::9]", "2001:db8::9"),
        ("2001:db8::9", "2001:db8::9"),
        ("::ffff:10.0.0.7", "10.0.0.1"),
        ("unknown", "unknown"),
        (" , ", "10.0.0.1"),
        ("", "10.0.0.1"),
    ],
)
def test_a_trusted_proxy_names_the_client(hops: str, client: str) -> None:
    """The source is the last hop that is no trusted proxy, without its port."""
    proxies = Proxies(["10.0.0.0/8"])
    assert proxies.client({"x-forwarded-for": hops}, "10.0.0.1") == client
    assert proxies.client({"x-forwarded-for": hops}, "::ffff:10.0.0.1") in {
        client,
        "::ffff:10.0.0.1",
    }
    assert proxies.client({"x-forwarded-for": hops}, "203.0.113.1") == "203.0.113.1"


def test_a_trusted_proxy_over_ipv6() -> None:
    """A dual-stack socket reports the IPv4 address of the proxy as IPv6."""
    headers = {"x-forwarded-for": "203.0.113.9"}
    assert Proxies(["10.0.0.0/8"]).client(headers, "::ffff:10.0.0.1") == "203.0.113.9"


@pytest.mark.parametrize(
    ("peer", "headers", "hidden"),
    [
        ("127.0.0.1", {"x-forwarded-for": "1.2.3.4"}, True),
        ("::ffff:127.0.0.1", {"forwarded": "for=1.2.3.4"}, True),
        ("192.168.0.2", {"via": "1.1 cache"}, True),
        ("10.0.0.1", {"x-forwarded-for": "1.2.3.4"}, False),
        ("127.0.0.1", {}, False),
        ("8.8.8.8", {"x-forwarded-for": "1.2.3.4"}, False),
    ],
)
def test_a_nearby_proxy_that_is_not_trusted(
    peer: str, headers: dict[str, str], hidden: bool
) -> None:
    assert Proxies(["10.0.0.0/8"]).is_undeclared(headers, peer) is hidden
