"""What authors of definitions do in the console: drafts, activations, and who was faster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.admin.data_directory import create_data_directory
from bridge.admin.definitions.console_drafts import ConsoleDrafts
from bridge.console.context import ActivationRequest, DraftEdit
from bridge.console.errors import (
    ChangeConflict,
    InvalidContent,
    InvalidState,
    NoSuchItem,
    PermissionDenied,
)
from bridge.wiring.stores import bridge_database
from config import load

ANN, BOB = "ann@example.org", "bob@example.org"
SENDER = "include: orders.yaml\naccept:\n  senders: [{application: RISC}]\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a listener."""
    home = tmp_path_factory.mktemp("desk") / "home"
    create_data_directory(home)
    (home / "bridge.toml").write_text(
        '[[listener]]\nname = "ris"\nbind = "127.0.0.1:2575"\nsite = "S"\n', "utf-8"
    )
    return home


@pytest.fixture
def desk(model: Path) -> Iterator[ConsoleDrafts]:
    """A desk with nothing on it."""
    (model / "bridge.db").unlink(missing_ok=True)
    with bridge_database(model) as database:
        yield ConsoleDrafts(load(model), database, lambda: 1_000)


def save(
    desk: ConsoleDrafts, text: str, revision: int = 0, *, actor: str = ANN, begun_on: str = ""
) -> Any:
    """Write a draft of `ris-c`."""
    return desk.save(DraftEdit("ris-c", actor, {"ris-c.yaml": text}, begun_on, revision))


def activate(desk: ConsoleDrafts, revision: int, *, actor: str = ANN, begun_on: str = "") -> Any:
    """Put it into force, read by the listener."""
    decision = ActivationRequest(
        "ris-c", actor, "a new sender", begun_on, revision, listeners=("ris",)
    )
    return desk.activate(decision)


def test_a_new_sender_needs_no_file(desk: ConsoleDrafts) -> None:
    """Draft, activate, be read with: the list of definitions shows who, why and where."""
    saved = save(desk, SENDER)
    assert (saved["issues"], saved["kind"], saved["revision"]) == ([], "orders", 1)
    assert desk.definition("ris-c", ANN)["draft"]["files"] == {"ris-c.yaml": SENDER}
    done = activate(desk, 1)
    told = desk.overview()
    (listener,) = told["listeners"]
    assert listener["mappings"] == ["ris-c", "orders", "patients"]
    assert listener["settings"] == ["orders", "patients"]
    (made,) = [each for each in told["definitions"] if each["name"] == "ris-c"]
    assert made["in_force"]["version"] == done["version"] == saved["version"]
    assert (made["in_force"]["actor"], made["in_force"]["reason"]) == (ANN, "a new sender")
    assert (made["drafts"], made["used"]["listeners"]) == ([], ["ris"])


def test_a_draft_with_a_mistake_is_kept_and_never_in_force(desk: ConsoleDrafts) -> None:
    """All mistakes are told with file, line, column and what was meant; twice, if need be."""
    text = f"{SENDER}tags:\n  PatientMRM: PID-2\n  Accession: {{from: ORB-3.2}}\n"
    saved = save(desk, text)
    places = [(each["file"], each["line"], each["column"]) for each in saved["issues"]]
    assert {("ris-c.yaml", 5, 3), ("ris-c.yaml", 6, 21)} <= set(places)
    assert "'PatientMRN'" in saved["issues"][0]["message"]
    assert desk.definition("ris-c", ANN)["issues"] == saved["issues"]
    with pytest.raises(InvalidContent) as raised:
        activate(desk, 1)
    assert raised.value.more["issues"] == saved["issues"]
    assert desk.history("ris-c") == []
    assert desk.overview()["listeners"][0]["mappings"] == ["orders", "patients"]


def test_the_author_who_was_overtaken_is_told(desk: ConsoleDrafts) -> None:
    """Both drafts were begun on the same: the second activation changes nothing."""
    save(desk, SENDER)
    save(desk, f"{SENDER}tags: {{Notes: PID-3}}\n", actor=BOB)
    assert [each["actor"] for each in desk.definition("ris-c", ANN)["others"]] == [BOB]
    first = activate(desk, 1)
    with pytest.raises(ChangeConflict) as raised:
        activate(desk, 1, actor=BOB)
    assert (raised.value.code, raised.value.more["version"]) == ("overtaken", first["version"])
    assert desk.version("ris-c", first["version"])["files"]["ris-c.yaml"] == SENDER
    assert desk.definition("ris-c", BOB)["draft"]["files"], "it is kept"
    again = save(desk, f"{SENDER}about: both\n", 1, actor=BOB, begun_on=first["version"])
    done = activate(desk, again["revision"], actor=BOB, begun_on=first["version"])
    assert done["before"] == first["version"]


def test_one_window_does_not_write_over_another(desk: ConsoleDrafts) -> None:
    """What was saved elsewhere meanwhile is kept, and told."""
    save(desk, SENDER)
    save(desk, f"{SENDER}about: newer\n", 1)
    with pytest.raises(ChangeConflict) as raised:
        save(desk, f"{SENDER}about: older\n", 1)
    assert raised.value.code == "saved_elsewhere"
    with pytest.raises(ChangeConflict):
        activate(desk, 1)


def test_roll_back_in_one_step(desk: ConsoleDrafts) -> None:
    """To the version before; who was overtaken meanwhile is told; before the first is nothing."""
    save(desk, SENDER)
    first = activate(desk, 1)["version"]
    with pytest.raises(NoSuchItem):
        desk.rollback(ActivationRequest("ris-c", BOB, "", first))
    save(desk, f"{SENDER}about: second\n", begun_on=first)
    second = activate(desk, 1, begun_on=first)["version"]
    with pytest.raises(ChangeConflict):
        desk.rollback(ActivationRequest("ris-c", BOB, "wrong", first))
    assert desk.rollback(ActivationRequest("ris-c", BOB, "wrong", second))["version"] == first
    told = [(each["version"], each["origin"], each["actor"]) for each in desk.history("ris-c")]
    assert told[0] == (first, "rollback", BOB)


def test_what_was_included_and_changed_since_is_told(desk: ConsoleDrafts, model: Path) -> None:
    """A version holds its own copy: what others activated, or files of HOME say, can be taken."""
    save(desk, SENDER)
    activate(desk, 1)
    assert desk.definition("ris-c", ANN)["newer"] == {}
    shipped = desk.definition("ris-c", ANN)["sources"]["orders.yaml"]
    changed = f"{shipped}# newer\n"
    desk.save(DraftEdit("orders", BOB, {"orders.yaml": changed}, "", 0))
    desk.activate(ActivationRequest("orders", BOB, "newer", "", 1))
    assert desk.definition("ris-c", ANN)["newer"] == {"orders.yaml": changed}
    assert desk.definition("orders", ANN)["newer"] == {"orders.yaml": shipped}, "the file of HOME"


def test_python_needs_a_right_of_its_own(desk: ConsoleDrafts) -> None:
    """Hooks run with the service's rights: authors use them, and cannot write them."""
    files = {"ris-c.yaml": SENDER, "own.py": "def f(message):\n    return 'x'\n"}
    with pytest.raises(PermissionDenied):
        desk.save(DraftEdit("ris-c", ANN, files, "", 0))
    assert desk.save(DraftEdit("ris-c", ANN, files, "", 0, code=True))["issues"] == []


def test_listeners_read_with_what_can_be_read_with(desk: ConsoleDrafts) -> None:
    """In any order; not with what writes, nor what is not there; an empty list is the settings'."""
    desk.set_listener_definitions(
        ActivationRequest("ris", ANN, "patients first", ""), ["patients", "orders"]
    )
    (listener,) = desk.overview()["listeners"]
    assert listener["mappings"] == ["patients", "orders"]
    said = listener["said"]["version"]
    for wrong, refusal in ((["results"], InvalidState), (["none"], InvalidContent)):
        with pytest.raises(refusal):
            desk.set_listener_definitions(ActivationRequest("ris", ANN, "", said), wrong)
    with pytest.raises(ChangeConflict):
        desk.set_listener_definitions(ActivationRequest("ris", BOB, "", ""), [])
    with pytest.raises(NoSuchItem):
        desk.set_listener_definitions(ActivationRequest("none", BOB, "", ""), ["orders"])
    desk.set_listener_definitions(ActivationRequest("ris", BOB, "as before", said), [])
    assert desk.overview()["listeners"][0]["mappings"] == ["orders", "patients"]
