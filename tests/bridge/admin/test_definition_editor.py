"""Authors of definitions work in the console: drafts, activations and conflicts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.admin.definitions.editor import ActivationRequest, DefinitionEditor, DraftEdit, overview
from bridge.admin.errors import (
    ChangeConflict,
    InvalidContent,
    InvalidState,
    NoSuchItem,
)
from bridge.admin.installation.data_directory import create_data_directory
from bridge.store.databases import bridge_database
from config import load
from tests.databases import add_database

ANN, BOB = "ann@example.org", "bob@example.org"
SENDER = "include: orders.yaml\naccept:\n  senders: [{application: RISC}]\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("drafts") / "home"
    create_data_directory(home)
    (home / "bridge.toml").write_text(
        '[[listener]]\nname = "ris"\nbind = "127.0.0.1:2575"\nsite = "S"\n', "utf-8"
    )
    return home


@pytest.fixture
def drafts(home: Path) -> Iterator[DefinitionEditor]:
    (home / "bridge.db").unlink(missing_ok=True)
    add_database(home)
    with bridge_database(home) as database:
        yield DefinitionEditor(load(home), database, lambda: 1_000)


def save(
    drafts: DefinitionEditor, text: str, revision: int = 0, *, actor: str = ANN, begun_on: str = ""
) -> Any:
    """Save a draft of `ris-c`."""
    return drafts.save(DraftEdit("ris-c", actor, {"ris-c.yaml": text}, begun_on, revision))


def overview_of(drafts: DefinitionEditor) -> Any:
    return overview(drafts._settings, drafts._database, 0)


def activate(
    drafts: DefinitionEditor, revision: int, *, actor: str = ANN, begun_on: str = ""
) -> Any:
    decision = ActivationRequest(
        "ris-c", actor, "a new sender", begun_on, revision, listeners=("ris",)
    )
    return drafts.activate(decision)


def test_a_new_sender_needs_no_file(drafts: DefinitionEditor) -> None:
    """A draft is activated without a file. The overview shows author, reason and listener."""
    saved = save(drafts, SENDER)
    assert (saved["issues"], saved["kind"], saved["revision"]) == ([], "orders", 1)
    assert drafts.definition("ris-c", ANN)["draft"]["files"] == {"ris-c.yaml": SENDER}
    done = activate(drafts, 1)
    overview = overview_of(drafts)
    (listener,) = overview["listeners"]
    assert listener["mappings"] == ["ris-c", "orders", "patients"]
    assert listener["settings"] == ["orders", "patients"]
    (made,) = [
        definition for definition in overview["definitions"] if definition["name"] == "ris-c"
    ]
    assert made["in_force"]["version"] == done["version"] == saved["version"]
    assert (made["in_force"]["actor"], made["in_force"]["reason"]) == (ANN, "a new sender")
    assert (made["drafts"], made["used"]["listeners"]) == ([], ["ris"])


def test_a_draft_with_mistakes(drafts: DefinitionEditor) -> None:
    """A draft reports all mistakes with file, line, column and suggestion. It is not activated."""
    text = f"{SENDER}tags:\n  PatientMRM: PID-2\n  Accession: {{from: ORB-3.2}}\n"
    saved = save(drafts, text)
    places = [(issue["file"], issue["line"], issue["column"]) for issue in saved["issues"]]
    assert {("ris-c.yaml", 5, 3), ("ris-c.yaml", 6, 21)} <= set(places)
    assert "'PatientMRN'" in saved["issues"][0]["message"]
    assert drafts.definition("ris-c", ANN)["issues"] == saved["issues"]
    with pytest.raises(InvalidContent) as raised:
        activate(drafts, 1)
    assert raised.value.more["issues"] == saved["issues"]
    assert drafts.history("ris-c") == []
    assert overview_of(drafts)["listeners"][0]["mappings"] == ["orders", "patients"]


def test_the_second_of_two_activations_is_refused(drafts: DefinitionEditor) -> None:
    """Of two drafts of one base version, the second activation is refused and changes nothing."""
    save(drafts, SENDER)
    save(drafts, f"{SENDER}tags: {{Notes: PID-3}}\n", actor=BOB)
    assert [draft["actor"] for draft in drafts.definition("ris-c", ANN)["others"]] == [BOB]
    first = activate(drafts, 1)
    with pytest.raises(ChangeConflict) as raised:
        activate(drafts, 1, actor=BOB)
    assert (raised.value.code, raised.value.more["version"]) == ("overtaken", first["version"])
    assert drafts.version("ris-c", first["version"])["files"]["ris-c.yaml"] == SENDER
    assert drafts.definition("ris-c", BOB)["draft"]["files"], "the draft is kept"
    again = save(drafts, f"{SENDER}about: both\n", 1, actor=BOB, begun_on=first["version"])
    done = activate(drafts, again["revision"], actor=BOB, begun_on=first["version"])
    assert done["before"] == first["version"]


def test_two_windows_with_one_draft(drafts: DefinitionEditor) -> None:
    """A draft that was saved in another window is not overwritten."""
    save(drafts, SENDER)
    save(drafts, f"{SENDER}about: newer\n", 1)
    with pytest.raises(ChangeConflict) as raised:
        save(drafts, f"{SENDER}about: older\n", 1)
    assert raised.value.code == "saved_elsewhere"
    with pytest.raises(ChangeConflict):
        activate(drafts, 1)


def test_roll_back_in_one_step(drafts: DefinitionEditor) -> None:
    """Rollback activates the previous version. It refuses a conflict, and the first version."""
    save(drafts, SENDER)
    first = activate(drafts, 1)["version"]
    with pytest.raises(NoSuchItem):
        drafts.rollback(ActivationRequest("ris-c", BOB, "", first))
    save(drafts, f"{SENDER}about: second\n", begun_on=first)
    second = activate(drafts, 1, begun_on=first)["version"]
    with pytest.raises(ChangeConflict):
        drafts.rollback(ActivationRequest("ris-c", BOB, "wrong", first))
    assert drafts.rollback(ActivationRequest("ris-c", BOB, "wrong", second))["version"] == first
    history = [
        (entry["version"], entry["origin"], entry["actor"]) for entry in drafts.history("ris-c")
    ]
    assert history[0] == (first, "rollback", BOB)


def test_changed_includes_are_shown(drafts: DefinitionEditor, home: Path) -> None:
    """A version has its own copy of included files. The console shows changed ones."""
    save(drafts, SENDER)
    activate(drafts, 1)
    assert drafts.definition("ris-c", ANN)["newer"] == {}
    shipped = drafts.definition("ris-c", ANN)["sources"]["orders.yaml"]
    changed = f"{shipped}# newer\n"
    drafts.save(DraftEdit("orders", BOB, {"orders.yaml": changed}, "", 0))
    drafts.activate(ActivationRequest("orders", BOB, "newer", "", 1))
    assert drafts.definition("ris-c", ANN)["newer"] == {"orders.yaml": changed}
    assert drafts.definition("orders", ANN)["newer"] == {"orders.yaml": shipped}, "the file of HOME"


def test_definitions_of_a_listener(drafts: DefinitionEditor) -> None:
    """A listener accepts incoming definitions in any order. An empty list restores the settings."""
    drafts.set_listener_definitions(
        ActivationRequest("ris", ANN, "patients first", ""), ["patients", "orders"]
    )
    (listener,) = overview_of(drafts)["listeners"]
    assert listener["mappings"] == ["patients", "orders"]
    version = listener["said"]["version"]
    for wrong, refusal in ((["results"], InvalidState), (["none"], InvalidContent)):
        with pytest.raises(refusal):
            drafts.set_listener_definitions(ActivationRequest("ris", ANN, "", version), wrong)
    with pytest.raises(ChangeConflict):
        drafts.set_listener_definitions(ActivationRequest("ris", BOB, "", ""), [])
    with pytest.raises(NoSuchItem):
        drafts.set_listener_definitions(ActivationRequest("none", BOB, "", ""), ["orders"])
    drafts.set_listener_definitions(ActivationRequest("ris", BOB, "as before", version), [])
    assert overview_of(drafts)["listeners"][0]["mappings"] == ["orders", "patients"]
