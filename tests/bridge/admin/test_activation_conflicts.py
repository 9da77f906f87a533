"""A definition with mistakes never becomes active, whatever the way of activation."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from bridge.admin.definitions.activation import Author, activate, activate_at_start
from bridge.admin.definitions.editor import ActivationRequest, DefinitionEditor, DraftEdit, overview
from bridge.admin.errors import InvalidContent, OperatorError
from bridge.intake.receive.listener_policy import NotInbound
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import ActivationOrigin, MappingVersion
from config import load
from tests.databases import create_migrated_home

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


class ActivationHarness:
    """A data directory with its own overlay, a code table and the drafts."""

    def __init__(self, home: Path, database: Database) -> None:
        self.home, self.database = home, database
        self.settings = load(home)
        self.drafts = DefinitionEditor(self.settings, database, lambda: 1_000)

    def save(self, text: str, name: str = "foo", **files: str) -> int:
        own = {f"{name}.yaml": text, **files}
        saved = self.drafts.save(DraftEdit(name, ANN, own, self.version(name), 0, code=True))
        revision: int = saved["revision"]
        return revision

    def activate(self, revision: int = 1, name: str = "foo", **more: Any) -> Mapping[str, Any]:
        decision = ActivationRequest(name, ANN, "why", self.version(name), revision)
        return self.drafts.activate(replace(decision, **more))

    def version(self, name: str = "foo") -> str:
        """The active version; empty if there is none."""
        with self.database.read() as connection:
            active = mapping_versions.active_versions(connection).get(name)
        return active.version if active else ""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ActivationHarness]:
    """The definitions of the files are active, as after a start."""
    home = tmp_path / "home"
    create_migrated_home(home)
    (home / "bridge.toml").write_text(SETTINGS, "utf-8")
    mappings = home / "mappings"
    (mappings / "base.yaml").write_text(BASE)
    (mappings / "codes" / "race.csv").write_text("code,value\nW,White\n")
    (mappings / "foo.yaml").write_text("include: orders.yaml\n")
    with bridge_database(home) as database:
        activate_at_start(load(home), database, 1)
        yield ActivationHarness(home, database)


OVERLAY = "include: base.yaml\naccept: {senders: [{application: X}]}\n"


def delete_file(file: str) -> Callable[[ActivationHarness], None]:
    return lambda harness: (harness.home / "mappings" / file).unlink()


def write_file(file: str, text: str) -> Callable[[ActivationHarness], None]:
    """Write another text on disk, as a pull of a repository does."""

    def write(harness: ActivationHarness) -> None:
        (harness.home / "mappings" / file).write_text(text)

    return write


@pytest.mark.parametrize(
    "meanwhile",
    [
        delete_file("base.yaml"),
        delete_file("codes/race.csv"),
        write_file("base.yaml", "include: orders.yaml\ntags: {Race: PDI-10}\n"),
        write_file("base.yaml", "include: foo.yaml\n"),
        write_file("base.yaml", "a: [b\n"),
        write_file("codes/race.csv", "code\n"),
    ],
)
def test_a_draft_is_checked_again(
    harness: ActivationHarness, meanwhile: Callable[[ActivationHarness], None]
) -> None:
    """Activation checks a draft again: its base or table may be changed or deleted on disk."""
    before = harness.version()
    harness.save(OVERLAY)
    meanwhile(harness)
    with pytest.raises(InvalidContent):
        harness.activate()
    assert harness.version() == before


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
def test_definitions_with_mistakes(harness: ActivationHarness, text: str) -> None:
    """Activation refuses mistakes, circles, missing hooks and definitions of the wrong kind."""
    before = harness.version()
    harness.save(text)
    with pytest.raises(OperatorError):
        harness.activate()
    assert harness.version() == before
    assert overview(harness.settings, harness.database, 0)["listeners"][0]["mappings"] == [
        "orders",
        "foo",
    ]


def test_a_definition_that_a_destination_cannot_use(harness: ActivationHarness) -> None:
    """A definition without messages for an event that a destination needs stays a draft."""
    before = harness.version("results")
    harness.save("include: results.yaml\nstatuses: {final: {result: F}}\nsegments: []\n", "results")
    with pytest.raises(OperatorError):
        harness.activate(name="results")
    assert harness.version("results") == before


def test_checked_by_another_release(harness: ActivationHarness) -> None:
    """Activation ignores the check stored with the draft."""
    bad = {"foo.yaml": "include: orders.yaml\ntags: {Race: PDI-10}\n"}
    with harness.database.write() as connection:
        draft = mapping_versions.MappingDraft(
            "foo", ANN, bad, harness.version(), 0, "0123456789abcdef", 1
        )
        mapping_versions.save_draft(connection, draft)
    with pytest.raises(InvalidContent):
        harness.activate()


def test_rollback_to_a_version_that_does_not_compile(harness: ActivationHarness) -> None:
    """A rollback refuses a version that only an older release could compile."""
    old = MappingVersion("foo", "00000000deadbeef", {"foo.yaml": "kind: orders\nflux: 1\n"})
    good = harness.version()
    with harness.database.write() as connection:
        mapping_versions.activate(connection, old, 2, ANN, "", ActivationOrigin.ACTIVATE)
        now = mapping_versions.find(connection, "foo", good)
        assert now is not None
        mapping_versions.activate(connection, now, 3, ANN, "", ActivationOrigin.ACTIVATE)
    with pytest.raises(InvalidContent):
        harness.drafts.rollback(ActivationRequest("foo", ANN, "", good, version=old.version))
    assert harness.version() == good


class InterruptedSources(dict[str, str]):
    meanwhile: Callable[[], None]

    @override
    def __getitem__(self, key: str) -> str:
        """Read a file, and call the function the first time."""
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return super().__getitem__(key)


def test_two_conflicting_activations(harness: ActivationHarness) -> None:
    """A definition becomes outgoing while a listener starts to use it: the bridge refuses one."""
    harness.save("include: orders.yaml\naccept: {senders: [{application: Y}]}\n", "own")
    harness.activate(name="own")
    files = harness.drafts.definition("results", ANN)["sources"]
    sources = InterruptedSources({**files, "own.yaml": "include: results.yaml\n"})

    def set_listener_definitions() -> None:
        decision = ActivationRequest("ris", ANN, "why", "")
        harness.drafts.set_listener_definitions(decision, ["own", "orders"])

    sources.meanwhile = set_listener_definitions
    before = harness.version("own")
    with pytest.raises(NotInbound):
        activate(harness.settings, harness.database, [("own", sources)], Author(ANN, 5))
    assert harness.version("own") == before
    assert overview(harness.settings, harness.database, 0)["listeners"][0]["mappings"] == [
        "own",
        "orders",
    ]
