"""Settings: the file, the environment, and a report of every mistake."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import pytest

from bridge.admin.installation.data_directory import create_data_directory
from bridge.engine import settings as engine
from config.example import render, render_new
from config.quantities import parse_address, parse_duration, parse_size
from config.sections import LifetimeSettings, Rates, Sizes
from config.settings import Settings, load, parse
from config.toml_text import SettingsError

HERE = Path(__file__).resolve().parents[2]

WRONG = """\
[http]
bind = "no-port"
colour = "blue"

[[listener]]
name = "a"
bind = "127.0.0.1:2575"

[[listener]]
name = "b"
bind = "127.0.0.1:99999"
frame_timeout = "ten seconds"
"""


def read(text: str, home: Path) -> Settings:
    """Parse text as the content of HOME/bridge.toml."""
    return parse(text, home, home / "bridge.toml")


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    """Four mistakes in one file are four lines, each with its place."""
    with pytest.raises(SettingsError) as raised:
        read(WRONG, tmp_path)

    places = {
        str(mistake.place).rpartition("toml:")[2]: mistake.message
        for mistake in raised.value.mistakes
    }
    assert set(places) == {"2:1", "3:1", "11:1", "12:1"}
    assert places["3:1"] == "http.colour: unknown key"
    assert 'for example "10s"' in places["12:1"]


def test_duplicate_names(tmp_path: Path) -> None:
    """Two listeners of one name or one port are refused."""
    text = '[[listener]]\nname = "a"\nbind = "127.0.0.1:1"\n' * 2

    with pytest.raises(SettingsError, match=r"listener\.name a is used more than once"):
        read(text, tmp_path)


def test_duplicate_names_and_other_mistakes(tmp_path: Path) -> None:
    """All mistakes are reported. The place of a duplicate name is the second use."""
    text = '[[listener]]\nname = "a"\nbind = "127.0.0.1:1"\n' * 2 + "colour = 1\n"

    with pytest.raises(SettingsError) as raised:
        read(text, tmp_path)

    assert [str(mistake).rpartition("bridge.toml:")[2] for mistake in raised.value.mistakes] == [
        "7:1: listener.2.colour: unknown key",
        "5:1: listener.name a is used more than once",
        "6:1: listener.bind 127.0.0.1:1 is used more than once",
    ]


def test_a_shared_port_needs_a_shared_database(tmp_path: Path) -> None:
    """With SQLite it is a mistake with its line; with PostgreSQL it is accepted."""
    listener = '[[listener]]\nname = "a"\nbind = "127.0.0.1:1"\nshare_port = true\n'
    with pytest.raises(SettingsError) as caught:
        read(listener, tmp_path)
    (mistake,) = caught.value.mistakes
    assert str(mistake.place) == f"{tmp_path / 'bridge.toml'}:4:1"
    assert mistake.message.startswith("listener.1.share_port: several nodes need PostgreSQL")

    settings = read('[database]\nurl = "postgresql+psycopg://h/d"\n' + listener, tmp_path)

    assert settings.listener[0].share_port


def test_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BRIDGE_HTTP__BIND overrides the file, and the file's other keys stay."""
    monkeypatch.setenv("BRIDGE_HTTP__BIND", "127.0.0.1:9999")

    settings = read('[http]\nbind = "127.0.0.1:1"\npublic_url = "https://x.example"\n', tmp_path)

    assert str(settings.http.bind) == "127.0.0.1:9999"
    assert settings.http.public_url == "https://x.example"


def test_the_example_matches_the_models() -> None:
    """The committed example is generated from the models."""
    assert (HERE / "config" / "bridge.example.toml").read_text("utf-8") == render()


def test_fresh_settings_load(tmp_path: Path) -> None:
    """The settings that `init` writes are valid. A second `init` keeps changed files."""
    made, _ = create_data_directory(tmp_path)
    (tmp_path / "mappings" / "orders.yaml").write_bytes(b"mine")
    token = (tmp_path / "secrets" / "engine.token").read_bytes()

    written, kept = create_data_directory(tmp_path)

    assert not written
    assert kept == made
    assert (tmp_path / "mappings" / "orders.yaml").read_bytes() == b"mine"
    assert (tmp_path / "secrets" / "engine.token").read_bytes() == token
    assert (tmp_path / "secrets" / "engine.token").stat().st_mode & 0o777 == 0o600
    assert load(tmp_path).listener[0].name == "ris-orders"
    assert render_new().startswith("# Settings of this data directory.")


def test_missing_home(tmp_path: Path) -> None:
    """The error for a missing settings file names the command that creates it."""
    with pytest.raises(SettingsError, match="bridge init"):
        load(tmp_path / "nowhere")


def test_databases_of_a_home(tmp_path: Path) -> None:
    """Both SQLite files are in the data directory; with PostgreSQL there is one database."""
    settings = read("", tmp_path)
    assert settings.database_url() == f"sqlite:///{tmp_path}/bridge.db"
    assert settings.engine_database_url() == f"sqlite:///{tmp_path}/bridge-engine.db"

    shared = read('[database]\nurl = "postgresql+psycopg://u@h/d"\n', tmp_path)
    assert shared.engine_database_url() == shared.database_url() == "postgresql+psycopg://u@h/d"


@pytest.mark.parametrize(
    ("text", "seconds"), [("10s", 10), ("250ms", 0.25), ("5m", 300), ("0s", 0), (3, 3)]
)
def test_durations(text: object, seconds: float) -> None:
    """A duration has a unit; a bare number is seconds."""
    assert parse_duration(text) == seconds


def test_sizes_and_addresses() -> None:
    """Sizes are binary multiples; an IPv6 address keeps its brackets when written."""
    assert parse_size("16MiB") == 16 * 2**20
    assert str(parse_address("[::1]:2575")) == "[::1]:2575"


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
        return [str(mistake) for mistake in error.mistakes]
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
    assert any(item.startswith(f"/home/bridge.toml:{wanted}") for item in found), found


def test_every_mistake_has_a_place_and_our_own_text() -> None:
    """No text of the library, and no other exception, for a sample of changed settings."""
    found = [mistake for text in islice(changed(), 0, None, 29) for mistake in mistakes(text)]
    assert len(found) > 70
    ours = re.compile(r'".*?"|for example .*|is \w+ meant|\S+: ')
    assert [item for item in found if NOT_OURS.search(ours.sub("", item))] == []
    assert [item for item in found if not PLACED.search(item)] == []


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
    assert any(text.startswith(f"{name}: {wanted}") for text in found), found


LIMITS = """\
[rates]
launches = 10
[sizes]
body = "1MiB"
[lifetimes]
frame_link = "1h"
session_idle = "5m"
"""


def test_limits_are_read(tmp_path: Path) -> None:
    """Sizes and durations have units; a missing setting has its default."""
    settings = parse(LIMITS, tmp_path, tmp_path / "bridge.toml")
    assert (settings.rates.launches, settings.rates.reads) == (10, 6000)
    assert settings.sizes.body == 2**20
    assert (settings.lifetimes.frame_link, settings.lifetimes.session_idle) == (3600, 300)


def test_the_environment_reaches_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BRIDGE_RATES__EXPORTS=0 switches that limit off."""
    monkeypatch.setenv("BRIDGE_RATES__EXPORTS", "0")
    assert parse(LIMITS, tmp_path, tmp_path / "bridge.toml").rates.exports == 0


@pytest.mark.parametrize(
    "text",
    [
        "[rates]\nreads = -1\n", "[rates]\nread = 1\n", '[sizes]\nbody = "big"\n',
        "[sizes]\nlink_list = 1\n", '[lifetimes]\nsession_idle = "9h"\n',
        '[lifetimes]\nsession_link = "1h"\n',
    ],
)  # fmt: skip
def test_invalid_limits_are_refused(tmp_path: Path, text: str) -> None:
    """Unknown keys and impossible values. The lifetime of a session link is not a setting."""
    with pytest.raises(SettingsError):
        parse(text, tmp_path, tmp_path / "bridge.toml")


def test_the_defaults_are_those_of_the_engine() -> None:
    """An engine without settings has the limits of one with an empty settings file."""
    own = asdict(engine.RateLimits())
    assert {name: own[name]["count"] for name in own} == Rates().model_dump()
    sizes, lives = asdict(engine.SizeLimits()), asdict(engine.AccessLifetimes())
    assert {name: sizes[name] for name in Sizes.model_fields} == Sizes().model_dump()
    assert {
        name: lives[name] for name in LifetimeSettings.model_fields
    } == LifetimeSettings().model_dump()
