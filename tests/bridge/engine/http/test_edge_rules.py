"""Pure functions of the HTTP layer: addresses, quotas, JSON, languages, origins."""

import pytest

from bridge.engine.http.engine_state import PublicAddresses
from bridge.engine.http.requests.request_limits import QuotaMeter
from bridge.engine.launch import LANGUAGES, first_language, supported_language
from bridge.engine.service.sites.site_settings import is_origin
from bridge.engine.settings import Quota
from bridge.network_source import Proxies
from parsers.errors import DocumentRefused
from parsers.json import read as parse
from tests.bridge.engine.http.engine_service import Clock

MAPPED = {
    "zh-TW": "zh-Hant",
    "zh-HK": "zh-Hant",
    "zh-Hant-MO": "zh-Hant",
    "zh-Hans-TW": "zh-CN",
    "zh": "zh-CN",
    "en": "en-US",
    "EN_gb": "en-GB",
    "pt-PT": "pt-BR",
    "es-MX": "es-ES",
    "fr": "fr-FR",
    "tlh": None,
    "": None,
}


def test_supported_languages_are_not_mapped() -> None:
    """reportingApp: 17 codes."""
    assert len(LANGUAGES) == 17
    assert all(supported_language(code) == code for code in LANGUAGES)


@pytest.mark.parametrize(("code", "expected"), MAPPED.items())
def test_other_codes_are_mapped(code: str, expected: str | None) -> None:
    """A code of a supported language is mapped to it; other codes are not."""
    assert supported_language(code) == expected


def test_the_first_language_has_precedence() -> None:
    """Request, then user, then site, then en-US."""
    assert first_language([None, "", "de-DE", "fr-FR"]) == "de-DE"
    assert first_language([None]) == "en-US"


def test_forwarded_headers_are_read_from_trusted_proxies_only() -> None:
    """A client can forge neither the address of links nor its own address."""
    proxies = Proxies(["10.0.0.0/8"])
    addresses = PublicAddresses("https://main.test", ["https://au.test"], proxies)
    headers = {
        "host": "internal:8575",
        "x-forwarded-host": "au.test",
        "x-forwarded-proto": "https",
        "x-forwarded-for": "6.6.6.6, 203.0.113.9, 10.0.0.7",
    }
    assert addresses.base("http", headers, "10.0.0.1") == "https://au.test"
    assert addresses.base("http", headers, "203.0.113.1") == "https://main.test"
    assert proxies.client(headers, "10.0.0.1") == "203.0.113.9"
    assert proxies.client(headers, "203.0.113.1") == "203.0.113.1"


@pytest.mark.parametrize("host", ["", "evil.test", "au.test:bad", "[", "main.test@evil.test"])
def test_an_unknown_host_gets_the_main_address(host: str) -> None:
    """A link never contains an unknown Host header."""
    addresses = PublicAddresses("https://main.test", ["https://au.test"], Proxies())
    assert addresses.base("https", {"host": host}, "203.0.113.1") == "https://main.test"


def test_a_quota_is_reset_with_its_window() -> None:
    """Windows are fixed and per key and policy; zero switches a quota off."""
    clock = Clock()
    meter = QuotaMeter(clock)
    quota = Quota(2, 60)
    granted = [meter.take("reads", "1", quota) for _ in range(3)]
    assert [each.granted for each in granted if each] == [True, True, False]
    assert meter.take("reads", "2", quota)
    clock.pass_seconds(60)
    again = meter.take("reads", "1", quota)
    assert again is not None
    assert (again.granted, again.remaining) == (True, 1)
    assert meter.take("reads", "1", Quota(0)) is None


def test_nesting_up_to_the_limit_is_read() -> None:
    """64 levels are read; one more is not."""
    assert parse(b"[" * 64 + b"]" * 64)
    with pytest.raises(DocumentRefused):
        parse(b"[" * 65 + b"]" * 65)


def test_escaped_text_is_read() -> None:
    """Escapes of characters, including surrogate pairs."""
    assert parse(b'"\\u00e9 \\ud83d\\ude00"') == "\u00e9 \U0001f600"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("https://viewer.test", True),
        ("http://localhost:3000", True),
        ("http://[::1]:3000", True),
        ("https://viewer.test/", False),
        ("https://viewer.test; script-src *", False),
        ("https://a.test https://b.test", False),
        ("https://*", False),
        ("ftp://viewer.test", False),
        ("viewer.test", False),
        ("", False),
    ],
)
def test_only_plain_origins_are_accepted_for_a_policy(text: str, good: bool) -> None:
    """frame-ancestors: no origin can add a directive."""
    assert is_origin(text) is good
