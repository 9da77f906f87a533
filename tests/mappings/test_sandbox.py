"""Hooks and patterns that hang, throw, allocate or shout harm nobody but their own message."""

import time
from pathlib import Path
from textwrap import dedent

import pytest

from mappings import sandbox
from mappings.compiler import check_sources
from mappings.errors import HookFailed, PatternFailed
from mappings.patterns import is_costly
from tests.mappings.language import DEFAULTS, SHIPPED, message, overlaid, tag

ORDER = ("ORC|NW|P1", "OBR|1|P1||X^Test|||||||||||||||A1")

BAD = {
    "hangs": "while True: pass",
    "allocates": "return len([bytearray(10 ** 7) for _ in range(10 ** 6)])",
    "leaves": "import os; os._exit(0)",
    "shouts": "return 'x' * 10 ** 8",
}


def hook(body: str) -> dict[str, str]:
    """A file of hooks with one function."""
    lines = dedent(body).replace("\n", "\n    ")
    return {"h.py": f"def f(message):\n    {lines}\n"}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_a_bad_hook_fails_in_time_and_the_next_one_works(
    body: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    It is accepted, fails when it is mapped, within the limit; others go on.

    What lies where the service was started is no program of ours.
    """
    (tmp_path / "json.py").write_text("raise SystemExit(1)", "utf-8")
    monkeypatch.chdir(tmp_path)
    mine = overlaid("tags: {Notes: {hook: 'h:f'}}", hook(body))
    assert not mine.examine(message(*ORDER), DEFAULTS).refusals
    monkeypatch.setattr(sandbox, "PATIENCE", 100.0)  # what it uses of a processor ends it
    began = time.monotonic()
    with pytest.raises(HookFailed):
        mine.apply(message(*ORDER), DEFAULTS)
    assert time.monotonic() - began < 60
    assert tag("{hook: 'h:f'}", files=hook("return message.segment('OBR')[1]")) == "1"


def test_a_busy_machine_kills_no_quick_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is what a hook uses of a processor; who waits is waited for, and not for ever."""
    waits = hook(f"import time; time.sleep({sandbox.SECONDS + 0.5}); return 'kept waiting'")
    assert tag("{hook: 'h:f'}", files=waits) == "kept waiting"
    mine = overlaid("tags: {Notes: {hook: 'h:f'}}", hook("import time; time.sleep(600)"))
    monkeypatch.setattr(sandbox, "PATIENCE", 0.2)
    with pytest.raises(HookFailed):
        mine.apply(message(*ORDER), DEFAULTS)


def test_what_a_hook_raises_is_told_by_its_class(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither the exception's text nor anything printed reaches our own output."""
    body = "print(message)\nraise ValueError(str(message))"
    mine = overlaid("tags: {Notes: {hook: 'h:f'}}", hook(body))
    with pytest.raises(HookFailed, match=r"^hook h:f raised ValueError$"):
        mine.apply(message(*ORDER), DEFAULTS)
    assert capfd.readouterr() == ("", "")


def test_a_hook_of_an_identity_refuses_the_message() -> None:
    """Without a patient there is no lane: the sender is told to try again."""
    text = "tags: {PatientMRN: {hook: 'h:f', required: true}}"
    mine = overlaid(text, hook("raise ValueError"))
    (refusal,) = mine.examine(message(*ORDER), DEFAULTS).refusals
    assert refusal.error_code.value == "207"


def test_a_module_that_never_ends_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs while it is imported does not hang the check."""
    monkeypatch.setattr("mappings.hooks._IMPORT_SECONDS", 0.5)
    text = "include: orders.yaml\ntags: {Notes: {hook: 'h:f'}}"
    sources = {**SHIPPED, "mine.yaml": text, "h.py": "while True: pass"}
    (issue,) = check_sources(sources, ["mine"], tables=False)
    assert "takes too long" in issue.message
    assert (issue.file, issue.line, issue.column) == ("mine.yaml", 2, 22)


def test_a_pattern_that_explodes_is_stopped() -> None:
    """`(a+)+$` on a long value fails its message within the limit."""
    rule = "{from: NTE-3, when: {NTE-3: {matches: '^(a+)+$'}}}"
    mine = overlaid(f"tags: {{KeyFindings: {rule}}}")
    with pytest.raises(PatternFailed):
        mine.apply(message(*ORDER, f"NTE|1||{'a' * 60}!"), DEFAULTS)
    assert tag(rule, *ORDER, "NTE|1||aaa") == "aaa"


@pytest.mark.parametrize(
    ("pattern", "costly"),
    [
        (r"^AI-", False),
        (r"(^|\^|&)\s*printset:", False),
        (r"^\d{4}(\d\d){0,2}$", False),
        (r"[*+]{3}\*\+", False),
        (r"(?i)colou?r", False),
        (r"(a+)+$", True),
        (r"(a|a)*b", True),
        (r"\s*x\s*y", True),
        (r"(a?){30}a{30}", True),
        (r"(?:ab){2,}", True),
    ],
)
def test_which_patterns_are_asked_elsewhere(pattern: str, costly: bool) -> None:
    """Those with several repetitions or one of a group; none that we ship."""
    assert is_costly(pattern) is costly


def test_shipped_patterns_are_cheap() -> None:
    """No definition of ours pays for the sandbox."""
    texts = [line.split("matches:")[1] for text in SHIPPED.values() for line in text.splitlines()
             if "matches:" in line]  # fmt: skip
    assert texts
    assert not any(is_costly(each.split("'")[1]) for each in texts)
