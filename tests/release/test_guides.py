"""
The commands of the operation guides have the documented effect.

Each test runs the shell blocks of a guide with `bash -euo pipefail`. Only the lines with locations
(`export …=`) are replaced. Commands that need the network or an init system are not executed:
`pip install`, and `systemctl`, `useradd` and `runuser`, which have stubs.
"""

import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.wiring.active_settings import current
from bridge.wiring.stores import bridge_database
from config import load
from tests.acceptance.house import House, bridge
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender
from tests.conftest import address_of, ask_server, drop_database
from tests.programs import SQLITE3, SYSTEMD_ANALYZE
from tests.release.guides import PROGRAMS, ROOT, commands, run

UNIT = ROOT / "deploy" / "report-bridge.service"
OF_SQLITE, OF_POSTGRESQL = ("bridge.db",), ("pg_dump", "pg_restore", "psql")


@pytest.mark.needs(SQLITE3)
def test_a_backup_is_restored(tmp_path: Path) -> None:
    """A restored folder has settings, secrets and both databases, and passes the check."""
    home, again, backup = tmp_path / "home", tmp_path / "again", tmp_path / "backup"
    bridge("init", str(home))
    bridge("site", "add", "SITE1", "--home", str(home))
    guide = "docs/guides/backup-and-restore.md"
    run(commands(guide, "Back up (SQLite)"), BRIDGE_HOME=home, BACKUP=backup)
    printed = run(commands(guide, "Restore", OF_POSTGRESQL), BRIDGE_HOME=again, BACKUP=backup)
    assert "SITE1" in bridge("site", "list", "--home", str(again))
    names = {path.relative_to(again).as_posix() for path in again.rglob("*")}
    assert {"bridge.toml", "secrets/index.key", "bridge.db", "bridge-engine.db"} <= names
    assert "other users" not in printed


@pytest.fixture
def installation(postgres_server: str, tmp_path: Path) -> Iterator[tuple[House, str]]:
    """A service on its own PostgreSQL database, and the database's name."""
    name = f"guide-{uuid.uuid4().hex[:12]}"
    ask_server(postgres_server, f'CREATE DATABASE "{name}"')
    house = House(tmp_path / "home", database=address_of(postgres_server, name))
    try:
        house.make()
        house.start()
        yield house, name
    finally:
        house.kill()
        for each in (name, f"{name}-before-restore"):
            drop_database(postgres_server, f'"{each}"')


@pytest.mark.postgres
@pytest.mark.slow
def test_a_postgresql_backup_is_restored(
    installation: tuple[House, str], postgres_server: str, tmp_path: Path
) -> None:
    """A restore removes later orders and tables, and keeps the old database under another name."""
    house, name = installation
    backup, again = tmp_path / "backup", tmp_path / "again"
    plain = postgres_server.replace("+psycopg", "")
    given: dict[str, str | Path] = {
        "BACKUP": backup,
        "DATABASE_URL": address_of(plain, name),
        "ADMIN_URL": plain,
        "DATABASE": name,
        "OWNER": "postgres",
    }
    with Sender(house.mllp_port) as sender:
        sender.ask(order(1))
        house.settle()
        guide = "docs/guides/backup-and-restore.md"
        run(commands(guide, "Back up (PostgreSQL)"), BRIDGE_HOME=house.home, **given)
        sender.ask(order(2))
        house.settle()
    house.stop()
    newer = 'psql -v ON_ERROR_STOP=1 -c "CREATE TABLE of_a_newer_release ()" "$DATABASE_URL"'
    run(newer, **given)

    run(commands(guide, "Restore", OF_SQLITE), BRIDGE_HOME=again, **given)
    listed = bridge("messages", "list", "--home", str(again), "--json")
    assert len(json.loads(listed)) == 1
    tables = 'psql -At -c "SELECT relname FROM pg_class WHERE reltuples > 0" "$DATABASE_URL"'
    assert "engine_site" in run(tables, **given)  # there are statistics, so ANALYZE was executed
    assert "of_a_newer_release" not in run(tables.replace("reltuples > 0", "true"), **given)
    kept = {"DATABASE_URL": address_of(plain, f"{name}-before-restore")}
    assert "of_a_newer_release" in run(tables.replace("reltuples > 0", "true"), **kept)
    for file in (backup / "bridge.dump", backup / "home.tar"):
        assert file.stat().st_mode & 0o077 == 0, file


def test_an_upgrade_and_the_rollback_of_a_mapping(tmp_path: Path) -> None:
    """An upgrade checks and migrates before the start; a mapping returns to its version."""
    home, guide = tmp_path / "home", "docs/guides/upgrade-and-rollback.md"
    bridge("init", str(home))
    bridge("site", "add", "SITE1", "--home", str(home))
    printed = run(commands(guide, "Upgrade"), BRIDGE_HOME=home)
    assert re.search(r"^\S.*\d+\.\d+", printed)
    definition = home / "mappings" / "orders.yaml"
    shipped = definition.read_text("utf-8")
    bridge("mapping", "activate", "orders", "-m", "first", "--home", str(home))
    definition.write_text(f"{shipped}\n# changed\n", "utf-8")
    bridge("mapping", "activate", "orders", "-m", "second", "--home", str(home))
    run(commands(guide, "Roll back a mapping or a connection"), BRIDGE_HOME=home)
    history = bridge("mapping", "history", "orders", "--home", str(home))
    newest, second, first = re.findall(r"^([0-9a-f]{16}) ", history, re.MULTILINE)
    assert "wrong accession" in history
    assert newest == first != second


def test_an_interface_is_promoted_from_test_to_production(tmp_path: Path) -> None:
    """Twice: production gets the settings of test, and keeps its own address."""
    test, production, guide = (
        tmp_path / "test",
        tmp_path / "home",
        commands(
            "docs/guides/upgrade-and-rollback.md", "Promote an interface from test to production"
        ),
    )
    tables = (
        '[[listener]]\nname = "ris-orders"\nbind = "127.0.0.1:{port}"\nsite = "{site}"\n'
        '[[destination]]\nname = "ris-results"\naddress = "127.0.0.1:{port}"\n'
    )
    for home, port in ((test, 2599), (production, 2600)):
        bridge("init", str(home))
        (home / "bridge.toml").write_text(tables.format(port=port, site="SITE1"), "utf-8")
    for step, site in enumerate(("SITE2", "SITE3")):
        (test / "bridge.toml").write_text(tables.format(port=2599, site=site), "utf-8")
        package = tmp_path / f"package-{step}"
        printed = run(guide, TEST_HOME=test, BRIDGE_HOME=production, PACKAGE=package)
        assert f"site: SITE{step + 1} -> {site}" in printed
        with bridge_database(production) as database:
            (listener,) = current(load(production), database).listener
        assert (listener.site, listener.bind.port) == (site, 2600)  # type: ignore[union-attr]


def test_the_service_is_installed_with_systemd(tmp_path: Path) -> None:
    """The commands of the guide install a service, below another root and with system stubs."""
    folders = ("opt", "var/lib", "etc/systemd/system", "stubs")
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    venv = f"mkdir -p {tmp_path}/opt/report-bridge/bin; cd {tmp_path}/opt/report-bridge/bin"
    tool = Path(sys.executable).parent / "bridge"
    stubs = {
        "useradd": 'echo "useradd $*" >> "$CALLS"',
        "systemctl": 'echo "systemctl $*" >> "$CALLS"',
        "python3": f'{venv}; ln -s {tool} bridge; printf "#!/bin/sh\\n" > pip; chmod +x pip',
        "runuser": 'shift 3; exec "$@"',
        "install": 'a=(); while (($#)); do case $1 in -o|-g) shift;; *) a+=("$1");; esac; shift;'
        ' done; exec /usr/bin/install "${a[@]}"',
    }
    for name, text in stubs.items():
        file = tmp_path / "stubs" / name
        file.write_text(f"#!/bin/bash\n{text}\n", "utf-8")
        file.chmod(0o755)
    script = commands("docs/guides/install.md", "systemd")
    script = re.sub(r"(?<![\w.])/(opt|var|etc)/", rf"{tmp_path}/\1/", script)
    calls, path = tmp_path / "calls", f"{tmp_path}/stubs:{':'.join(map(str, PROGRAMS))}"
    run(f"cd {ROOT}\n{script}", PATH=path, CALLS=calls)

    home = tmp_path / "var/lib/report-bridge"
    assert home.stat().st_mode & 0o777 == 0o700
    assert calls.read_text("utf-8").splitlines()[1:] == [
        "systemctl daemon-reload",
        "systemctl enable --now report-bridge",
    ]
    unit = (tmp_path / "etc/systemd/system/report-bridge.service").read_text("utf-8")
    (check,) = re.findall(r"^ExecStartPre=(.*)", unit, re.MULTILINE)
    bridge(*check.replace("/var/lib", f"{tmp_path}/var/lib").split()[1:])


@pytest.mark.needs(SYSTEMD_ANALYZE)
def test_the_systemd_unit_is_valid(tmp_path: Path) -> None:
    """`systemd-analyze verify` reports no problem."""
    tool = str(Path(sys.executable).parent / "bridge")
    text = UNIT.read_text("utf-8").replace("/opt/report-bridge/bin/bridge", tool)
    (tmp_path / "report-bridge.service").write_text(text, "utf-8")
    run_verify = f"systemd-analyze verify {tmp_path}/report-bridge.service"
    assert run(run_verify) == ""  # it exits with 0 even for unknown keys
