"""`bridge check` names the place in the settings of each finding."""

import select
import socket
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


def home_with(folder: Path, text: str) -> Path:
    copytree(DEFINITIONS, folder / "mappings")
    (folder / "bridge.toml").write_text(text, "utf-8")
    return folder


def test_listeners_and_destinations(tmp_path: Path) -> None:
    """A finding has its own line where it is known, else the line of the connection."""
    text = f'{HOME}tls = {{ ca = "missing-ca.pem" }}\n'
    found = [(each.place, each.message) for each in check_home(home_with(tmp_path, text))]
    file = tmp_path / "bridge.toml"
    for place, expected in (
        ("2:1: database.url", "does not exist"),
        ("6:1: listener ris", "nowhere"),
        ("7:3: listener ris", "charset"),
        ("8:9: listener ris", "tls.certificate"),
        ("12:1: listener other", "not a mapping of incoming"),
        ("16:1: destination pacs", "not a mapping of outgoing"),
        ("17:9: destination pacs", "tls.ca"),
    ):
        assert any(each[0] == f"{file}:{place}" and expected in each[1] for each in found), place


@pytest.mark.parametrize(
    ("text", "place"), [("[http]\nbind = = 1\n", "2:8"), ('[http]\nbind = "', "2:9")]
)
def test_invalid_toml(tmp_path: Path, text: str, place: str) -> None:
    """A syntax error has the line and column of the parser."""
    with pytest.raises(SettingsError) as raised:
        load(home_with(tmp_path, text))
    (mistake,) = raised.value.mistakes
    assert mistake.place == f"{tmp_path / 'bridge.toml'}:{place}"


@pytest.mark.parametrize("more", [[], ["--live"]])
def test_only_a_live_check_contacts_peers(tmp_path: Path, more: list[str]) -> None:
    """Only `--live` opens a connection, and reports an unreachable peer once with its place."""
    home = home_with(tmp_path, HOME)
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        port = receiver.getsockname()[1]
        settings = home / "bridge.toml"
        ris = f'name = "ris"\naddress = "127.0.0.1:{port}"\nmapping = "results"\n'
        settings.write_text(f"{HOME}[[destination]]\n{ris}", "utf-8")
        output = CliRunner().invoke(application, ["check", "--home", str(home), *more]).stdout
        was_contacted = bool(select.select([receiver], [], [], 0)[0])

    place = f"{home / 'bridge.toml'}:15:1: destination pacs: no response from 127.0.0.1:9"
    assert was_contacted is bool(more)
    assert [line for line in output.splitlines() if "no response" in line] == (
        [f"error   {place}: Connection refused"] if more else []
    )


def test_tracing_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check names the package to install for tracing, because the service would not start."""
    home = home_with(tmp_path, '[tracing]\nendpoint = "http://127.0.0.1:4318"\n')
    monkeypatch.setattr(tracing, "_NEEDED", ("opentelemetry.no_such.part",))
    findings = [each for each in check_home(home) if each.place.endswith(": tracing.endpoint")]
    assert [each.message for each in findings] == [
        "install report-bridge[tracing], or leave it empty"
    ]


def test_a_damaged_database(tmp_path: Path) -> None:
    """The check finds an index that differs from its table, and a damaged page."""
    home = home_with(tmp_path, '[database]\nurl = "sqlite:///bridge.db"\n')
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
