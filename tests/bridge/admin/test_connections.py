"""Listeners and destinations set up in the console: what is refused, and whose word counts."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bridge.admin.checks.checks import check_home
from bridge.admin.checks.live import check_live
from bridge.admin.console_connections import ConsoleConnections
from bridge.admin.data_directory import create_data_directory
from bridge.console.context import ConnectionChange, ProposedConnection
from bridge.console.errors import ChangeConflict, InvalidContent, InvalidState, NoSuchItem
from bridge.monitoring.channels import ChannelKind
from bridge.store.database import Database
from bridge.wiring import stores
from bridge.wiring.active_settings import connections_of, current, origin_of
from config import Settings, load

SETTINGS = """
[http]
bind = "127.0.0.1:8999"
[[listener]]
name = "ris"
bind = "127.0.0.1:2599"
site = "SITE1"
[[destination]]
name = "back"
address = "127.0.0.1:9"
"""
STREET = {"name": "street", "address": "folder:out"}


class Office:
    """A home, and who sets up connections in it."""

    def __init__(self, home: Path) -> None:
        create_data_directory(home)
        (home / "bridge.toml").write_text(SETTINGS, "utf-8")
        self.settings: Settings = load(home)
        self.database: Database = stores.open_bridge_database(self.settings)
        stores.migrate_bridge(self.database)
        self.setup = ConsoleConnections(self.settings, self.database, lambda: 1_000)

    def put(
        self, name: str, table: Any, *, kind: str = "destination", new: bool = False, on: str = ""
    ) -> str:
        """Put settings into force; `on`: what they were begun on."""
        done = self.setup.save(ConnectionChange(kind, name, "ann", "a test", on, table, new))
        return str(done["version"])

    def address(self, name: str) -> str:
        """The address of a destination in force; empty where there is none."""
        found = connections_of(current(self.settings, self.database), ChannelKind.DESTINATION)
        return next((str(each.address) for each in found if each.name == name), "")  # type: ignore[union-attr]

    def wrong(self, kind: str, table: dict[str, Any], *, new: bool = True) -> dict[str, str]:
        """What is wrong with a plan, by its fields."""
        found = self.setup.check(ProposedConnection(kind, table, new))["mistakes"]
        return {each["field"]: each["text"] for each in found}


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A home with a listener and a destination."""
    made = Office(tmp_path / "home")
    yield made
    made.database.dispose()


@pytest.mark.parametrize(
    ("kind", "table", "field", "text"),
    [
        ("destination", {"name": "a b", "address": "folder:x"}, "name", "write letters"),
        ("destination", {"name": "back", "address": "folder:x"}, "name", "of this name"),
        ("destination", {"name": "d", "address": "nowhere"}, "address", "host:port"),
        ("destination", {**STREET, "time_zone": "Mars"}, "time_zone", "IANA"),
        ("destination", {**STREET, "mapping": "resluts"}, "mapping", "resluts"),
        ("destination", {**STREET, "mapping": "orders"}, "", "outgoing"),
        ("destination", {**STREET, "colour": "red"}, "colour", "unknown key"),
        ("destination", {**STREET, "tls": {}}, "tls", "folder"),
        ("destination", {**STREET, "authorization_file": "x"}, "authorization_file", "no setting"),
        ("destination", {**STREET, "address": "a:1", "tls": {"ca": "none.pem"}}, "", "tls.ca"),
        ("listener", {"name": "l", "bind": "127.0.0.1:2599", "site": "S"}, "bind", "listener ris"),
        ("listener", {"name": "l", "bind": "127.0.0.1:8999", "site": "S"}, "bind", "web side"),
        ("listener", {"name": "l", "bind": "127.0.0.1:1"}, "site", "no SiteID"),
        (
            *("listener", {"name": "l", "bind": "127.0.0.1:1", "site": "S", "share_port": True}),
            *("share_port", "PostgreSQL"),
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    office: Office, kind: str, table: dict[str, Any], field: str, text: str
) -> None:
    """As bridge.toml would be checked, and what only an installation knows."""
    found = office.wrong(kind, table)
    assert list(found) == [field]
    assert text in found[field]
    with pytest.raises(InvalidContent):
        office.put(table["name"], table, kind=kind, new=True)
    assert current(office.settings, office.database) == office.settings


@pytest.mark.parametrize("kind", ["listener", "destination"])
def test_a_console_user_names_no_file_outside_of_home(office: Office, kind: str) -> None:
    """The service would send its first line to an address of the user's choice."""
    home, outside = office.settings.home, office.settings.home.parent / "token"
    outside.write_text("Bearer t", "utf-8")
    (home / "secrets/street.auth").write_text("Bearer s", "utf-8")
    (home / "secrets/away").symlink_to(outside)
    where = "bind" if kind == "listener" else "address"
    table = {"name": "street", where: "http://127.0.0.1:1/x"}
    table |= {"site": "S"} if kind == "listener" else {}
    for file in (str(outside), "../token", "secrets/away", "secrets/../../token"):
        found = office.wrong(kind, {**table, "authorization_file": file})
        assert list(found) == ["authorization_file"], (file, found)
    assert office.wrong(kind, {**table, "authorization_file": "secrets/street.auth"}) == {}


def test_a_file_that_bridge_toml_names_stays_usable(office: Office) -> None:
    """The operator has named it for a connection."""
    outside = office.settings.home.parent / "street.auth"
    outside.write_text("Bearer s", "utf-8")
    table = {"name": "street", "address": "http://127.0.0.1:1/", "authorization_file": str(outside)}
    assert list(office.wrong("destination", table)) == ["authorization_file"]
    own = SETTINGS + "".join(
        ["[[destination]]\n", *(f'{key} = "{value}"\n' for key, value in table.items())]
    )
    (office.settings.home / "bridge.toml").write_text(own, "utf-8")
    setup = ConsoleConnections(load(office.settings.home), office.database, lambda: 1_000)
    assert setup.check(ProposedConnection("destination", table, new=False))["mistakes"] == []


def test_changed_switched_off_and_back(office: Office) -> None:
    """One step back each time; what was overtaken, and what nobody may remove, is refused."""
    first = office.put("street", STREET, new=True)
    second = office.put("street", {**STREET, "address": "folder:other"}, on=first)
    assert office.address("street") == "folder:other"
    with pytest.raises(ChangeConflict):
        office.put("street", STREET, on=first)
    with pytest.raises(InvalidState, match="switch destination street off first"):
        office.put("street", None, on=second)
    back = ConnectionChange("destination", "street", "ben", "no", second)
    assert office.setup.rollback(back)["version"] == first
    assert office.address("street") == "folder:out"
    off = office.put("street", {**STREET, "enabled": False}, on=first)
    assert office.put("street", None, on=off)
    assert office.address("street") == ""
    told = office.setup.connection("destination", "street")
    assert told["table"] is None
    assert [each["actor"] for each in told["history"]] == ["ann", "ann", "ben", "ann", "ann"]
    with pytest.raises(NoSuchItem):
        office.setup.connection("destination", "nobody")


def test_the_consoles_word_goes_before_the_files(office: Office) -> None:
    """It is said so wherever one looks, and the file has its word back when somebody says so."""
    version = office.put("back", {"address": "folder:back"})
    assert office.address("back") == "folder:back"
    now = current(office.settings, office.database)
    assert origin_of(office.settings, now, ChannelKind.DESTINATION, "back") == "both"
    told = [each.message for each in check_home(office.settings.home)]
    assert "the console overrides bridge.toml" in told
    office.put("street", {"address": "127.0.0.1:1"}, new=True)
    asked = [each.place for each in check_live(office.settings.home)]
    assert asked == ["destination street"], "each is asked as it is in force"
    office.put("back", None, on=version)
    assert office.address("back") == "127.0.0.1:9"
    assert origin_of(office.settings, office.settings, ChannelKind.DESTINATION, "back") == "file"


def test_a_definition_that_only_a_file_has_comes_along(office: Office) -> None:
    """Other nodes may not have the file: what a new connection works with is kept with it."""
    file = office.settings.home / "mappings" / "street.yaml"
    file.write_text("include: results.yaml\norders: combined\n")
    office.put("street", {**STREET, "mapping": "street"}, new=True)
    file.unlink()
    assert office.wrong("destination", {**STREET, "mapping": "street"}, new=False) == {}


@pytest.mark.anyio
async def test_a_listener_is_tried_by_its_port(office: Office) -> None:
    """Whether it is free, for nobody can connect to what does not listen yet."""
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        plan = ProposedConnection(
            "listener", {"name": "l", "bind": f"127.0.0.1:{port}", "site": "S"}, new=True
        )
        (taken,) = await office.setup.try_out(plan)
    (free,) = await office.setup.try_out(plan)
    assert [(each["name"], each["ok"]) for each in (taken, free)] == [
        ("free", False),
        ("free", True),
    ]
