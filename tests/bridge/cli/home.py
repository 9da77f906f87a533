"""A data directory and the commands that run on it."""

from pathlib import Path

from typer.testing import CliRunner, Result

from bridge.cli.application import application
from bridge.store.database import Database
from bridge.store.databases import open_engine_database
from config import load
from tests.databases import add_database


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def init(self) -> None:
        """Create the data directory with `bridge init`, and copy a migrated database to it."""
        result = CliRunner().invoke(application, ["init", str(self.folder)])
        assert result.exit_code == 0, (result.output, result.exception)
        add_database(self.folder)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(application, [*arguments, "--home", str(self.folder)])

    def ok(self, *arguments: str, expect: int = 0) -> str:
        result = self.run(*arguments)
        assert result.exit_code == expect, (arguments, result.output, result.exception)
        return result.stdout

    def database(self) -> Database:
        return open_engine_database(load(self.folder))
