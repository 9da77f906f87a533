"""Without the permission `code` an author cannot add code to a definition."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.admin.definitions.editor import ActivationRequest, DefinitionEditor, DraftEdit
from bridge.admin.definitions.trials import ComparisonRequest, DefinitionTrials, TrialMessage
from bridge.admin.errors import InvalidContent, PermissionDenied
from bridge.store.databases import bridge_database
from config import load
from tests.bridge.engine_client.unreachable import client
from tests.databases import create_migrated_home

ANN, ROOT = "ann@example.org", "root@example.org"
HOOKS = "def f(message):\n    return 'F'\n\n\ndef g(message):\n    return 'G'\n"
BASE = "include: orders.yaml\n"
NAME = "ris-c"
ORDER = (
    b"MSH|^~\\&|RIS|H|B|H|20260101||ORM^O01|1|P|2.5\rPID|1||77\r"
    b"ORC|NW|P1\rOBR|1|P1||X^Test|||||||||||||||A1\r"
)


def rule(hook: str) -> str:
    return f"{BASE}tags:\n  Notes: {{hook: '{hook}'}}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An installation with a hook file that no definition uses."""
    home = tmp_path / "home"
    create_migrated_home(home)
    (home / "bridge.toml").write_text(
        '[[listener]]\nname = "ris"\nbind = "127.0.0.1:2575"\nsite = "S"\n', "utf-8"
    )
    (home / "mappings/mine.py").write_text(HOOKS, "utf-8")
    return home


@pytest.fixture
def drafts(home: Path) -> Iterator[DefinitionEditor]:
    with bridge_database(home) as database:
        yield DefinitionEditor(load(home), database, lambda: 1_000)


@pytest.fixture
def trials(drafts: DefinitionEditor) -> DefinitionTrials:
    return DefinitionTrials(drafts._settings, drafts._database, client())


def save(
    drafts: DefinitionEditor,
    text: str,
    files: dict[str, str] | None = None,
    *,
    code: bool = False,
    revision: int = 0,
    begun_on: str = "",
) -> Any:
    actor = ROOT if code else ANN
    files = {f"{NAME}.yaml": text, **(files or {})}
    return drafts.save(DraftEdit(NAME, actor, files, begun_on, revision, code=code))


def activate(
    drafts: DefinitionEditor, *, code: bool = False, begun_on: str = "", revision: int = 1
) -> str:
    actor = ROOT if code else ANN
    decision = ActivationRequest(NAME, actor, "why", begun_on, revision, code=code)
    return str(drafts.activate(decision)["version"])


HOSTILE: dict[str, tuple[str, dict[str, str]]] = {
    "the standard library": (rule("_osx_support:_read_output"), {}),
    "a hook that is there": (rule("mine:f"), {}),
    "a file of its own": (rule("evil:f"), {"evil.py": HOOKS}),
    "a file that nothing uses": (BASE, {"evil.py": HOOKS}),
    "a changed file": (BASE, {"mine.py": f"{HOOKS}# more"}),
    "an include": (f"{BASE[:-1]}\n", {"orders.yaml": "tags: {Notes: {hook: 'mine:f'}}"}),
    "an include of an include": (
        "include: [orders.yaml, include/a.yaml]",
        {
            "include/a.yaml": "include: include/b.yaml",
            "include/b.yaml": "tags: {Notes: {first: {hook: 'mine:f'}}}",
        },
    ),
    "a list": (f"{BASE}tags: {{Notes: [PID-3, {{join: [{{hook: 'mine:f'}}]}}]}}", {}),
    "an alias": (f"{BASE}tags: {{Notes: &a {{hook: 'mine:f'}}, KeyFindings: *a}}", {}),
    "a merged key": (
        f"{BASE}metadata: {{values: {{x: &a {{hook: 'mine:f'}}, y: {{<<: *a}}}}}}",
        {},
    ),
}


@pytest.mark.parametrize(("text", "files"), HOSTILE.values(), ids=HOSTILE)
def test_an_author_cannot_add_code(
    drafts: DefinitionEditor, text: str, files: dict[str, str]
) -> None:
    """The draft is refused. With the permission it is saved, also with mistakes."""
    with pytest.raises(PermissionDenied):
        save(drafts, text, files)
    assert drafts.definition("orders", ANN)["draft"] is None
    assert save(drafts, text, files, code=True)["revision"] == 1


def test_an_author_keeps_the_hooks_that_are_active(
    drafts: DefinitionEditor, trials: DefinitionTrials
) -> None:
    """An author may use an active function at other places, but no other function of the file."""
    save(drafts, rule("mine:f"), {"mine.py": HOOKS}, code=True)
    now = activate(drafts, code=True)
    more = f"{rule('mine:f')}  KeyFindings: {{hook: 'mine:f'}}\n"
    save(drafts, more, {"mine.py": HOOKS}, begun_on=now)
    tried = trials.try_out(NAME, ANN, "draft", [TrialMessage(ORDER)], code=False)
    assert tried["trials"][0]["events"]
    after = activate(drafts, begun_on=now)
    with pytest.raises(PermissionDenied):
        save(drafts, rule("mine:g"), begun_on=after)
    save(drafts, BASE, begun_on=after)
    without = activate(drafts, begun_on=after)
    with pytest.raises(PermissionDenied):  # the hooks are not active any more
        save(drafts, rule("mine:f"), begun_on=without)
    with pytest.raises(PermissionDenied):
        drafts.rollback(ActivationRequest(NAME, ANN, "why", without))
    with pytest.raises(PermissionDenied):
        drafts.rollback(ActivationRequest(NAME, ANN, "why", without, version=now))
    for version in (now, "previous"):
        with pytest.raises(PermissionDenied):
            trials.try_out(NAME, ANN, version, [TrialMessage(ORDER)], code=False)
        with pytest.raises(PermissionDenied):
            trials.compare(ComparisonRequest(NAME, ANN, version, "active", 5))
    assert (
        drafts.rollback(ActivationRequest(NAME, ROOT, "why", without, code=True))["version"]
        == after
    )


def test_a_revoked_permission(drafts: DefinitionEditor, trials: DefinitionTrials) -> None:
    """Without the permission an earlier draft with code is neither tried nor activated."""
    files = {f"{NAME}.yaml": rule("mine:f")}
    drafts.save(DraftEdit(NAME, ANN, files, "", 0, code=True))
    with pytest.raises(PermissionDenied):
        trials.try_out(NAME, ANN, "draft", [TrialMessage(ORDER)], code=False)
    with pytest.raises(PermissionDenied):
        activate(drafts)


def test_a_file_of_the_operator_that_uses_a_hook(home: Path, drafts: DefinitionEditor) -> None:
    """An author may keep the hook of an inactive file, but not use it in another definition."""
    (home / f"mappings/{NAME}.yaml").write_text(rule("mine:f"), "utf-8")
    save(drafts, f"{rule('mine:f')}  KeyFindings: PID-3\n")
    files = {"orders.yaml": f"include: {NAME}.yaml"}
    with pytest.raises(PermissionDenied):
        drafts.save(DraftEdit("orders", ANN, files, "", 0))


def test_an_installed_module_is_a_mistake(
    drafts: DefinitionEditor, trials: DefinitionTrials
) -> None:
    """The check refuses a hook of an installed module, and runs nothing."""
    saved = save(drafts, rule("_osx_support:_read_output"), code=True)
    (issue,) = saved["issues"]
    assert issue["code"] == "hook"
    with pytest.raises(InvalidContent):
        trials.try_out(NAME, ROOT, "draft", [TrialMessage(ORDER)], code=True)
    with pytest.raises(InvalidContent):
        activate(drafts, code=True)
