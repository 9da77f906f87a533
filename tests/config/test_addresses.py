"""Addresses of listeners and destinations, and settings that do not fit their transport."""

from pathlib import Path

import pytest

from config import SettingsError
from config.quantities import Address, FolderAddress, WebAddress, parse_connection_address
from config.settings import Settings, parse


def read(text: str) -> Settings:
    return parse(text, Path("/home"), Path("bridge.toml"))


def listener(bind: str, more: str = "") -> str:
    return f'[[listener]]\nname = "a"\nbind = "{bind}"\n{more}\n'


def destination(address: str, more: str = "") -> str:
    return f'[[destination]]\nname = "a"\naddress = "{address}"\n{more}\n'


@pytest.mark.parametrize(
    ("text", "kind", "host", "port", "path"),
    [
        ("127.0.0.1:2575", Address, "127.0.0.1", 2575, ""),
        ("mllp://[::1]:2575", Address, "::1", 2575, ""),
        ("http://ris:81/in", WebAddress, "ris", 81, "/in"),
        ("https://ris", WebAddress, "ris", 443, "/"),
        ("folder:/srv/in", FolderAddress, "", 0, "/srv/in"),
    ],
)
def test_kinds(text: str, kind: type, host: str, port: int, path: str) -> None:
    """The scheme selects the transport."""
    found = parse_connection_address(text)
    assert type(found) is kind
    assert getattr(found, "host", "") == host
    assert getattr(found, "port", 0) == port
    assert getattr(found, "path", "") == path


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (listener("ftp://x"), "listener.1.bind"),
        (listener("folder:"), "listener.1.bind"),
        (listener("http://u:p@h/"), "listener.1.bind"),
        (listener("http://h:99999/"), "listener.1.bind"),
        (listener("folder:in", "max_connections = 3"), "max_connections"),
        (listener("127.0.0.1:1", "answer_files = true"), "answer_files"),
        (listener("https://127.0.0.1:1/"), "tls"),
        (listener("127.0.0.1:1", 'profile = "p.xml"'), "profile"),
        (listener("127.0.0.1:1", 'validate = "sometimes"'), "validate"),
        (listener("127.0.0.1:1", 'validate = "refuse"\nacknowledge = "stored"'), "acknowledge"),
        (listener("folder:in") + listener("folder:in").replace('"a"', '"b"'), "listener.bind"),
        (destination("127.0.0.1:1", 'authorization_file = "x"'), "authorization_file"),
        (destination("folder:out", 'tls = { ca = "x" }'), "tls"),
        (destination("http://h/", 'tls = { ca = "x" }'), "tls"),
        (destination("127.0.0.1:1", 'replies = { AF = "park" }'), "replies"),
        (destination("127.0.0.1:1", 'replies = { AE = "sometimes" }'), "replies.AE"),
        (destination("127.0.0.1:1", 'replies = { AE = "retry 0 then park" }'), "replies.AE"),
        ('[alerts]\nmail = { host = "x", from = "a@b", to = [] }', "alerts.mail.to"),
        ('[alerts]\nwebhook = { url = "x" }', "alerts.webhook.url"),
        ('[retention]\nkeep = "soon"', "retention.keep"),
    ],
)
def test_mistakes(text: str, place: str) -> None:
    """The error names the setting."""
    with pytest.raises(SettingsError) as wrong:
        read(text)
    assert place in str(wrong.value)


def test_replies() -> None:
    """Rules for codes with ERR-3, HTTP statuses and missing replies, with all the actions."""
    rules = '{ AE = "retry", "AE 206" = "retry 9 then pause", "http 5xx" = "skip", "silence closed" = "park" }'  # noqa: E501  # one line of TOML
    replies = read(destination("127.0.0.1:1", f"replies = {rules}")).destination[0].replies
    assert replies["AE 206"] == "retry 9 then pause"
