"""A process for large messages: asked like a function, replaced when it dies, gone when idle."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.elsewhere.errors import Gone, Unforeseen
from bridge.elsewhere.host import LARGE, Elsewhere
from mappings.hl7.refusals import MissingField
from tests.bridge.elsewhere import deeds

PAYLOAD = b"x" * LARGE


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """One that ends with the test."""
    made = Elsewhere()
    yield made
    made.end()
    assert made.pid is None


def test_it_is_another_process_and_less_urgent(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    And the same one for the next question; none before the first.

    What lies where the service was started is no program of ours.
    """
    (tmp_path / "pickle.py").write_text("raise SystemExit(1)", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert elsewhere.pid is None
    assert elsewhere.ask(deeds.length, PAYLOAD, 3) == LARGE + 3
    pid, nice = elsewhere.ask(deeds.who, PAYLOAD)
    assert pid == elsewhere.pid != os.getpid()
    assert nice > os.nice(0)


def test_what_is_raised_there_is_raised_here(elsewhere: Elsewhere) -> None:
    """A refusal with its place and text; what cannot travel, by its class alone."""
    with pytest.raises(MissingField) as found:
        elsewhere.ask(deeds.refuse, PAYLOAD)
    expected = MissingField("PID-3")
    assert (found.value.place, found.value.text) == (expected.place, expected.text)
    assert found.value.args == expected.args
    with pytest.raises(Unforeseen, match=r"^Own$"):
        elsewhere.ask(deeds.fail, PAYLOAD)


def test_killed_in_the_middle(elsewhere: Elsewhere, tmp_path: Path) -> None:
    """Another is asked; where that is killed too, nobody can say, and the next question can."""
    assert elsewhere.ask(deeds.dies_once, PAYLOAD, str(tmp_path / "mark")) == "answered"
    with pytest.raises(Gone):
        elsewhere.ask(deeds.dies, PAYLOAD)
    assert elsewhere.ask(deeds.length, PAYLOAD, 0) == LARGE


def test_what_takes_too_long() -> None:
    """Is killed."""
    elsewhere = Elsewhere(within=1.0)
    with pytest.raises(Gone):
        elsewhere.ask(deeds.sleeps, PAYLOAD)
    assert elsewhere.pid is None


def test_idle() -> None:
    """Nobody asks: no process."""
    elsewhere = Elsewhere(idle=0.1)
    pid = elsewhere.ask(deeds.who, PAYLOAD)[0]
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert elsewhere.pid is None
    assert not Path(f"/proc/{pid}").exists()  # nor is it left to be asked for its end
