"""Listeners and destinations of the console: refusals, and precedence over bridge.toml."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bridge.active_settings import (
    connections_of,
    current,
    make_connection_record,
    origin_of,
)
from bridge.admin.checks.checks import CheckSeverity, check_home
from bridge.admin.checks.live import check_live
from bridge.admin.connection_settings import ConnectionChange, Connections, ProposedConnection
from bridge.admin.errors import ChangeConflict, InvalidContent, InvalidState, NoSuchItem
from bridge.store import databases
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import ActivationOrigin, MappingDraft
from config import Settings, load
from config.dicom import DicomPeer
from config.sections import ChannelKind, PeerKind
from tests.databases import create_migrated_home

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


class ConnectionsHarness:
    def __init__(self, home: Path) -> None:
        create_migrated_home(home)
        (home / "bridge.toml").write_text(SETTINGS, "utf-8")
        self.settings: Settings = load(home)
        self.database: Database = databases.open_bridge_database(self.settings)
        databases.migrate_bridge(self.database)
        self.setup = Connections(self.settings, self.database, lambda: 1_000)

    def put(
        self, name: str, table: Any, *, kind: str = "destination", new: bool = False, on: str = ""
    ) -> str:
        """Activate settings; `on` is the version they are based on."""
        done = self.setup.save(
            ConnectionChange(ChannelKind(kind), name, "ann", "a test", on, table, new)
        )
        return str(done["version"])

    def address(self, name: str) -> str:
        """The address of an active destination; empty if there is none."""
        found = connections_of(current(self.settings, self.database), ChannelKind.DESTINATION)
        addresses = {one.name: str(one.address) for one in found if hasattr(one, "address")}
        return addresses.get(name, "")

    def mistakes(self, kind: str, table: dict[str, Any], *, new: bool = True) -> dict[str, str]:
        found = self.setup.check(ProposedConnection(ChannelKind(kind), table, new))["mistakes"]
        return {row["field"]: row["text"] for row in found}


def save_as_before(database: Database, kind: str, table: dict[str, Any]) -> None:
    """Store a connection without the checks of this release."""
    record = make_connection_record(ChannelKind(kind), table["name"], table)
    with database.write() as connection:
        mapping_versions.activate(connection, record, 1, "ann", "", ActivationOrigin.ACTIVATE)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ConnectionsHarness]:
    made = ConnectionsHarness(tmp_path / "home")
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
        (
            "destination",
            {**STREET, "authorization_file": "x"},
            "authorization_file",
            "not a setting",
        ),
        ("destination", {**STREET, "address": "a:1", "tls": {"ca": "none.pem"}}, "", "tls.ca"),
        ("listener", {"name": "l", "bind": "127.0.0.1:2599", "site": "S"}, "bind", "listener ris"),
        ("listener", {"name": "l", "bind": "127.0.0.1:8999", "site": "S"}, "bind", "web server"),
        ("listener", {"name": "l", "bind": "127.0.0.1:1"}, "site", "no SiteID"),
        (
            *("listener", {"name": "l", "bind": "127.0.0.1:1", "site": "S", "share_port": True}),
            *("share_port", "PostgreSQL"),
        ),
    ],
)
def test_mistakes_are_reported_at_their_field(
    harness: ConnectionsHarness, kind: str, table: dict[str, Any], field: str, text: str
) -> None:
    """The check reports each mistake at its field, also conflicts in the installation."""
    found = harness.mistakes(kind, table)
    assert list(found) == [field]
    assert text in found[field]
    with pytest.raises(InvalidContent):
        harness.put(table["name"], table, kind=kind, new=True)
    assert current(harness.settings, harness.database) == harness.settings


@pytest.mark.parametrize("kind", ["listener", "destination"])
def test_a_console_user_names_no_file_outside_of_home(
    harness: ConnectionsHarness, kind: str
) -> None:
    """A file outside of HOME is refused: the service would send its first line to any address."""
    home, outside = harness.settings.home, harness.settings.home.parent / "token"
    outside.write_text("Bearer t", "utf-8")
    (home / "secrets/street.auth").write_text("Bearer s", "utf-8")
    (home / "secrets/away").symlink_to(outside)
    where = "bind" if kind == "listener" else "address"
    table = {"name": "street", where: "http://127.0.0.1:1/x"}
    table |= {"site": "S"} if kind == "listener" else {}
    for file in (str(outside), "../token", "secrets/away", "secrets/../../token"):
        found = harness.mistakes(kind, {**table, "authorization_file": file})
        assert list(found) == ["authorization_file"], (file, found)
    assert harness.mistakes(kind, {**table, "authorization_file": "secrets/street.auth"}) == {}


@pytest.mark.parametrize("kind", ["listener", "destination"])
@pytest.mark.parametrize("path", ["/root/.ssh", "/etc", "../outside", "link/x", "~/x", "secrets"])
async def test_a_console_user_names_no_folder_outside_of_home(
    harness: ConnectionsHarness, kind: str, path: str
) -> None:
    """It is neither checked, tried out nor saved: a listener would read and move its files."""
    home = harness.settings.home
    (home.parent / "outside").mkdir()
    (home / "link").symlink_to(home.parent / "outside")
    where = "bind" if kind == "listener" else "address"
    table = {"name": "x", where: f"folder:{path}", **({"site": "S"} if kind == "listener" else {})}
    assert list(harness.mistakes(kind, table)) == [where]
    with pytest.raises(InvalidContent) as refused:
        await harness.setup.try_out(ProposedConnection(ChannelKind(kind), table, new=True))
    assert refused.value.more["mistakes"][0]["field"] == where
    with pytest.raises(InvalidContent):
        harness.put("x", table, kind=kind, new=True)
    assert list((home.parent / "outside").iterdir()) == []


@pytest.mark.parametrize("kind", ["listener", "destination"])
def test_the_check_finds_connections_that_an_earlier_release_saved(
    harness: ConnectionsHarness, kind: str
) -> None:
    """`bridge check` names the connection, the setting and the path, and reads nothing there."""
    where = "bind" if kind == "listener" else "address"
    table = {"name": "x", where: "folder:../outside"} | ({"site": "S"} if where == "bind" else {})
    save_as_before(harness.database, kind, table)
    found = [
        finding for finding in check_home(harness.settings.home) if finding.place == f"{kind} x"
    ]
    (refused,) = [item for item in found if item.severity is CheckSeverity.ERROR]
    assert refused.message.startswith(f"{where}: ")
    assert "is not inside HOME; only bridge.toml can name such a path" in refused.message
    check_live(harness.settings.home)
    assert not (harness.settings.home.parent / "outside").exists()


def test_a_file_that_bridge_toml_names_stays_usable(harness: ConnectionsHarness) -> None:
    """The operator named the file for this connection, so the console accepts it."""
    outside = harness.settings.home.parent / "street.auth"
    outside.write_text("Bearer s", "utf-8")
    table = {"name": "street", "address": "http://127.0.0.1:1/", "authorization_file": str(outside)}
    assert list(harness.mistakes("destination", table)) == ["authorization_file"]
    own = SETTINGS + "".join(
        ["[[destination]]\n", *(f'{key} = "{value}"\n' for key, value in table.items())]
    )
    (harness.settings.home / "bridge.toml").write_text(own, "utf-8")
    setup = Connections(load(harness.settings.home), harness.database, lambda: 1_000)
    assert (
        setup.check(ProposedConnection(ChannelKind.DESTINATION, table, new=False))["mistakes"] == []
    )


def test_change_disable_and_rollback(harness: ConnectionsHarness) -> None:
    """Rollback goes one step back. Outdated changes and forbidden removals are refused."""
    first = harness.put("street", STREET, new=True)
    second = harness.put("street", {**STREET, "address": "folder:other"}, on=first)
    assert harness.address("street") == "folder:other"
    with pytest.raises(ChangeConflict):
        harness.put("street", STREET, on=first)
    with pytest.raises(InvalidState, match="disable destination street first"):
        harness.put("street", None, on=second)
    back = ConnectionChange(ChannelKind.DESTINATION, "street", "ben", "no", second)
    assert harness.setup.rollback(back)["version"] == first
    assert harness.address("street") == "folder:out"
    off = harness.put("street", {**STREET, "enabled": False}, on=first)
    assert harness.put("street", None, on=off)
    assert harness.address("street") == ""
    connection = harness.setup.connection(ChannelKind.DESTINATION, "street")
    assert connection["table"] is None
    assert [entry["actor"] for entry in connection["history"]] == [
        "ann",
        "ann",
        "ben",
        "ann",
        "ann",
    ]
    with pytest.raises(NoSuchItem):
        harness.setup.connection(ChannelKind.DESTINATION, "unknown")


def test_the_console_overrides_the_file(harness: ConnectionsHarness) -> None:
    """The console overrides bridge.toml, and reports it. A removed override restores the file."""
    version = harness.put("back", {"address": "folder:back"})
    assert harness.address("back") == "folder:back"
    now = current(harness.settings, harness.database)
    assert origin_of(harness.settings, now, ChannelKind.DESTINATION, "back") == "both"
    messages = [finding.message for finding in check_home(harness.settings.home)]
    assert "the console overrides bridge.toml" in messages
    harness.put("street", {"address": "127.0.0.1:1"}, new=True)
    places = [check_finding.place for check_finding in check_live(harness.settings.home)]
    assert places == ["destination street"], "the check uses the active settings"
    harness.put("back", None, on=version)
    assert harness.address("back") == "127.0.0.1:9"
    assert origin_of(harness.settings, harness.settings, ChannelKind.DESTINATION, "back") == "file"


def test_a_definition_of_a_file_is_stored_with_the_connection(harness: ConnectionsHarness) -> None:
    """The bridge stores the definition of a new connection: other nodes may lack the file."""
    file = harness.settings.home / "mappings" / "street.yaml"
    file.write_text("include: results.yaml\norders: combined\n")
    harness.put("street", {**STREET, "mapping": "street"}, new=True)
    file.unlink()
    assert harness.mistakes("destination", {**STREET, "mapping": "street"}, new=False) == {}


async def test_trial_of_a_listener(harness: ConnectionsHarness) -> None:
    """The trial of a listener checks whether its port is free."""
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        plan = ProposedConnection(
            ChannelKind.LISTENER, {"name": "l", "bind": f"127.0.0.1:{port}", "site": "S"}, new=True
        )
        (taken,) = await harness.setup.try_out(plan)
    (free,) = await harness.setup.try_out(plan)
    assert [(row["name"], row["ok"]) for row in (taken, free)] == [
        ("free", False),
        ("free", True),
    ]


def test_a_ticked_tls_without_files(harness: ConnectionsHarness) -> None:
    """Empty file names are mistakes of their own fields, and not the data directory."""
    table = {"name": "web", "bind": "127.0.0.1:2601", "site": "SITE1"}
    found = harness.mistakes("listener", {**table, "tls": {"certificate": "", "key": ""}})
    assert found.keys() == {"tls.certificate", "tls.key"}
    assert set(found.values()) == {"write the path of a file, relative to HOME"}


def test_a_listener_of_a_draft(harness: ConnectionsHarness) -> None:
    """A listener that names a drafted definition is refused with what to do."""
    draft = MappingDraft(
        "fresh", "ann", {"fresh.yaml": "kind: orders\ninclude: orders.yaml\n"}, "", 0, "", 1
    )
    with harness.database.write() as connection:
        mapping_versions.save_draft(connection, draft)
    table = {"name": "web", "bind": "127.0.0.1:2601", "site": "SITE1", "mappings": ["fresh"]}
    (text,) = harness.mistakes("listener", table).values()
    assert text.startswith("fresh is a draft: activate it first")


PEER: dict[str, Any] = {"ae_title": "CT 1", "addresses": ["10.1.0.0/16"]}


def save_peer(harness: ConnectionsHarness, table: dict[str, Any] | None, on: str = "") -> str:
    name = "CT 1" if table is None else table["ae_title"]
    change = ConnectionChange(PeerKind.DICOM, name, "ann", "a test", on, table)
    return str(harness.setup.save(change)["version"])


def peers(harness: ConnectionsHarness) -> list[DicomPeer]:
    return current(harness.settings, harness.database).dicom.peer


@pytest.mark.parametrize(
    ("table", "field", "text"),
    [
        ({**PEER, "ae_title": "A TITLE WITH MORE THAN 16"}, "ae_title", "16"),
        ({**PEER, "addresses": ["ten"]}, "addresses", "address"),
        ({"ae_title": "CT 1"}, "addresses", 'for example addresses = ["'),
        ({**PEER, "may": ["all"]}, "may", "worklist"),
        ({**PEER, "charset": "utf-8"}, "charset", "Specific Character Set"),
        ({**PEER, "token_file": "none.token"}, "token_file", "No such file"),
        ({**PEER, "token_file": "../outside"}, "token_file", "not inside HOME"),
        ({**PEER, "token_file": "bridge.toml"}, "token_file", "belongs to the installation"),
        ({**PEER, "token_file": "bridge.db"}, "token_file", "belongs to the installation"),
        ({**PEER, "colour": "red"}, "colour", "unknown key"),
    ],
)
def test_mistakes_of_a_dicom_peer(
    harness: ConnectionsHarness, table: dict[str, Any], field: str, text: str
) -> None:
    """The check of a DICOM peer reports each mistake at its field, and nothing is saved."""
    found = harness.setup.check(ProposedConnection(PeerKind.DICOM, table, new=True))["mistakes"]
    assert [row["field"] for row in found] == [field]
    assert text in found[0]["text"]
    with pytest.raises(InvalidContent):
        save_peer(harness, table)
    assert peers(harness) == []


def test_a_dicom_peer(harness: ConnectionsHarness) -> None:
    """A peer is added, changed, rolled back, disabled and removed, with its history."""
    first = save_peer(harness, PEER)
    second = save_peer(harness, {**PEER, "may": ["store"]}, first)
    assert [peer.may for peer in peers(harness)] == [["store"]]
    with pytest.raises(ChangeConflict):
        save_peer(harness, PEER, first)
    back = ConnectionChange(PeerKind.DICOM, "CT 1", "ben", "no", second)
    assert harness.setup.rollback(back)["version"] == first
    assert [peer.may for peer in peers(harness)] == [["worklist"]]
    with pytest.raises(InvalidState):
        save_peer(harness, None, first)
    off = save_peer(harness, {**PEER, "enabled": False}, first)
    save_peer(harness, None, off)
    assert peers(harness) == []
    history = harness.setup.connection(PeerKind.DICOM, "CT 1")["history"]
    assert [entry["actor"] for entry in history] == ["ann", "ann", "ben", "ann", "ann"]
    assert harness.address("back") == "127.0.0.1:9"


async def test_a_dicom_peer_is_not_tried(harness: ConnectionsHarness) -> None:
    """Peers open the associations, so there is nothing to connect to."""
    with pytest.raises(InvalidContent, match="C-ECHO"):
        await harness.setup.try_out(ProposedConnection(PeerKind.DICOM, PEER, new=True))


def test_a_token_belongs_to_one_peer(harness: ConnectionsHarness) -> None:
    """Two peers with one token could not be told apart."""
    for name in ("one", "two"):
        (harness.settings.home / f"{name}.token").write_text("the-same", "utf-8")
    save_peer(harness, {**PEER, "token_file": "one.token"})
    table = {"ae_title": "MR1", "addresses": ["10.1.0.0/16"], "token_file": "two.token"}
    (found,) = harness.setup.check(ProposedConnection(PeerKind.DICOM, table, True))["mistakes"]
    assert found["field"] == "token_file"
    assert "CT 1 has the same token" in found["text"]


def test_the_check_finds_a_lost_token(harness: ConnectionsHarness) -> None:
    """`bridge check` names the peer whose token file is lost."""
    token = harness.settings.home / "ct.token"
    token.write_text("secret", "utf-8")
    save_peer(harness, {**PEER, "token_file": "ct.token"})
    assert not [one for one in check_home(harness.settings.home) if "dicom-peer" in one.place]
    token.unlink()
    places = [one.place for one in check_home(harness.settings.home)]
    assert "dicom-peer CT 1" in [place.rpartition(": ")[2] for place in places]
