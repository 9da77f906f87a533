"""A name of a destination or listener that the settings lack is an error, not an empty list."""

import json
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from bridge.cli.application import application
from bridge.store.databases import bridge_database
from tests.bridge.cli.home import Home

PARKED = """
    INSERT INTO delivery (id, destination, report_id, release_key, event, state, control_id, lane,
                          orders, release_at, created_at)
    VALUES (:id, :name, 'r', 'r:final:' || :name, 'final', 'parked', 'C' || :id, :id, '[]', 1, 1)
"""


@pytest.mark.parametrize(
    ("command", "option", "known"),
    [
        (("deliveries", "list"), "--destination", "ris-results"),
        (("deliveries", "retry", "--dry-run"), "--destination", "ris-results"),
        (("messages", "list"), "--listener", "ris-orders"),
        (("messages", "replay", "--dry-run"), "--listener", "ris-orders"),
    ],
)
def test_an_unknown_name(tmp_path: Path, command: tuple[str, ...], option: str, known: str) -> None:
    """The command exits with 1 and names the unknown name. A known name has an empty list."""
    home = tmp_path / "home"
    Home(home).init()
    settings = home / "bridge.toml"
    written = '[[destination]]\nname = "ris-results"\naddress = "127.0.0.1:9"\n'
    settings.write_text(
        '[[listener]]\nname = "ris-orders"\nbind = "127.0.0.1:0"\nsite = "S"\n' + written, "utf-8"
    )
    arguments = [*command, "--home", str(home), option]
    result = CliRunner().invoke(application, [*arguments, known])
    assert result.exit_code == 0, result.output
    assert command[1] == "list" or not result.stdout
    result = CliRunner().invoke(application, [*arguments, "riss"])
    assert result.exit_code != 0
    kind = option.removeprefix("--")
    assert str(result.exception) == f"there is no {kind} riss in the settings"
    assert not result.stdout
    if command[1] == "list":
        result = CliRunner().invoke(application, [*arguments, known, "--json"])
        assert json.loads(result.stdout) == []


def test_retry_for_an_inactive_destination(tmp_path: Path) -> None:
    """A retry warns if the destination is removed, disabled or paused."""
    home = tmp_path / "home"
    Home(home).init()
    sections = [
        f'[[destination]]\nname = "{name}"\naddress = "127.0.0.1:9"\n{more}\n'
        for name, more in (("good", ""), ("dark", "enabled = false"), ("still", ""))
    ]
    (home / "bridge.toml").write_text("".join(sections), "utf-8")
    with bridge_database(home) as database, database.write() as connection:
        for number, name in enumerate(("good", "gone", "dark", "still"), start=1):
            connection.execute(text(PARKED), {"id": number, "name": name})
    still = ["destinations", "pause", "still", "--home", str(home)]
    assert CliRunner().invoke(application, still).exit_code == 0
    result = CliRunner().invoke(
        application, ["deliveries", "retry", "--state", "parked", "--home", str(home)]
    )
    assert result.exit_code == 0, result.output
    assert "4 queued, 0 failed" in result.stdout
    assert result.stderr.splitlines() == [
        "note: destination dark is disabled: its deliveries wait",
        "note: destination gone is not in the settings: its deliveries wait",
        "note: destination still is paused: its deliveries wait",
    ]
