"""The console shows, imports and refuses interface packages."""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest

from bridge.active_settings import (
    active_sources,
    current,
    make_connection_record,
    make_list_record,
)
from bridge.admin.definitions import examples
from bridge.admin.definitions.activation import Author, activate, activate_files
from bridge.admin.errors import ChangeConflict, InvalidState, NoSuchItem, OperatorError
from bridge.admin.packages.activation import InterfacePackages, PackageImport, pack_zip, unpack_zip
from bridge.admin.packages.folder import NotImported
from bridge.store import databases
from bridge.store.database import Database
from config import Settings, load
from config.sections import ChannelKind
from mappings.compiler import compile_with_files
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import Sources
from mappings.language.scope import ListenerDefaults
from tests.acceptance.orders import order
from tests.databases import create_migrated_home

SETTINGS = """
[[listener]]
name = "ris-u"
bind = "127.0.0.1:0"
mappings = ["ris-u"]
site = "SITE1"
[[destination]]
name = "back"
address = "127.0.0.1:9"
"""


EXAMPLE = {
    "label": "",
    "listener": "",
    "site": "SITE1",
    "time_zone": "UTC",
    "charset": "utf-8",
    "now": 1,
    "payload": "TVNI",
    "result": {},
}


class Home:
    def __init__(self, home: Path, text: str) -> None:
        create_migrated_home(home)
        (home / "bridge.toml").write_text(text, "utf-8")
        self.path = home
        self.settings: Settings = load(home)
        self.database: Database = databases.open_bridge_database(self.settings)
        databases.migrate_bridge(self.database)
        self.parcels = InterfacePackages(self.settings, self.database, lambda: 1_000)

    @property
    def current(self) -> Settings:
        return current(self.settings, self.database)

    @property
    def sources(self) -> Sources:
        """The files of the active definition `ris-u`."""
        return active_sources(self.settings, self.database)("ris-u")

    @property
    def mapping(self) -> InboundMapping:
        compiled, _ = compile_with_files(self.sources, "ris-u")
        assert isinstance(compiled, InboundMapping)
        return compiled

    def file(self, name: str) -> str:
        return self.sources[name]


def package(data: bytes, mark: str, *, replace: bool = False) -> PackageImport:
    return PackageImport(data, mark, "ann", "a test", replace)


@pytest.fixture
def two_homes(tmp_path: Path) -> Iterator[tuple[Home, Home]]:
    """One data directory with an interface, and one without."""
    first, second = Home(tmp_path / "first", SETTINGS), Home(tmp_path / "second", "")
    own = "include: orders.yaml\ntags: {Modality: {from: OBR-24, codes: ours}}\n"
    (first.path / "mappings" / "ris-u.yaml").write_text(own)
    (first.path / "mappings" / "codes" / "ours.csv").write_text("code,value\nX,CT\n")
    yield first, second
    first.database.dispose()
    second.database.dispose()


def zipped(**files: str) -> bytes:
    """Return a ZIP with these files. `__` is a slash, `_0` a dot."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, text in files.items():
            made.writestr(name.replace("__", "/").replace("_0", "."), text)
    return out.getvalue()


def test_import(two_homes: tuple[Home, Home]) -> None:
    """The preview shows the changes, the import applies them, and a second import is refused."""
    first, second = two_homes
    data = first.parcels.export_zip(["ris-u", "back"])
    shown = second.parcels.preview(data)
    assert shown["channels"] == ["ris-u", "back"]
    assert {file["name"]: file["before"] for file in shown["files"]} == {
        "codes/ours.csv": None,
        "ris-u.yaml": None,
    }
    assert second.current.listener == [], "nothing is active yet"
    done = second.parcels.import_zip(package(data, shown["mark"]))
    assert done["files"] == ["codes/ours.csv", "ris-u.yaml"]
    assert second.current.listener[0].mappings == ["ris-u"]
    assert str(second.current.destination[0].address) == "127.0.0.1:9"
    assert second.file("codes/ours.csv") == "code,value\nX,CT\n"
    assert (second.path / "bridge.toml").read_text() == "", "the import does not change the files"
    assert second.parcels.export_zip(["ris-u", "back"]) == data, "the export equals the import"
    shown = second.parcels.preview(data)
    assert [connection["change"] for connection in shown["connections"]] == [
        "unchanged",
        "unchanged",
    ]
    with pytest.raises(InvalidState, match="listener ris-u, destination back exists"):
        second.parcels.import_zip(package(data, shown["mark"]))
    with pytest.raises(NoSuchItem):
        first.parcels.export_zip(["unknown"])


def test_examples_go_with_their_definition(two_homes: tuple[Home, Home]) -> None:
    """After the import a check compares them, with the result that they had; each comes once."""
    first, second = two_homes
    payload = order(1, name="EXAMPLE^ONE").replace(b"||||||CT|||", b"||||||X|||") + b"NTE|1||\xe4\r"
    defaults = ListenerDefaults("SITE1", "Europe/Berlin", datetime.fromtimestamp(1_000, UTC))
    new = examples.NewExample("message 7", "ris-u", payload, "latin-1", defaults)
    with first.database.write() as connection:
        examples.add(connection, first.mapping, [new], "ann", 1_000)
    data = first.parcels.export_zip(["ris-u", "back"])
    shown = second.parcels.preview(data)
    assert shown["examples"] == {"ris-u": 1}
    second.parcels.import_zip(package(data, shown["mark"]))
    (example,) = examples.all_of(second.database, "ris-u")
    assert (example.label, example.payload) == ("message 7", payload)
    assert example.expected == examples.all_of(first.database, "ris-u")[0].expected
    assert examples.issues_of(second.database, second.mapping) == []
    assert second.parcels.export_zip(["ris-u", "back"]) == data
    assert second.parcels.preview(data)["examples"] == {}
    changed = {**second.sources, "codes/ours.csv": "code,value\nX,MR\n"}
    compiled, _ = compile_with_files(changed, "ris-u")
    (issue,) = examples.issues_of(second.database, compiled)
    assert "message 7" in issue.message


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        '[{"label": "a"}]',
        json.dumps([EXAMPLE | {"time_zone": "Europe/Nowhere"}]),
        json.dumps([EXAMPLE | {"charset": "no such"}]),
        json.dumps([EXAMPLE | {"result": {"a": 1}}]),
        json.dumps([EXAMPLE | {"payload": "A"}] * 2),
    ],
)
def test_examples_that_cannot_be_read(two_homes: tuple[Home, Home], text: str) -> None:
    first, second = two_homes
    files = unpack_zip(first.parcels.export_zip(["ris-u", "back"]))
    with pytest.raises(InvalidState, match="examples of the package cannot be read"):
        second.parcels.preview(pack_zip({**files, "examples/ris-u.json": text}))


def test_new_connections_stay_disabled(two_homes: tuple[Home, Home]) -> None:
    """Nothing listens and nothing is sent until a person enables them; the preview says so."""
    first, second = two_homes
    data = first.parcels.export_zip(["ris-u", "back"])
    shown = second.parcels.preview(data, disabled=True)
    assert shown["settings"].count("enabled = false") == len(shown["connections"])
    with pytest.raises(ChangeConflict):
        second.parcels.import_zip(package(data, shown["mark"]))
    second.parcels.import_zip(replace(package(data, shown["mark"]), disabled=True))
    assert [section.enabled for section in second.current.listener] == [False]
    assert [section.enabled for section in second.current.destination] == [False]
    again = second.parcels.preview(first.parcels.export_zip(["ris-u"]), disabled=True)
    assert again["connections"][0]["change"] == "changed", "an existing one is as in the package"


def test_an_outdated_preview(two_homes: tuple[Home, Home]) -> None:
    """The import is refused if another version became active since the preview."""
    first, second = two_homes
    data = first.parcels.export_zip(["ris-u"])
    mark = second.parcels.preview(data)["mark"]
    file = second.path / "mappings" / "ris-u.yaml"
    file.write_text("include: orders.yaml\n")
    activate_files(second.settings, second.database, ["ris-u"], Author("ben", 1))
    with pytest.raises(ChangeConflict):
        second.parcels.import_zip(package(data, mark, replace=True))
    shown = second.parcels.preview(data)
    assert {row["name"]: row["before"] for row in shown["files"]}["ris-u.yaml"]
    with pytest.raises(InvalidState, match=r"ris-u\.yaml"):
        second.parcels.import_zip(package(data, shown["mark"]))
    assert second.current.listener == []
    second.parcels.import_zip(package(data, shown["mark"], replace=True))
    assert "ours" in second.file("ris-u.yaml")


def test_a_promotion_is_repeatable(two_homes: tuple[Home, Home]) -> None:
    """A later package replaces the connections; the preview shows each setting that changes."""
    first, second = two_homes
    data = b""
    for step, site in enumerate(("SITE1", "SITE2", "SITE2", "SITE1")):
        (first.path / "bridge.toml").write_text(SETTINGS.replace("SITE1", site), "utf-8")
        first.settings = load(first.path)
        own = InterfacePackages(first.settings, first.database, lambda: 1_000)
        data = own.export_zip(["ris-u", "back"])
        shown = second.parcels.preview(data)
        (listener, destination) = shown["connections"]
        expected = {0: "new", 2: "unchanged"}.get(step, "changed")
        assert (listener["change"], destination["change"]) == (
            expected,
            "unchanged" if step else "new",
        )
        if expected == "changed":
            (difference,) = listener["differences"]
            assert (difference["name"], difference["after"]) == ("site", site)
            assert f'site = "{difference["before"]}"' in shown["settings_before"]
        second.parcels.import_zip(package(data, shown["mark"], replace=step > 0))
        assert second.current.listener[0].site == site
    history = [len(second.parcels.preview(data)["files"]), len(second.current.listener)]
    assert history == [0, 1]


def test_a_change_after_the_preview_of_a_replacement(two_homes: tuple[Home, Home]) -> None:
    """The import is refused if somebody saved the connection since the preview."""
    first, second = two_homes
    data = first.parcels.export_zip(["back"])
    second.parcels.import_zip(package(data, second.parcels.preview(data)["mark"]))
    mark = second.parcels.preview(data)["mark"]
    table = {"name": "back", "address": "127.0.0.1:7"}
    record = make_connection_record(ChannelKind.DESTINATION, "back", table)
    activate(second.settings, second.database, [], Author("ben", 2), records=[record])
    with pytest.raises(ChangeConflict):
        second.parcels.import_zip(package(data, mark, replace=True))
    assert str(second.current.destination[0].address) == "127.0.0.1:7"


def test_a_replaced_listener_uses_the_definitions_of_the_package(
    two_homes: tuple[Home, Home],
) -> None:
    """Also if somebody had assigned other definitions to it."""
    first, second = two_homes
    data = first.parcels.export_zip(["ris-u"])
    second.parcels.import_zip(package(data, second.parcels.preview(data)["mark"]))
    listed = make_list_record("ris-u", ["orders"])
    activate(second.settings, second.database, [], Author("ben", 2), records=[listed])
    assert second.current.listener[0].mappings == ["orders"]
    shown = second.parcels.preview(data)
    assert shown["connections"][0]["differences"][0]["name"] == "mappings"
    second.parcels.import_zip(package(data, shown["mark"], replace=True))
    assert second.current.listener[0].mappings == ["ris-u"]


LISTENER = '[[listener]]\nname = "n"\nbind = "127.0.0.1:0"\nsite = "S"\n'


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"PK\x03\x04 no zip", "not a readable ZIP file"),
        (zipped(), "there is no interface.toml"),
        (zipped(interface_0toml=LISTENER, ___0__evil_0yaml="x"), "points outside"),
        (zipped(interface_0toml=LISTENER, mappings__x_0sh="x"), "do not belong to an interface"),
        (zipped(interface_0toml=LISTENER + "[sign_in]\npasswords = false\n"), "more than listen"),
        (zipped(interface_0toml="x = "), "Invalid value"),
        (zipped(interface_0toml=""), "no listener and no destination"),
        (zipped(interface_0toml=LISTENER.replace("site", "sight")), "unknown key"),
        (
            zipped(interface_0toml=f'{LISTENER}tls = {{certificate = "c", key = "k"}}\n'),
            "create these files in HOME first: c, k",
        ),
        (
            zipped(interface_0toml=f'{LISTENER}mappings = ["m"]\n', mappings__m_0yaml="kind: x\n"),
            "mistakes",
        ),
    ],
)
def test_a_refused_package_changes_nothing(
    two_homes: tuple[Home, Home], data: bytes, why: str
) -> None:
    """The import refuses other files, other settings and mistakes, and changes nothing."""
    _, second = two_homes
    with pytest.raises(OperatorError, match=why):
        second.parcels.preview(data)
    assert second.current.listener == []


def test_a_package_in_a_folder() -> None:
    """The import accepts a single folder in the ZIP, with the extra files of desktop tools."""
    inside = {"ris/interface.toml": LISTENER, "ris/mappings/m.yaml": "x", "__MACOSX/ris/._m": "y"}
    data = pack_zip(inside)
    assert unpack_zip(data) == {"interface.toml": LISTENER, "mappings/m.yaml": "x"}
    assert unpack_zip(pack_zip(unpack_zip(data))) == unpack_zip(data)


def test_a_zip_bomb() -> None:
    """The import does not open a file whose declared size is larger than the limit."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("interface.toml", "#" * 50_000_000)
    with pytest.raises(NotImported, match="more than"):
        unpack_zip(out.getvalue())
