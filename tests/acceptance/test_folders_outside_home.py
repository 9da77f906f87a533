"""A running service leaves folders alone that its connections may not use."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.active_settings import make_connection_record
from bridge.store.databases import bridge_database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import ActivationOrigin
from config.sections import ChannelKind
from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.eventually import eventually


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A service with folders inside HOME, outside of it, and saved by an earlier release."""
    made = House(tmp_path / "home")
    made.listener("inside", bind="folder:inbox", scan_every="50ms")
    made.listener("named", bind=f"folder:{tmp_path}/named", scan_every="50ms")
    made.destination("archive", 0, address=f"folder:{tmp_path}/archive")
    made.make()
    tables = [
        (ChannelKind.LISTENER, {"name": "saved", "bind": "folder:../saved", "site": "SITE1"}),
        (ChannelKind.DESTINATION, {"name": "cron", "address": f"folder:{tmp_path}/cron"}),
    ]
    with bridge_database(made.home) as database, database.write() as connection:
        for kind, table in tables:
            record = make_connection_record(kind, table["name"], table)
            mapping_versions.activate(connection, record, 1, "ann", "", ActivationOrigin.ACTIVATE)
    yield made
    assert made.stop() == 0


def test_files_outside_of_home_stay_where_they_are(house: House, tmp_path: Path) -> None:
    """The service runs without these connections, and says why; the others work."""
    folders = {name: tmp_path / name for name in ("named", "saved")}
    for name, folder in folders.items():
        folder.mkdir()
        (folder / "id_rsa").write_bytes(order(len(name)))
    house.start()
    (house.home / "inbox/a.hl7").write_bytes(order(1))
    house.await_rows(1)
    eventually(lambda: not (house.home / "inbox/a.hl7").exists())
    refused = {"saved"} | ({"named"} if os.geteuid() == 0 else set())
    for name in refused:
        assert [path.name for path in folders[name].iterdir()] == ["id_rsa"]
    assert not (tmp_path / "cron").exists()
    eventually(lambda: not _troubles(house)["inside"])  # a node reports its state every few seconds
    shown = _troubles(house)
    for name in refused | {"cron"}:
        assert "is not inside HOME" in json.dumps(shown[name]), shown
        assert f"{tmp_path / name} is not inside HOME" in house.log()
    checked = house.bridge("check", expect=1)
    assert "listener saved: bind: " in checked
    assert "destination cron: address: " in checked
    assert ("destination archive: address: " in checked) is (os.geteuid() == 0)


def _troubles(house: House) -> dict[str, object]:
    return {
        channel["name"]: channel["trouble"]
        for kind in ("listeners", "destinations")
        for channel in json.loads(house.bridge(kind, "list", "--json"))
    }
