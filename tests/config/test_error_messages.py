"""Errors in settings: the place, the expected value, and the terms of the settings file."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from config.errors import SettingsError
from config.example import render
from config.settings import parse

VALUES = (
    *("5", "-1", '""', '"x"', "true", "[]", "{}", "[{}]", "{ a = 1 }", "[1]", "1.5", "inf", "nan"),
    *("1e300", "2026-01-01 07:00:00", '"http://["', '"https://x:99999"', '"\\u0000"', '"9e99s"'),
)
NOT_OURS = re.compile(r"(?i)input|field|extra|validat|value error|pydantic|literal|convert|should")
PLACED = re.compile(r"bridge\.toml:\d+:\d+: ")

WANTED = {
    '[alerts]\nwebhook = "https://a.example"': "2:1: alerts.webhook: write a table, for example"
    ' webhook = { url = "https://alerts.example.org/bridge" }',
    "[alerts]\nmail = { port = 0 }": "2:1: alerts.mail.host: is missing, for example host ="
    ' "smtp.example.org"',
    "[alerts]\nmail = { host = 1 }": "2:10: alerts.mail.host: write text in quotes, for example"
    ' host = "smtp.example.org"',
    '[log]\nlevel = "loud"': '2:1: log.level: write "debug", "info", "warning" or "error"',
    "[log]\nfromat = 1": "2:1: log.fromat: unknown key; is format meant?",
    "[sizes]\nbatch = 1": "2:1: sizes.batch: write at least 100",
    '[lifetimes]\nsession = "1s"': "2:1: lifetimes.session: write at least 300 seconds",
    "[alerts]\nevery = inf": '2:1: alerts.every: is too large, write for example "10s"',
    "[[http]]\nbind = 1": "1:1: http: write [http]",
    "[listener]\n": "1:1: listener: write [[listener]], once for each",
    '[[destination]]\nreplies = { XX = "park" }': "2:13: destination.1.replies.XX: write AA, AE,",
    '[[destination]]\nname = "a"\naddress = "h:1"\nretry_first = "2m"': "1:1: destination.1."
    "retry_max: shorter than retry_first",
    '[[destination]]\nack_timeout = "0s"': "2:1: destination.1.ack_timeout: write more than 0",
    "[[listener]]\nmax_frame = 0": "2:1: listener.1.max_frame: write more than 0",
    "[database]\npool_size = \n": "2:13: Invalid value",
    "[log]\nlevel = " + "[" * 2000: "2:9: tables or lists are nested too deeply",
    "[log]\nlevel = " + "9" * 5000: "2:9: a number has too many digits",
}


def mistakes(text: str) -> list[str]:
    try:
        parse(text, Path("/home"), Path("/home/bridge.toml"))
    except SettingsError as error:
        return [str(each) for each in error.mistakes]
    return []


def changed() -> Iterator[str]:
    """Yield each section alone, with one key misspelt or with another value, also in a table."""
    example = re.sub(r"(?m)^# ([a-z_]+ = .*?)(  # .*)?$", r"\1", render())
    for section in example.split("\n\n"):
        for key in re.finditer(
            r"(?<=[\n ])([a-z_]+) = (\{.*\}|\"[^\"]*\"|\[.*\]|[^,}\n]*)", section
        ):
            for value in VALUES:
                yield section[: key.start(2)] + value + section[key.end(2) :]
            yield section[: key.start(1)] + "q" + section[key.start(1) :]


@pytest.mark.parametrize(("text", "wanted"), WANTED.items(), ids=range(len(WANTED)))
def test_a_mistake_names_place_and_expected_value(text: str, wanted: str) -> None:
    """File, line, column, the setting, and the values that it accepts."""
    found = mistakes(text)
    assert any(each.startswith(f"/home/bridge.toml:{wanted}") for each in found), found


def test_every_mistake_has_a_place_and_our_own_text() -> None:
    """No text of the library, and no other exception, for a sample of changed settings."""
    found = [each for text in islice(changed(), 0, None, 29) for each in mistakes(text)]
    assert len(found) > 70
    ours = re.compile(r'".*?"|for example .*|is \w+ meant|\S+: ')
    assert [each for each in found if NOT_OURS.search(ours.sub("", each))] == []
    assert [each for each in found if not PLACED.search(each)] == []


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("BRIDGE_HTTP__BIND", "nowhere", "http.bind: write"),
        ("bridge_http__bind", "nowhere", "http.bind: write"),
        ("BRIDGE_HTTP__REGIONAL_URLS", "a,b", "write it as JSON"),
        ("BRIDGE_ALERTS__MAIL__PORT", "0", "alerts.mail.port: write at least 1"),
        ("BRIDGE_ALERTS__WEBHOOK", "{}", "alerts.webhook.url: is missing"),
        ("BRIDGE_LISTENER__0__NAME", "a", "listener: write [[listener]]"),
    ],
)
def test_a_mistake_in_the_environment(
    name: str, value: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mistake names the variable, not the file."""
    monkeypatch.setenv(name, value)
    found = mistakes("[http]\n")
    assert any(each.startswith(f"{name}: {wanted}") for each in found), found
