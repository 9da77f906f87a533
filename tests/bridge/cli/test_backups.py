"""`bridge backup`, `restore` and `compare`: complete, verified, private, all or nothing."""

import hashlib
import io
import json
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from typer.testing import CliRunner, Result

from bridge.active_settings import current, make_connection_record
from bridge.admin.backup import backup as backups
from bridge.admin.backup.backup import back_up
from bridge.cli.application import application
from bridge.store.databases import bridge_database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import ActivationOrigin
from config import load
from config.sections import ChannelKind
from tests.bridge.cli.home import Home
from tests.conftest import address_of, ask_server, drop_database

SETTINGS = """
[http]
bind = "127.0.0.1:8571"
public_url = "https://reports.hospital.test"
[alerts]
mail = { host = "mail.test", from = "a@b.test", to = ["c@d.test"], password_file = "mail.password" }
[retention]
keep = "90d"
[[listener]]
name = "ris"
bind = "0.0.0.0:2571"
site = "SITE1"
[[listener]]
name = "files"
bind = "folder:inbox"
site = "SITE1"
[[destination]]
name = "back"
address = "10.1.1.1:2576"
"""


def bridge(*arguments: object) -> Result:
    return CliRunner().invoke(application, [str(argument) for argument in arguments])


def ok(*arguments: object, expect: int = 0) -> str:
    result = bridge(*arguments)
    assert result.exit_code == expect, (arguments, result.output, result.exception)
    return result.stdout


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = Home(tmp_path / "home")
    made.init()
    made.ok("site", "add", "SITE1", "--name", "Éns")
    path = made.folder
    (path / "bridge.toml").write_text(SETTINGS, "utf-8")
    (path / "mail.password").write_text("secret-of-mail", "utf-8")
    (path / "mappings/codes/own.csv").write_text("code,value\nX,CT\n", "utf-8")
    (path / "run").mkdir(exist_ok=True)
    (path / "run/node").write_text("this node", "utf-8")
    with bridge_database(path) as database, database.write() as connection:
        table = {"name": "street", "address": "10.1.1.2:2576"}
        record = make_connection_record(ChannelKind.DESTINATION, "street", table)
        mapping_versions.activate(connection, record, 1, "ann", "", ActivationOrigin.ACTIVATE)
    return path


@pytest.fixture
def file(home: Path, tmp_path: Path) -> Path:
    ok("backup", tmp_path / "a.backup", "--home", home)
    return tmp_path / "a.backup"


def members(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        found = {getmember: archive.extractfile(getmember) for getmember in archive.getmembers()}
        return {info.name: data.read() for info, data in found.items() if data is not None}


def test_a_backup_is_restored(home: Path, file: Path, tmp_path: Path) -> None:
    """The copy equals the original, is private, and has its own node."""
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.backup", "home"]
    printed = ok("restore", file, tmp_path / "deep/again")
    again = tmp_path / "deep/again"
    assert "restored" in printed
    assert ok("compare", home, again) == "no differences\n"
    assert "Éns" in ok("site", "list", "--home", again)
    assert not (again / "run/node").exists()
    assert (again / "secrets/link.keys").read_bytes() == (home / "secrets/link.keys").read_bytes()
    assert all(path.stat().st_mode & 0o077 == 0 for path in again.rglob("*"))
    ok("audit", "verify", "--home", again)
    assert "backup" in ok("audit", "list", "--home", home, "--json")
    assert {"bridge.toml", "mail.password"} <= {path.name for path in again.iterdir()}


@pytest.mark.parametrize("exists", ["file", "folder", "link"])
def test_a_backup_replaces_nothing(home: Path, tmp_path: Path, exists: str) -> None:
    """An existing name is refused, and what has it stays."""
    target = tmp_path / "a.backup"
    (tmp_path / "other").write_text("x")
    if exists == "file":
        target.write_text("mine")
    elif exists == "folder":
        target.mkdir()
    else:
        target.symlink_to(tmp_path / "other")
    result = bridge("backup", target, "--home", home)
    assert result.exit_code != 0
    assert "exists" in str(result.exception)
    assert (tmp_path / "other").read_text() == "x"


def test_a_backup_without_secrets(home: Path, tmp_path: Path) -> None:
    """No key, token or password is in it; the restore says what is missing."""
    file = tmp_path / "b.backup"
    assert "without secrets" in ok("backup", file, "--home", home, "--without-secrets")
    found = members(file)
    assert not [name for name in found if "secrets" in name or "mail.password" in name]
    secrets = [path.read_bytes().strip() for path in (home / "secrets").iterdir()]
    secrets.append(b"secret-of-mail")
    for data in found.values():
        assert not any(secret in data for secret in secrets)
    assert "copy those of the same installation" in ok("restore", file, tmp_path / "again")
    shutil.copytree(home / "secrets", tmp_path / "again/secrets", dirs_exist_ok=True)
    (tmp_path / "again/mail.password").write_text("secret-of-mail", "utf-8")
    assert ok("compare", home, tmp_path / "again") == "no differences\n"


def test_the_password_of_the_database_is_a_secret(home: Path, tmp_path: Path) -> None:
    """Without secrets, bridge.toml has no password."""
    line = 'url = "postgresql+psycopg://bridge:s3cret%40@db.test:5432/bridge"\n'
    text = (home / "bridge.toml").read_text("utf-8").replace("[http]", "[http]\n# " + line, 1)
    (home / "bridge.toml").write_text(text, "utf-8")
    file = tmp_path / "b.backup"
    ok("backup", file, "--home", home, "--without-secrets")
    kept = members(file)["home/bridge.toml"].decode()
    assert "s3cret" not in kept
    assert "postgresql+psycopg://bridge@db.test:5432/bridge" in kept


def test_a_restore_needs_an_empty_home(home: Path, file: Path, tmp_path: Path) -> None:
    """Files in HOME are refused, and stay."""
    (tmp_path / "again").mkdir()
    (tmp_path / "again/mine").write_text("x")
    result = bridge("restore", file, tmp_path / "again")
    assert "is not empty" in str(result.exception)
    assert [path.name for path in (tmp_path / "again").iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    ok("restore", file, tmp_path / "empty")


def damaged(file: Path, how: str) -> None:
    data = bytearray(file.read_bytes())
    if how == "cut":
        data = data[: len(data) // 2]
    elif how == "flipped":
        data[len(data) // 2] ^= 0xFF
    elif how == "text":
        data = bytearray(b"no backup")
    elif how == "empty":
        data = bytearray()
    file.write_bytes(data)


@pytest.mark.parametrize("how", ["cut", "flipped", "text", "empty"])
def test_a_damaged_backup_is_not_restored(file: Path, tmp_path: Path, how: str) -> None:
    """Nothing of it is left."""
    damaged(file, how)
    result = bridge("restore", file, tmp_path / "again")
    assert result.exit_code == 1
    assert "not restored" in str(result.exception), result.exception
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.backup", "home"]


@pytest.mark.parametrize(
    "name",
    ["home/../../evil", "/etc/evil", "home/secrets/more", "elsewhere/x", "databases/../../evil"],
)
def test_a_backup_writes_nothing_outside_of_home(file: Path, tmp_path: Path, name: str) -> None:
    """Members with other names, links and unlisted members are refused."""
    listed = {name: hashlib.sha256(b"x").hexdigest()}
    if name == "home/secrets/more":  # a member that the list lacks
        listed = {}
    content = {
        "manifest.json": members(file)["manifest.json"],
        name: b"x",
        "digests.json": json.dumps(listed).encode(),
    }
    with tarfile.open(file, "w:gz") as archive:
        for item, data in content.items():
            info = tarfile.TarInfo(item)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    result = bridge("restore", file, tmp_path / "again")
    assert "not restored" in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.backup", "home"]


def test_a_backup_of_a_newer_release_is_refused(file: Path, tmp_path: Path) -> None:
    """An older release would not understand its tables."""
    found = members(file)
    manifest = json.loads(found["manifest.json"])
    manifest["databases"][0]["revisions"]["alembic_version"] = "9999"
    found["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(file, "w:gz") as archive:
        for name, data in found.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    result = bridge("restore", file, tmp_path / "again")
    assert "newer release (migration 9999" in str(result.exception)
    assert not (tmp_path / "again").exists()


def test_a_backup_before_an_upgrade_migrates_nothing(home: Path, tmp_path: Path) -> None:
    """The new release backs up the databases as they are, and restores them so."""
    for stem, table in (("bridge", "alembic_version"), ("bridge-engine", "alembic_engine")):
        with closing(sqlite3.connect(home / f"{stem}.db")) as database, database:
            database.execute(f"UPDATE {table} SET version_num = '0001'")  # noqa: S608
    ok("backup", tmp_path / "a.backup", "--home", home)
    manifest = json.loads(members(tmp_path / "a.backup")["manifest.json"])
    bridge_copy, engine_copy = (part["revisions"] for part in manifest["databases"])
    assert bridge_copy["alembic_version"] == "0001"
    assert engine_copy["alembic_engine"] == "0001"


def test_files_may_change_while_they_are_backed_up(home: Path, tmp_path: Path) -> None:
    """Of a growing log, the backup has what it contained; a file that was moved is left out."""
    (home / "serve.log").write_bytes(b"line\n")
    (home / "inbox").mkdir()
    (home / "inbox/order.hl7").write_bytes(b"MSH|")

    def change(step: str, _done: int, _total: int) -> None:
        with (home / "serve.log").open("ab") as log:
            log.write(b"line\n" * 20_000)
        if step == "writing the backup":
            (home / "inbox/order.hl7").unlink(missing_ok=True)

    back_up(home, tmp_path / "a.backup", report=change)
    found = members(tmp_path / "a.backup")
    assert found["home/serve.log"].startswith(b"line\n")
    assert "home/inbox/order.hl7" not in found
    ok("restore", tmp_path / "a.backup", tmp_path / "again")


def test_links_are_left_out_and_named(home: Path, tmp_path: Path) -> None:
    """A link could point anywhere."""
    (home / "shortcut").symlink_to("/etc/passwd")
    result = bridge("backup", tmp_path / "a.backup", "--home", home)
    assert result.exit_code == 0
    assert "left out: shortcut" in result.stderr
    assert "home/shortcut" not in members(tmp_path / "a.backup")


def test_a_test_copy_acts_for_nobody(file: Path, tmp_path: Path) -> None:
    """Other ports on loopback, no sending, no folder listener, no mail, and a banner."""
    again = tmp_path / "again"
    assert "test copy" in ok("restore", file, again, "--as-test-copy")
    with bridge_database(again) as database:
        settings = current(load(again), database)
    assert settings.http.bind.host == "127.0.0.1"
    assert settings.http.bind.port not in {8571, 2571}
    assert settings.http.public_url == f"http://{settings.http.bind}"
    assert settings.http.banner.startswith("TEST COPY of 20")
    assert settings.alerts.mail is None
    assert settings.retention.keep == 0
    enabled = {listener.name: listener.enabled for listener in settings.listener}
    enabled |= {destination.name: destination.enabled for destination in settings.destination}
    assert enabled == {"ris": True, "files": False, "back": False, "street": False}
    (ris,) = [listener for listener in settings.listener if listener.name == "ris"]
    assert str(ris.bind).startswith("127.0.0.1:")
    assert str(ris.bind) != f"127.0.0.1:{settings.http.bind.port}"
    assert (again / "bridge.toml.original").read_text() == SETTINGS


def test_background_jobs_do_not_go_on_in_a_test_copy(home: Path, tmp_path: Path) -> None:
    """A running job is stopped there, and no backup contains the file of an export."""
    with bridge_database(home) as database, database.write() as connection:
        connection.execute(
            text(
                "INSERT INTO background_job (id, kind, title, selection, options, actor,"
                " account_id, reason, state, created_at)"
                " VALUES (1, 'export', '', '{}', '{}', '', '', '', 'running', 1)"
            )
        )
        connection.execute(text("INSERT INTO background_job_part VALUES (1, 0, 'of-the-file')"))
    ok("backup", tmp_path / "a.backup", "--home", home)
    assert not any(b"of-the-file" in data for data in members(tmp_path / "a.backup").values())
    ok("restore", tmp_path / "a.backup", tmp_path / "again", "--as-test-copy")
    with bridge_database(tmp_path / "again") as database, database.read() as connection:
        assert connection.execute(text("SELECT state FROM background_job")).scalar() == "stopped"
        assert connection.execute(text("SELECT * FROM background_job_part")).all() == []


def test_the_copies_of_both_databases_are_of_one_moment(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written while the first database is copied is in neither copy."""
    original = backups._copy_file

    def copy_file(name: str, *arguments: Any) -> Any:
        for stem in ("bridge", "bridge-engine"):
            with closing(sqlite3.connect(home / f"{stem}.db")) as other, other:
                other.execute("CREATE TABLE IF NOT EXISTS later (x)")
        return original(name, *arguments)

    monkeypatch.setattr(backups, "_copy_file", copy_file)
    ok("backup", tmp_path / "a.backup", "--home", home)
    manifest = json.loads(members(tmp_path / "a.backup")["manifest.json"])
    assert [database["name"] for database in manifest["databases"]] == ["bridge", "engine"]
    assert all("later" not in database["rows"] for database in manifest["databases"])


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_ctrl_c_leaves_nothing(
    home: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The command says so, and exits with 130."""

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backups, "verify_file", interrupt)
    monkeypatch.setattr("bridge.admin.backup.restore.verify_file", interrupt)
    target = tmp_path / "target"
    result = (
        bridge("backup", target, "--home", home)
        if command == "backup"
        else bridge("restore", file, target)
    )
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.backup", "home"]


def test_a_comparison_names_each_difference(home: Path, tmp_path: Path) -> None:
    """Settings, connections, files of definitions, sites and secrets, without a secret."""
    other = tmp_path / "other"
    shutil.copytree(home, other)
    text = SETTINGS.replace("10.1.1.1", "10.9.9.9").replace('"90d"', '"30d"')
    (other / "bridge.toml").write_text(text, "utf-8")
    (other / "mappings/codes/own.csv").write_text("code,value\nX,MR\n", "utf-8")
    (other / "mappings/new.yaml").write_text("include: orders.yaml\n", "utf-8")
    (other / "secrets/engine.token").write_text("rbt_other\n", "utf-8")
    ok("site", "add", "SITE2", "--home", other)
    ok("site", "set", "SITE1", "timeZone=Europe/Vienna", "--home", other)
    lines = ok("compare", home, other, expect=1).splitlines()
    for line in (
        "destination back: address: 10.1.1.1:2576 in the first, 10.9.9.9:2576 in the second",
        "definition file codes/own.csv: differs",
        "definition file new.yaml: only in the second",
        "file secrets/engine.token: differs",
    ):
        assert line in lines, lines
    assert any(line.startswith("setting retention.keep: ") for line in lines)
    assert any(line.startswith("site SITE2: ") for line in lines)
    assert any("Europe/Vienna" in line for line in lines)
    assert "rbt_" not in "\n".join(lines)


@pytest.fixture
def postgres_home(postgres_server: str, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """An installation on PostgreSQL, and the address of an empty database."""
    names = [f"backup-{tmp_path.name}-{item}".replace("_", "-")[-60:] for item in "ab"]
    for name in names:
        ask_server(postgres_server, f'CREATE DATABASE "{name}"')
    home = tmp_path / "home"
    ok("init", home)
    first, second = (address_of(postgres_server, name) for name in names)
    (home / "bridge.toml").write_text(f'[database]\nurl = "{first}"\n', "utf-8")
    try:
        ok("site", "add", "SITE1", "--home", home)
        yield home, second
    finally:
        for name in names:
            drop_database(postgres_server, f'"{name}"')


@pytest.mark.postgres
def test_a_backup_of_postgresql(postgres_home: tuple[Path, str], tmp_path: Path) -> None:
    """Rows, partitions, sequences and keys come back, without pg_dump."""
    home, empty = postgres_home
    with bridge_database(home) as database, database.write() as connection:
        connection.exec_driver_sql("SELECT setval('message_ids', 2600000)")
    with bridge_database(home):
        pass  # creates the next partitions
    file, again = tmp_path / "a.backup", tmp_path / "again"
    ok("backup", file, "--home", home)
    refused = bridge("restore", file, again)
    assert "is not empty" in str(refused.exception)
    assert not again.exists()
    ok("restore", file, again, "--database-url", empty)
    lines = ok("compare", home, again, expect=1).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["setting database.url"]
    ok("audit", "verify", "--home", again)
    with bridge_database(again) as database, database.read() as connection:
        ids = connection.exec_driver_sql("SELECT nextval('message_ids')").scalar_one()
        bounds = connection.exec_driver_sql(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'message'::regclass"
        ).scalar_one()
        keys = connection.exec_driver_sql(
            "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conparentid = 0"
        ).scalar_one()
    assert ids == 2_600_001
    with bridge_database(home) as database, database.read() as connection:
        assert (
            bounds
            == connection.exec_driver_sql(
                "SELECT count(*) FROM pg_inherits WHERE inhparent = 'message'::regclass"
            ).scalar_one()
        )
        assert (
            keys
            == connection.exec_driver_sql(
                "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conparentid = 0"
            ).scalar_one()
        )
    ok("site", "add", "SITE2", "--home", again)


@pytest.mark.postgres
def test_a_failed_restore_leaves_the_database_empty(
    postgres_home: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the restore can be tried again."""
    home, empty = postgres_home
    file, again = tmp_path / "a.backup", tmp_path / "again"
    ok("backup", file, "--home", home)
    original = backups._read_table

    def fail(server: Any, table: str, *more: Any) -> None:
        if table == "engine_site":
            raise KeyboardInterrupt
        original(server, table, *more)

    monkeypatch.setattr(backups, "_read_table", fail)
    result = bridge("restore", file, again, "--database-url", empty)
    assert result.exit_code == 130
    assert not again.exists()
    monkeypatch.setattr(backups, "_read_table", original)
    ok("restore", file, again, "--database-url", empty)
