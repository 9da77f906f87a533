"""SQLite test files: each process migrates one and copies it."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from bridge.admin.installation.data_directory import create_data_directory
from bridge.store.database import Database
from bridge.store.migration import upgrade


def migrate(url: str) -> None:
    database = Database(url)
    upgrade(database)
    upgrade(database, package="bridge.engine.records", version_table="alembic_engine")
    database.dispose()


@cache
def model_file() -> Path:
    """Return a file with all tables and no rows, to be copied."""
    folder = Path(tempfile.mkdtemp(prefix="bridge-model-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    migrate(f"sqlite:///{folder / 'model.db'}")
    return folder / "model.db"


def fresh_file(path: Path) -> str:
    """Create a database with all tables and no rows unless it exists; return its address."""
    if not path.exists():
        shutil.copyfile(model_file(), path)
    return f"sqlite:///{path}"


def create_migrated_home(home: Path) -> None:
    """Create a data directory whose database has all tables and no rows."""
    create_data_directory(home)
    add_database(home)


def add_database(home: Path) -> None:
    """Give a new data directory a database with all tables and no rows."""
    fresh_file(home / "bridge.db")
    (home / "bridge.db").chmod(0o600)
