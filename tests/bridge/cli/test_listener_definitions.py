"""The definitions of listeners, set by command or console instead of the settings."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge import active_settings
from bridge.active_settings import all_sources
from bridge.admin.checks.checks import check_home
from bridge.admin.definitions.activation import Author, activate
from bridge.admin.installation.data_directory import create_data_directory
from bridge.admin.packages.folder import export
from bridge.cli.application import application
from bridge.store.databases import bridge_database
from bridge.store.records import mapping_versions
from config import Settings, load

ANN = Author("ann", 1_000, "a new sender")
OVERLAY = {"ris-c.yaml": "include: orders.yaml\naccept:\n  senders: [{application: RISC}]\n"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = tmp_path / "home"
    create_data_directory(home)
    (home / "bridge.toml").write_text(
        '[[listener]]\nname = "ris"\nbind = "127.0.0.1:2575"\nsite = "S"\n', "utf-8"
    )
    return load(home)


def lists(settings: Settings) -> list[str]:
    with bridge_database(settings.home) as database:
        return active_settings.current(settings, database).listener[0].mappings


def test_activate_and_assign(settings: Settings) -> None:
    """One command activates a definition and assigns it. An empty list restores the settings."""
    names = ["ris-c", "orders", "patients"]
    with bridge_database(settings.home) as database:
        sources = all_sources(settings, database, "ris-c", OVERLAY)
        chosen = [("ris-c", sources)]
        (done,) = activate(
            settings,
            database,
            chosen,
            ANN,
            records=[active_settings.make_list_record("ris", names)],
        )
        with database.read() as connection:
            last = mapping_versions.history(connection, active_settings.list_record_name("ris"))[0]
    assert (done.before, last.actor, last.reason) == ("", "ann", "a new sender")
    assert lists(settings) == names
    with bridge_database(settings.home) as database:
        activate(
            settings,
            database,
            [],
            replace(ANN, at=2_000),
            records=[active_settings.make_list_record("ris", [])],
        )
    assert lists(settings) == ["orders", "patients"]


def test_the_export_has_the_active_list(settings: Settings, tmp_path: Path) -> None:
    with bridge_database(settings.home) as database:
        chosen = [("ris-c", all_sources(settings, database, "ris-c", OVERLAY))]
        activate(
            settings,
            database,
            chosen,
            ANN,
            records=[active_settings.make_list_record("ris", ["ris-c", "orders"])],
        )
        export(settings.home, ["ris"], tmp_path / "folder")
    exported = (tmp_path / "folder" / "interface.toml").read_text("utf-8")
    assert 'mappings = ["ris-c", "orders"]' in exported
    written = (tmp_path / "folder" / "mappings" / "ris-c.yaml").read_text("utf-8")
    assert written == OVERLAY["ris-c.yaml"]


def test_the_check_reports_the_override(settings: Settings) -> None:
    """The command changes the list for all nodes, and the check reports the override."""

    def read_with(*names: str) -> str:
        command = ["mapping", "read-with", "ris", *names, "--home", str(settings.home)]
        done = CliRunner().invoke(application, command)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    assert "ris uses patients, orders" in read_with("patients", "orders")
    messages = [finding.message for finding in check_home(settings.home)]
    assert "uses patients, orders, as saved in the console" in messages
    assert "ris uses orders, patients" in read_with()
    assert lists(settings) == ["orders", "patients"]
