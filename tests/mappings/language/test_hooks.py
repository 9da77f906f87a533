"""
Hooks are functions of hook files.

A hook that hangs, raises or allocates fails its own message.
"""

import textwrap
from pathlib import Path
from textwrap import dedent

import pytest

from bridge.workers import hooks
from mappings.compiler import check_sources, read_folder
from mappings.language.diagnostics import HookFailed
from tests.mappings.definitions import DEFAULTS, SHIPPED, message, overlaid, tag

ORDER = ("ORC|NW|P1", "OBR|1|P1||X^Test|||||||||||||||A1")

BAD = {
    "hangs": "while True: pass",
    "allocates": "return len([bytearray(10 ** 7) for _ in range(10 ** 6)])",
    "leaves": "import os; os._exit(0)",
    "shouts": "return 'x' * 10 ** 8",
}


def hook(body: str) -> dict[str, str]:
    lines = dedent(body).replace("\n", "\n    ")
    return {"h.py": f"def f(message):\n    {lines}\n"}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_a_bad_hook_fails_in_time_and_the_next_one_works(
    body: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    A bad hook compiles, and its message fails within the limit. Others work.

    Files in the working directory are not imported.
    """
    (tmp_path / "json.py").write_text("raise SystemExit(1)", "utf-8")
    monkeypatch.chdir(tmp_path)
    mine = overlaid("tags: {Notes: {hook: 'h:f'}}", hook(body))
    assert not mine.pre_check(message(*ORDER), DEFAULTS).refusals
    monkeypatch.setattr(hooks, "SECONDS", 100.0)  # the limit of processor time ends it
    with pytest.raises(HookFailed):
        mine.apply(message(*ORDER), DEFAULTS)
    assert tag("{hook: 'h:f'}", files=hook("return message.segment('OBR')[1]")) == "1"


def test_a_busy_machine_does_not_stop_quick_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is processor time; waiting is limited separately."""
    waits = hook(f"import time; time.sleep({hooks.PROCESSOR_SECONDS + 0.5}); return 'kept waiting'")
    assert tag("{hook: 'h:f'}", files=waits) == "kept waiting"
    mine = overlaid("tags: {Notes: {hook: 'h:f'}}", hook("import time; time.sleep(600)"))
    monkeypatch.setattr(hooks, "SECONDS", 0.5)
    with pytest.raises(HookFailed):
        mine.apply(message(*ORDER), DEFAULTS)


def test_only_the_class_of_an_exception_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    """The text of the exception and printed output do not reach our output."""
    body = "print(message)\nraise ValueError(str(message))"
    mine = overlaid("tags: {Notes: {hook: 'h:f'}}", hook(body))
    with pytest.raises(HookFailed, match=r"^hook h:f raised ValueError$"):
        mine.apply(message(*ORDER), DEFAULTS)
    assert capfd.readouterr() == ("", "")


def test_a_hook_of_an_identity_refuses_the_message() -> None:
    """Without a patient there is no lane: the message is refused, and the sender may retry."""
    text = "tags: {PatientMRN: {hook: 'h:f', required: true}}"
    mine = overlaid(text, hook("raise ValueError"))
    (refusal,) = mine.pre_check(message(*ORDER), DEFAULTS).refusals
    assert refusal.error_code.value == "207"


def test_a_module_that_never_ends_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that hangs during import does not block the check."""
    monkeypatch.setattr(hooks, "LOADING_SECONDS", 0.6)
    text = "include: orders.yaml\ntags: {Notes: {hook: 'h:f'}}"
    sources = {**SHIPPED, "mine.yaml": text, "h.py": "while True: pass"}
    (issue,) = check_sources(sources, ["mine"], tables=False)
    assert "took too long" in issue.message
    assert (issue.file, issue.line, issue.column) == ("mine.yaml", 2, 22)


STANDARD_LIBRARY = (
    "_osx_support:_read_output",
    "os:system",
    "subprocess:getoutput",
    "builtins:eval",
)


@pytest.mark.parametrize(
    "name",
    [
        *STANDARD_LIBRARY,
        "sqlalchemy:text",
        "h.f:f",
        "os.path:join",
        "h:f.__call__",
        "h:_private",
        "h:__init__",
        "__main__:f",
        "../h:f",
        "/tmp/h:f",
        "include/h:f",
        "h:f:f",
        "h :f",
        "h:system",
        "h:Path",
        "h:made",
        "h:again",
        "\uff48:f",
        "h",
        ":f",
        "h:",
    ],
)
def test_a_hook_is_a_function_of_a_hook_file(name: str) -> None:
    """Installed modules, paths, private names and imported names are not hooks."""
    text = f"include: orders.yaml\ntags:\n  Notes: {{hook: '{name}'}}\n"
    source = (
        "from os import system\nfrom pathlib import Path\nfrom textwrap import dedent as again\n"
        "made = type('C', (), {'__call__': lambda self, message: 'x'})()\n"
        "def _private(message): return 'x'\ndef f(message): return 'x'\n"
    )
    sources = {**SHIPPED, "mine.yaml": text, "h.py": source, "include/h.py": source}
    (issue,) = check_sources(sources, ["mine"], tables=False)
    assert (issue.code, issue.file, issue.line, issue.column) == ("hook", "mine.yaml", 3, 17)


@pytest.mark.parametrize("name", STANDARD_LIBRARY)
def test_an_include_references_no_installed_module(name: str) -> None:
    """This holds for included files and for parts of an outbound definition."""
    inner = f"tags: {{Notes: {{hook: '{name}'}}}}\n"
    text = "include: [orders.yaml, include/more.yaml]\n"
    sources = {**SHIPPED, "mine.yaml": text, "include/more.yaml": inner}
    (issue,) = check_sources(sources, ["mine"], tables=False)
    assert (issue.code, issue.file) == ("hook", "include/more.yaml")


def test_a_hook_file_may_have_the_name_of_a_module() -> None:
    files = {"os.py": "def system(message):\n    return 'ours'\n"}
    assert tag("{hook: 'os:system'}", files=files) == "ours"


def test_a_link_out_of_the_hook_folder_is_no_hook_file(tmp_path: Path) -> None:
    """Such a link would make an installed module a hook; a link within the folder is a file."""
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data/mine.py").write_text("def f(message): return 'x'\n", "utf-8")
    (tmp_path / "mine.py").symlink_to("..data/mine.py")
    (tmp_path / "textwrap.py").symlink_to(textwrap.__file__)
    assert list(read_folder(tmp_path)) == ["mine.py"]


def test_an_unknown_exception_class_is_omitted() -> None:
    """A class name that is neither of Python nor in the file is omitted."""
    secret = "raise type(str(message.segment('OBR')[4][0][1]), (ValueError,), {})"
    mine = overlaid("tags: {Notes: {hook: 'h:f'}}", hook(secret))
    with pytest.raises(HookFailed, match=r"^hook h:f raised ValueError$"):
        mine.apply(message(*ORDER), DEFAULTS)
