"""A child process migrates the databases at the start, completely or not at all."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from bridge.roles import Role
from bridge.runtime.migration import MigrationFailed, migrate_in_child_process
from bridge.store import databases
from bridge.store.database import Database
from bridge.store.databases import ENGINE_PACKAGE, ENGINE_VERSIONS
from bridge.store.migration import current, heads
from config import Settings
from tests.eventually import eventually
from tests.processes import FORKED


def _start(home: Path, result: Connection) -> None:
    """Run a start, and send its outcome. A forked process has already loaded Alembic."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "alembic"]:
        del sys.modules[name]
    try:
        outcome_text: Any = migrate_in_child_process(Settings(home=home), frozenset(Role))
    except MigrationFailed as error:
        outcome_text = str(error)
    result.send((outcome_text, "alembic" in sys.modules))


def _start_with_a_defect(home: Path, result: Connection) -> None:
    def fail(database: Database) -> tuple[str, ...]:
        raise ValueError("SECRET")

    databases.migrate_bridge = fail
    _start(home, result)


class Start:
    def __init__(self, home: Path, run: Callable[[Path, Connection], None] = _start) -> None:
        self._receiver, sender = FORKED.Pipe(duplex=False)
        self.process = FORKED.Process(target=run, args=(home, sender), daemon=True)
        self.process.start()
        sender.close()

    def outcome(self) -> tuple[object, bool]:
        found: tuple[object, bool] = self._receiver.recv()
        self.process.join()
        return found

    def child(self) -> int:
        file = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return eventually(lambda: int((file.read_text().split() or ["0"])[0]))


@contextmanager
def locked(file: Path) -> Iterator[None]:
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("PRAGMA journal_mode = wal")
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


def revisions(home: Path) -> list[tuple[str, ...]]:
    found = []
    for name, table in (("bridge-engine", ENGINE_VERSIONS), ("bridge", "alembic_version")):
        database = Database(f"sqlite:///{home / name}.db")
        found.append(current(database, table))
        database.dispose()
    return found


def test_the_service_does_not_load_alembic(tmp_path: Path) -> None:
    """Both databases are migrated, and the next start has nothing to do."""
    assert Start(tmp_path).outcome() == (True, False)
    assert revisions(tmp_path) == [heads(ENGINE_PACKAGE), heads()]
    with locked(tmp_path / "bridge.db"):
        assert Start(tmp_path).outcome() == (True, False)


@pytest.mark.parametrize(
    ("number", "outcome"),
    [(signal.SIGTERM, False), (signal.SIGKILL, "was ended by SIGKILL")],
)
def test_an_interrupted_migration(tmp_path: Path, number: signal.Signals, outcome: object) -> None:
    """A signal to stop reaches the child; the next start migrates completely."""
    with locked(tmp_path / "bridge.db"):
        start = Start(tmp_path)
        child = start.child()
        eventually(lambda: revisions(tmp_path)[0] == heads(ENGINE_PACKAGE))
        os.kill(child if number is signal.SIGKILL else start.process.pid or 0, number)
        outcome_text, _ = start.outcome()
    assert outcome_text is False if outcome is False else str(outcome) in str(outcome_text)
    assert revisions(tmp_path)[1] == ()
    assert Start(tmp_path).outcome() == (True, False)
    assert revisions(tmp_path)[1] == heads()


def test_a_killed_parent_ends_the_child(tmp_path: Path) -> None:
    """The child does not continue by itself."""
    with locked(tmp_path / "bridge.db"):
        start = Start(tmp_path)
        child = start.child()
        start.process.kill()
        eventually(lambda: not Path(f"/proc/{child}/cmdline").exists() or _is_over(child))
    assert revisions(tmp_path)[1] == ()


def _is_over(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_errors_of_the_child_are_reported(tmp_path: Path) -> None:
    """The start reports the text of the migration's error."""
    with closing(sqlite3.connect(tmp_path / "bridge.db")) as other:
        other.execute("CREATE TABLE message (somebody_elses TEXT)")
    outcome_text, _ = Start(tmp_path).outcome()
    assert "statement refused (" in str(outcome_text)


def test_a_defect_of_a_migration(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The start reports class and place of an unexpected error. Its text may quote a row."""
    outcome_text, _ = Start(tmp_path, _start_with_a_defect).outcome()
    assert "ValueError at test_migration.py:" in str(outcome_text)
    assert "SECRET" not in f"{outcome_text}{capfd.readouterr()}"


ROOT = Path(__file__).resolve().parents[3]
SELDOM = (
    "rich",
    "pygments",
    "greenlet",
    "nh3",
    "babel",
    "alembic",
    "PIL",
    "google.protobuf",
    "opentelemetry.sdk",
)
LOADS = f"""
import sys
from bridge.cli.service import _load_without_optional_libraries
_load_without_optional_libraries()
import bridge.runtime.service, bridge.engine.http.engine_application
import bridge.console.http.application
print([name for name in {SELDOM} if name in sys.modules])
"""


def test_loaded_libraries() -> None:
    """Libraries for terminals, exports and migrations are loaded on demand."""
    result = subprocess.run(
        [sys.executable, "-c", LOADS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stdout == "[]\n", result.stderr
