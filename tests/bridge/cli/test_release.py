"""`bridge --version` prints the release."""

from typer.testing import CliRunner

from bridge import __version__
from bridge.cli.application import application
from tests.acceptance.house import bridge


def test_version() -> None:
    """The command prints one line, and reads and creates no files."""
    result = CliRunner().invoke(application, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"Report Bridge {__version__}\n")
    assert bridge("--version") == result.stdout
