"""One node migrates, others wait; a newer schema is refused; packages have own versions."""

import runpy
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import Connection, text

from bridge.store.database import Database
from bridge.store.errors import Busy, SchemaInUse, SchemaTooNew, StoreError
from bridge.store.migration import current, heads, is_ready, revisions, upgrade

ROOT = Path(__file__).parents[3]
ENGINE = ("bridge.engine.records", "alembic_engine")


@pytest.fixture
def empty(database: Database, tmp_path: Path) -> Database:
    """A database without any table."""
    if database.dialect == "sqlite":
        return Database(f"sqlite:///{tmp_path / 'empty.db'}")
    with database.write() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    return database


def _tables(database: Database) -> set[str]:
    with database.read() as connection:
        return set(sqlalchemy.inspect(connection).get_table_names())


def test_upgrade(empty: Database) -> None:
    """An empty database is brought to the newest revision; again changes nothing."""
    assert current(empty) == ()
    assert not is_ready(empty)
    assert upgrade(empty) == heads()
    assert is_ready(empty)
    assert upgrade(empty) == heads() == current(empty)
    assert {"message", "message_body", "message_lane", "delivery"} <= _tables(empty)


def test_packages_do_not_mix(empty: Database) -> None:
    """The engine's tables and versions stand beside the bridge's, in either order."""
    upgrade(empty, *ENGINE)
    assert current(empty) == ()
    assert "message" not in _tables(empty)
    upgrade(empty)
    assert is_ready(empty)
    assert is_ready(empty, *ENGINE)


def test_nodes_that_start_at_once(empty: Database) -> None:
    """Four nodes migrate the same database at the same time: all succeed."""
    url = empty.engine.url.render_as_string(hide_password=False)
    results: list[object] = []

    def node() -> None:
        database = Database(url)
        try:
            results.append(upgrade(database))
        except StoreError as error:
            results.append(error)
        database.dispose()

    threads = [threading.Thread(target=node) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [heads()] * 4


def test_others_use_the_tables(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives up, having changed nothing, and says what to do."""

    def in_use(connection: Connection, *_: object) -> None:
        connection.execute(text("CREATE TABLE half (id integer)"))
        raise Busy("55P03")

    monkeypatch.setattr("bridge.store.migration.run_scripts", in_use)
    with pytest.raises(SchemaInUse, match=r"nothing was changed.*stop all nodes"):
        upgrade(empty)
    assert current(empty) == ()
    assert "half" not in _tables(empty)


def test_a_newer_schema_is_refused(empty: Database) -> None:
    """What a newer release has migrated is left alone, and said so."""
    upgrade(empty)
    with empty.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaTooNew, match="9999"):
        upgrade(empty)
    with pytest.raises(SchemaTooNew):
        is_ready(empty)
    with empty.write() as connection:
        connection.execute(text("DELETE FROM alembic_version"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('0001')"))


@pytest.mark.parametrize("package", ["bridge.store", ENGINE[0]])
def test_scripts_follow_their_numbers(package: str) -> None:
    """A script's name begins with its revision, and each follows the one before it."""
    numbers = revisions(package)
    for before, number in zip([None, *numbers], numbers, strict=False):
        (script,) = (ROOT / package.replace(".", "/")).glob(f"migrations/versions/{number}_*.py")
        said = runpy.run_path(str(script))
        assert (said["revision"], said["down_revision"]) == (number, before)


def test_what_is_up_to_date_needs_no_alembic(tmp_path: Path) -> None:
    """It is a large library: a start loads it only where there is something to migrate."""
    url = f"sqlite:///{tmp_path / 'own.db'}"
    upgrade(Database(url))
    asks = (
        "import sys; from bridge.store.database import Database; "
        "from bridge.store.migration import is_ready, upgrade; "
        f"store = Database({url!r}); upgrade(store); assert is_ready(store); "
        "print('alembic' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", asks], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert told.stdout == "False\n"


def test_an_unknown_package(empty: Database) -> None:
    """A package that is none is a defect, and told as one."""
    with pytest.raises(ModuleNotFoundError):
        upgrade(empty, "bridge.nowhere")


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """A home that is not there is told as such, not as a defect."""
    with pytest.raises(StoreError):
        upgrade(Database(f"sqlite:///{tmp_path / 'nowhere' / 'x.db'}"))
