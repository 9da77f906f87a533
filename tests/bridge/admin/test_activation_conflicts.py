"""A bad mapping never comes into force, however it is brought there."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from bridge.admin.data_directory import create_data_directory
from bridge.admin.definitions.activation import Author, activate, activate_at_start
from bridge.admin.definitions.console_drafts import ConsoleDrafts
from bridge.console.context import ActivationRequest, DraftEdit
from bridge.console.errors import ChangeConflict, ConsoleError, InvalidContent
from bridge.store.database import Database
from bridge.store.records import mapping_versions as kept
from bridge.store.records.mapping_versions import ActivationOrigin, MappingVersion
from bridge.wiring.listeners import NotInbound
from bridge.wiring.stores import bridge_database
from config import load

ANN = "ann@example.org"
SETTINGS = """
[[listener]]
name = "ris"
bind = "127.0.0.1:2575"
site = "S"
mappings = ["orders", "foo"]
[[destination]]
name = "back"
address = "127.0.0.1:9"
"""
BASE = "include: orders.yaml\ntags: {Race: {from: PID-10, codes: race}}\n"


class Room:
    """A home with an overlay of its own, a code table, and a desk."""

    def __init__(self, home: Path, database: Database) -> None:
        self.home, self.database = home, database
        self.settings = load(home)
        self.desk = ConsoleDrafts(self.settings, database, lambda: 1_000)

    def save(self, text: str, name: str = "foo", **files: str) -> int:
        """Save a draft on what is in force; give its revision."""
        own = {f"{name}.yaml": text, **files}
        saved = self.desk.save(DraftEdit(name, ANN, own, self.version(name), 0, code=True))
        revision: int = saved["revision"]
        return revision

    def activate(self, revision: int = 1, name: str = "foo", **more: Any) -> Mapping[str, Any]:
        """Put the draft into force."""
        decision = ActivationRequest(name, ANN, "why", self.version(name), revision)
        return self.desk.activate(replace(decision, **more))

    def version(self, name: str = "foo") -> str:
        """What is in force; empty where nothing is."""
        with self.database.read() as connection:
            found = kept.active_versions(connection).get(name)
        return found.version if found else ""


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """What the files say is in force, as after a start."""
    home = tmp_path / "home"
    create_data_directory(home)
    (home / "bridge.toml").write_text(SETTINGS, "utf-8")
    mappings = home / "mappings"
    (mappings / "base.yaml").write_text(BASE)
    (mappings / "codes" / "race.csv").write_text("code,value\nW,White\n")
    (mappings / "foo.yaml").write_text("include: orders.yaml\n")
    with bridge_database(home) as database:
        activate_at_start(load(home), database, 1)
        yield Room(home, database)


OVERLAY = "include: base.yaml\naccept: {senders: [{application: X}]}\n"


def gone(file: str) -> Callable[[Room], None]:
    """Delete a file of HOME."""
    return lambda room: (room.home / "mappings" / file).unlink()


def says(file: str, text: str) -> Callable[[Room], None]:
    """Write another text on disk, as a pull of a repository does."""

    def write(room: Room) -> None:
        (room.home / "mappings" / file).write_text(text)

    return write


@pytest.mark.parametrize(
    "meanwhile",
    [
        gone("base.yaml"),
        gone("codes/race.csv"),
        says("base.yaml", "include: orders.yaml\ntags: {Race: PDI-10}\n"),
        says("base.yaml", "include: foo.yaml\n"),
        says("base.yaml", "a: [b\n"),
        says("codes/race.csv", "code\n"),
    ],
)
def test_what_was_right_when_it_was_saved(room: Room, meanwhile: Callable[[Room], None]) -> None:
    """A base or table that is gone, or says something else on disk by now: checked once more."""
    before = room.version()
    room.save(OVERLAY)
    meanwhile(room)
    with pytest.raises(InvalidContent):
        room.activate()
    assert room.version() == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "include: foo.yaml\n",
        "include: nowhere.yaml\n",
        "kind: orders\n",
        "include: orders.yaml\ntags: {PatientMRN: {hook: mine.find}}\n",
        "include: orders.yaml\ntags: {PatientMRN: {from: PID-3, extract: '(('}}\n",
        "include: orders.yaml\ntags: {Accession: {const: ''}}\n",
        "include: results.yaml\n",
        "include: status.yaml\n",
        "!!python/object/apply:os.system [true]\n",
    ],
)
def test_what_is_wrong_or_of_another_kind(room: Room, text: str) -> None:
    """Mistakes, circles, hooks that are not there, and what a listener could not read with."""
    before = room.version()
    room.save(text)
    with pytest.raises(ConsoleError):
        room.activate()
    assert room.version() == before
    assert room.desk.overview()["listeners"][0]["mappings"] == ["orders", "foo"]


def test_a_destination_keeps_what_it_sends(room: Room) -> None:
    """A definition without messages for an event that a destination wants stays a draft."""
    before = room.version("results")
    room.save("include: results.yaml\nstatuses: {final: {result: F}}\nsegments: []\n", "results")
    with pytest.raises(ConsoleError):
        room.activate(name="results")
    assert room.version("results") == before


def test_checked_by_another_release(room: Room) -> None:
    """What a draft remembers of its check is not believed."""
    bad = {"foo.yaml": "include: orders.yaml\ntags: {Race: PDI-10}\n"}
    with room.database.write() as connection:
        draft = kept.MappingDraft("foo", ANN, bad, room.version(), 0, "0123456789abcdef", 1)
        kept.save_draft(connection, draft)
    with pytest.raises(InvalidContent):
        room.activate()


def test_a_version_that_no_longer_compiles_is_not_rolled_back_to(room: Room) -> None:
    """An older release could read it; this one cannot."""
    old = MappingVersion("foo", "00000000deadbeef", {"foo.yaml": "kind: orders\nflux: 1\n"})
    good = room.version()
    with room.database.write() as connection:
        kept.activate(connection, old, 2, ANN, "", ActivationOrigin.ACTIVATE)
        now = kept.find(connection, "foo", good)
        assert now is not None
        kept.activate(connection, now, 3, ANN, "", ActivationOrigin.ACTIVATE)
    with pytest.raises(InvalidContent):
        room.desk.rollback(ActivationRequest("foo", ANN, "", good, version=old.version))
    assert room.version() == good


@pytest.mark.parametrize("wrong", [{"revision": 7}, {"begun_on": "0123456789abcdef"}])
def test_another_text_than_the_one_that_was_looked_at(room: Room, wrong: dict[str, Any]) -> None:
    """Saved anew since, or begun on something that is no longer in force."""
    room.save(OVERLAY)
    with pytest.raises(ChangeConflict):
        room.activate(**wrong)


class Interrupted(dict[str, str]):
    """Sources that let somebody else do something while they are being read."""

    meanwhile: Callable[[], None]

    @override
    def __getitem__(self, key: str) -> str:
        """Read a file, and be interrupted the first time."""
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return super().__getitem__(key)


def test_two_that_are_right_and_wrong_together(room: Room) -> None:
    """One makes a definition write, while another lets a listener read with it: one is refused."""
    room.save("include: orders.yaml\naccept: {senders: [{application: Y}]}\n", "own")
    room.activate(name="own")
    files = room.desk.definition("results", ANN)["sources"]
    sources = Interrupted({**files, "own.yaml": "include: results.yaml\n"})

    def set_listener_definitions() -> None:
        decision = ActivationRequest("ris", ANN, "why", "")
        room.desk.set_listener_definitions(decision, ["own", "orders"])

    sources.meanwhile = set_listener_definitions
    before = room.version("own")
    with pytest.raises(NotInbound):
        activate(room.settings, room.database, [("own", sources)], Author(ANN, 5))
    assert room.version("own") == before
    assert room.desk.overview()["listeners"][0]["mappings"] == ["own", "orders"]
