"""`bridge concerns`: what still wants a person is listed until somebody has seen it."""

import json
from pathlib import Path

from typer.testing import CliRunner

from bridge.cli.application import application
from bridge.store import concerns
from bridge.store.concerns import Subject
from bridge.wiring.stores import bridge_database


def command(*arguments: str, expect: int = 0) -> str:
    """Run a command."""
    result = CliRunner().invoke(application, list(arguments))
    assert result.exit_code == expect, (result.output, result.exception)
    return result.stdout


def test_listed_and_seen(tmp_path: Path) -> None:
    """By message, by order, or all."""
    home = str(tmp_path / "home")
    command("init", home)
    with bridge_database(tmp_path / "home") as database, database.write() as connection:
        concerns.note(connection, Subject.MESSAGE, [(7, "report_kept"), (8, "report_kept")], 1)
        concerns.note(connection, Subject.ORDER, [(7, "no_report")], 2)

    def listed() -> list[tuple[str, int]]:
        found = json.loads(command("concerns", "list", "--json", "--home", home))
        return [(each["kind"], each["row_id"]) for each in found]

    assert listed() == [("order", 7), ("message", 8), ("message", 7)]
    assert command("concerns", "seen", "--message", "7", "--home", home) == "seen: 1\n"
    assert listed() == [("order", 7), ("message", 8)]
    command("concerns", "seen", "--home", home, expect=2)
    assert command("concerns", "seen", "--all", "--home", home) == "seen: 2\n"
    assert listed() == []
