"""One node migrates while others wait. A newer schema is refused. Packages have own versions."""

import runpy
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import Connection, text

from bridge.contract import OrderKey
from bridge.store.database import Database
from bridge.store.errors import Busy, SchemaInUse, SchemaTooNew, StoreError
from bridge.store.migration import current, heads, is_ready, revisions, upgrade
from bridge.store.records import scheduled_steps

ROOT = Path(__file__).parents[3]
ENGINE = ("bridge.engine.records", "alembic_engine")


@pytest.fixture
def empty(database: Database, tmp_path: Path) -> Database:
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
    """An empty database gets the newest revision. A second upgrade changes nothing."""
    assert current(empty) == ()
    assert not is_ready(empty)
    assert upgrade(empty) == heads()
    assert is_ready(empty)
    assert upgrade(empty) == heads() == current(empty)
    assert {"message", "message_body", "message_lane", "delivery"} <= _tables(empty)


def test_packages_do_not_mix(empty: Database) -> None:
    """Tables and versions of engine and bridge share a database, created in any order."""
    upgrade(empty, *ENGINE)
    assert current(empty) == ()
    assert "message" not in _tables(empty)
    upgrade(empty)
    assert is_ready(empty)
    assert is_ready(empty, *ENGINE)


def test_nodes_that_start_at_once(empty: Database) -> None:
    """Four nodes migrate one database at the same time, and all succeed."""
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


def test_tables_in_use(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The migration stops without changes and reports what to do."""

    def in_use(connection: Connection, *_: object) -> None:
        connection.execute(text("CREATE TABLE half (id integer)"))
        raise Busy("55P03")

    monkeypatch.setattr("bridge.store.migration.run_scripts", in_use)
    with pytest.raises(SchemaInUse, match=r"nothing was changed.*stop all nodes"):
        upgrade(empty)
    assert current(empty) == ()
    assert "half" not in _tables(empty)


def test_a_newer_schema_is_refused(empty: Database) -> None:
    """A schema of a newer release is reported and not changed."""
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
    """A script's name starts with its revision, and each script follows the one before."""
    numbers = revisions(package)
    for before, number in zip([None, *numbers], numbers, strict=False):
        (script,) = (ROOT / package.replace(".", "/")).glob(f"migrations/versions/{number}_*.py")
        script_globals = runpy.run_path(str(script))
        assert (script_globals["revision"], script_globals["down_revision"]) == (number, before)


def test_workitems_of_stored_steps(empty: Database) -> None:
    """A step that was stored before its workitem had a column is found by the UID of it."""
    (script,) = (ROOT / "bridge/store/migrations/versions").glob("*_workitem_uid.py")
    numbers = revisions()
    upgrade(empty, target=numbers[numbers.index(script.name[:4]) - 1])
    values = {"site": "S", "accession": "A1", "mrn": "M1", "position": 1, "step_id": "1"}
    rest = ("study_uid", "status", "modality", "stations", "location", "time", "item")
    values |= {**dict.fromkeys(rest, ""), "status": "SCHEDULED", "changed_at": 0}
    table = sqlalchemy.table("scheduled_step", *map(sqlalchemy.column, values))
    with empty.write() as connection:
        connection.execute(sqlalchemy.insert(table), values)
    upgrade(empty)
    with empty.read() as connection:
        (step,) = scheduled_steps.steps_of(connection, [OrderKey("S", "M1", "A1")])
        chosen = scheduled_steps.StepFilter(workitem_uids=(step.workitem_uid,))
        found, _ = scheduled_steps.find_page(connection, chosen, None, 10)
    assert found == [step]


def test_alembic_is_loaded_only_to_migrate(tmp_path: Path) -> None:
    """Alembic is a large library, so a start loads it only to migrate."""
    url = f"sqlite:///{tmp_path / 'own.db'}"
    upgrade(Database(url))
    asks = (
        "import sys; from bridge.store.database import Database; "
        "from bridge.store.migration import is_ready, upgrade; "
        f"store = Database({url!r}); upgrade(store); assert is_ready(store); "
        "print('alembic' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", asks], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"


def test_an_unknown_package(empty: Database) -> None:
    """An unknown package is a programming error."""
    with pytest.raises(ModuleNotFoundError):
        upgrade(empty, "bridge.nowhere")


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """A missing folder is reported as such."""
    with pytest.raises(StoreError):
        upgrade(Database(f"sqlite:///{tmp_path / 'nowhere' / 'x.db'}"))
