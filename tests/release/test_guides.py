"""
The commands of the operation guides have the documented effect.

Each test runs the shell blocks of a guide with `bash -euo pipefail`. Only the lines with locations
(`export …=`) are replaced. Commands that need the network or an init system are not executed:
`pip install`, and `systemctl`, `useradd` and `runuser`, which have stubs.
"""

import csv
import json
import re
import sys
import tomllib
import zipfile
from pathlib import Path

import httpx
import pytest

from bridge.active_settings import current
from bridge.store.databases import bridge_database
from config import load
from tests.acceptance.forked import Forked
from tests.acceptance.house import House, bridge
from tests.acceptance.orders import order
from tests.acceptance.serving import Serving
from tests.eventually import PATIENCE
from tests.programs import SYSTEMD_ANALYZE
from tests.release.guides import PROGRAMS, ROOT, commands, run
from tests.trust import TRUSTED

UNIT = ROOT / "deploy" / "report-bridge.service"
OF_POSTGRESQL = ("--database-url",)


def test_a_backup_is_restored_and_copied(tmp_path: Path) -> None:
    """The commands of the guide back up a running service, restore it, and make a test copy."""
    house = House(tmp_path / "home")
    house.destination("back", 9)
    house.make()
    house.start()
    again, copy, backup = tmp_path / "again", tmp_path / "copy", tmp_path / "backup"
    guide = "docs/guides/backup-and-restore.md"
    try:
        house.send(order(1))
        run(commands(guide, "Back up"), BRIDGE_HOME=house.home, BACKUP=backup)
        house.send(order(2))
    finally:
        assert house.stop() == 0
    run(commands(guide, "Restore", OF_POSTGRESQL), BRIDGE_HOME=again, BACKUP=backup)
    assert len(json.loads(bridge("messages", "list", "--home", str(again), "--json"))) == 1
    assert (backup / "today.backup").stat().st_mode & 0o077 == 0
    run(commands(guide, "Make a test copy"), TEST_HOME=copy, BACKUP=backup)

    address = tomllib.loads((copy / "bridge.toml").read_text("utf-8"))["http"]["bind"]
    service = Serving(copy, f"http://{address}", (), {}, Forked)
    service.wait()
    try:
        page = httpx.get(f"http://{address}/reporting/login", timeout=PATIENCE, verify=TRUSTED)
        assert "TEST COPY of 20" in page.text
        listed = json.loads(bridge("destinations", "list", "--home", str(copy), "--json"))
        assert [row["name"] for row in listed if row["state"] == "running"] == []
    finally:
        service.stop()


def test_messages_are_exported(tmp_path: Path) -> None:
    """The commands of the guide list jobs, and export raw, as a table, and without patient data."""
    house = House(tmp_path / "home")
    house.make()
    house.start()
    try:
        house.send(order(1, name="CANARY^NELL"))
        house.settle()
    finally:
        assert house.stop() == 0
    chapters = (
        *("Background jobs", "Export", "Samples without patient data"),
        "Keep samples as tests of a mapping",
    )
    for chapter in chapters:
        script = commands("docs/guides/bulk-work.md", chapter)
        run(f"cd {tmp_path}\n{script}", BRIDGE_HOME=house.home)
    with zipfile.ZipFile(tmp_path / "messages.zip") as messages:
        assert b"CANARY" in messages.read("1.hl7")
    with zipfile.ZipFile(tmp_path / "samples.zip") as samples:
        assert samples.read("000001.hl7").startswith(b"MSH|")
        assert b"CANARY" not in samples.read("000001.hl7").upper()
    (row,) = csv.DictReader((tmp_path / "table.csv").read_text("utf-8-sig").splitlines())
    assert row["accession"]
    assert (tmp_path / "messages.zip").stat().st_mode & 0o077 == 0


def test_an_upgrade_and_the_rollback_of_a_mapping(tmp_path: Path) -> None:
    """An upgrade checks and migrates before the start; a mapping returns to its version."""
    home, guide = tmp_path / "home", "docs/guides/upgrade-and-rollback.md"
    bridge("init", str(home))
    bridge("site", "add", "SITE1", "--home", str(home))
    shown = commands(guide, "Upgrade", ("systemctl", "podman", "git "))
    printed = run(shown, BRIDGE_HOME=home, BACKUP=tmp_path / "backups")
    assert (tmp_path / "backups/before-upgrade.backup").exists()
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


@pytest.mark.parametrize("way", ["systemd", "Container", "Offline"])
def test_the_service_is_stopped_while_a_release_is_installed(tmp_path: Path, way: str) -> None:
    """Both ways: stop, install the release that the guide names, start."""
    page = (ROOT / "docs/guides/upgrade-and-rollback.md").read_text("utf-8")
    chapter = page.partition(f"### {way}\n")[2].partition("\n### ")[0]
    (tmp_path / "stubs").mkdir()
    for name in ("systemctl", "podman", "git", "pip"):
        stub = tmp_path / "stubs" / name
        stub.write_text(f'#!/bin/bash\necho "{name} $*" >> "$CALLS"\n', "utf-8")
        stub.chmod(0o755)
    path = f"{tmp_path}/stubs:{':'.join(map(str, PROGRAMS))}"
    for at, script in enumerate(re.findall(r"```sh\n(.*?)```", chapter, re.DOTALL)):
        calls = tmp_path / f"calls-{at}"
        run(script.replace("/opt/report-bridge/bin/", ""), PATH=path, CALLS=calls)
        words = calls.read_text("utf-8")
        kinds = [line.split()[:2] for line in words.splitlines()]
        if way == "Container":
            continue
        begin, end = kinds.index(["systemctl", "stop"]), kinds.index(["systemctl", "start"])
        assert [kind[0] for kind in kinds[begin + 1 : end]] == ["pip", "pip"]
        assert ("0.2.0" in words, "0.1.0" in words) == (at == 0, at == 1)


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
