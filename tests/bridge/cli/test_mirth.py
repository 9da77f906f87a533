"""`bridge import-mirth` writes a package that `bridge interface import` takes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bridge.cli.application import application
from tests.bridge.admin.mirth.exports import channel, mapper, place, script
from tests.bridge.cli.home import Home


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(application, ["import-mirth", *map(str, arguments)])


@pytest.fixture
def export(tmp_path: Path) -> Path:
    file = tmp_path / "channel.xml"
    file.write_bytes(channel(steps=[mapper("mrn", place("PID-2.1"))]))
    return file


def test_a_package_is_written_and_imported(tmp_path: Path, export: Path) -> None:
    """The report is printed and written beside the package; the import accepts the folder."""
    folder = tmp_path / "ris-in"
    result = run(export, "--output", folder, "--site", "SITE1", "--time-zone", "Europe/Zurich")
    assert result.exit_code == 0, result.output
    assert (folder / "IMPORT.md").read_text() == result.stdout
    home = Home(tmp_path / "home")
    home.init()
    assert "added ris-in" in home.ok("interface", "import", str(folder), "--yes")
    assert "ris-in" in home.ok("listeners", "list")
    again = run(export, "-o", folder, "--site", "SITE1")
    assert isinstance(again.exception, FileExistsError)


def test_the_status_says_whether_all_was_converted(tmp_path: Path, export: Path) -> None:
    assert run(export, "--site", "SITE1").exit_code == 0
    assert run(export).exit_code == 1
    export.write_bytes(channel(steps=[script("x()")]))
    result = run(export, "--site", "SITE1")
    assert result.exit_code == 1
    assert "JavaScript is not converted" in result.stdout
    assert run(export, "--name", "a b").exit_code == 2
