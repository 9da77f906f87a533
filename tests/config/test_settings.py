"""Settings: the file, the environment, and a report of every mistake."""

from pathlib import Path

import pytest

from bridge.admin.data_directory import create_data_directory
from config.errors import SettingsError
from config.example import render, render_new
from config.quantities import parse_address, parse_duration, parse_size
from config.settings import Settings, load, parse

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

    assert [str(each).rpartition("bridge.toml:")[2] for each in raised.value.mistakes] == [
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
