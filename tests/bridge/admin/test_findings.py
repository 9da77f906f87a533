"""`bridge check` says where in the settings something stands, whatever finds it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import copytree

import pytest
from typer.testing import CliRunner

from bridge.admin.checks.checks import check_home
from bridge.cli.application import application
from bridge.monitoring import tracing
from config import SettingsError, load
from mappings.compiler import DEFINITIONS

HOME = """[database]
url = "sqlite:///none.db"
[[listener]]
name = "ris"
bind = "127.0.0.1:0"
mappings = ["orders", "nowhere"]
  charset = "klingon"
tls = { certificate = "missing.pem", key = "missing.key" }
[[listener]]
name = "other"
bind = "127.0.0.1:0"
mappings = ["results"]
[[destination]]
name = "pacs"
address = "127.0.0.1:9"
mapping = "orders"
"""


def made(folder: Path, text: str) -> Path:
    """A home with these settings."""
    copytree(DEFINITIONS, folder / "mappings")
    (folder / "bridge.toml").write_text(text, "utf-8")
    return folder


def test_listeners_and_destinations(tmp_path: Path) -> None:
    """The line of what is wrong where it can be told, else that of the connection."""
    found = [(each.place, each.message) for each in check_home(made(tmp_path, HOME))]
    file = tmp_path / "bridge.toml"
    for place, word in (
        ("2:1: database.url", "does not exist"),
        ("6:1: listener ris", "nowhere"),
        ("7:3: listener ris", "charset"),
        ("8:9: listener ris", "tls.certificate"),
        ("12:1: listener other", "not a mapping of incoming"),
        ("15:1: destination pacs", "nobody answers"),
        ("16:1: destination pacs", "no mapping of outgoing"),
    ):
        assert any(each[0] == f"{file}:{place}" and word in each[1] for each in found), place


@pytest.mark.parametrize(
    ("text", "place"), [("[http]\nbind = = 1\n", "2:8"), ('[http]\nbind = "', "2:9")]
)
def test_what_is_no_toml(tmp_path: Path, text: str, place: str) -> None:
    """The parser's own line and column."""
    with pytest.raises(SettingsError) as raised:
        load(made(tmp_path, text))
    (mistake,) = raised.value.mistakes
    assert mistake.place == f"{tmp_path / 'bridge.toml'}:{place}"


@pytest.mark.parametrize("more", [[], ["--live"]])
def test_who_cannot_be_reached_is_named_once(tmp_path: Path, more: list[str]) -> None:
    """With its place, whether it was only looked for or asked for all that is set."""
    home = made(tmp_path, HOME)
    told = CliRunner().invoke(application, ["check", "--home", str(home), *more]).stdout
    (line,) = [each for each in told.splitlines() if "nobody answers" in each]
    assert f"{home / 'bridge.toml'}:15:1: destination pacs: nobody answers at 127.0.0.1:9" in line


def test_traces_without_what_sends_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service would not start: the check says so, and what to install."""
    home = made(tmp_path, '[tracing]\nendpoint = "http://127.0.0.1:4318"\n')
    monkeypatch.setattr(tracing, "_NEEDED", ("opentelemetry.no_such.part",))
    told = [each for each in check_home(home) if each.place.endswith(": tracing.endpoint")]
    assert [each.message for each in told] == ["install report-bridge[tracing], or leave it empty"]


def test_a_damaged_database(tmp_path: Path) -> None:
    """An index that differs from its table is found, and so is a page that is none."""
    home = made(tmp_path, '[database]\nurl = "sqlite:///bridge.db"\n')
    file = home / "bridge.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("CREATE INDEX i ON t (x)")
        connection.execute("INSERT INTO t VALUES ('abcdef')")
        connection.commit()
    intact = file.read_bytes()
    assert not [each for each in check_home(home) if "damaged" in each.message]
    for damaged in (intact.replace(b"abcdef", b"abcdeg", 1), intact[:4096] + bytes(4096)):
        file.write_bytes(damaged)
        assert [each for each in check_home(home) if "damaged" in each.message]
