"""`bridge --version`: what a support call asks first."""

from typer.testing import CliRunner

from bridge import __version__
from bridge.cli.application import application
from tests.acceptance.house import bridge


def test_it_is_said() -> None:
    """One line, the release; nothing is read or made."""
    said = CliRunner().invoke(application, ["--version"])
    assert (said.exit_code, said.stdout) == (0, f"Report Bridge {__version__}\n")
    assert bridge("--version") == said.stdout
