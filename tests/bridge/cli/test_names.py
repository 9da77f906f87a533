"""A destination or listener that the settings do not have is no empty list: a slip is said."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge.cli.application import application


@pytest.mark.parametrize(
    ("command", "option", "known"),
    [
        (("deliveries", "list"), "--destination", "ris-results"),
        (("deliveries", "retry", "--dry-run"), "--destination", "ris-results"),
        (("messages", "list"), "--listener", "ris-orders"),
        (("messages", "replay", "--dry-run"), "--listener", "ris-orders"),
    ],
)
def test_a_slip_in_a_name(
    tmp_path: Path, command: tuple[str, ...], option: str, known: str
) -> None:
    """Exit 1, and the name in what is said; of a known one without anything it is an empty list."""
    home = tmp_path / "home"
    CliRunner().invoke(application, ["init", str(home)])
    settings = home / "bridge.toml"
    written = '[[destination]]\nname = "ris-results"\naddress = "127.0.0.1:9"\n'
    settings.write_text(
        '[[listener]]\nname = "ris-orders"\nbind = "127.0.0.1:0"\nsite = "S"\n' + written, "utf-8"
    )
    asked = [*command, "--home", str(home), option]
    result = CliRunner().invoke(application, [*asked, known])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(application, [*asked, "riss"])
    assert result.exit_code != 0
    kind = option.removeprefix("--")
    assert str(result.exception) == f"there is no {kind} riss in the settings"
    assert not result.stdout
    if command[1] == "list":
        result = CliRunner().invoke(application, [*asked, known, "--json"])
        assert json.loads(result.stdout) == []
