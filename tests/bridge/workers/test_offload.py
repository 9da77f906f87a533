"""The process for large messages: called like a function, replaced, ended when idle."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.workers.errors import WorkerFailed, WorkerTimeout
from bridge.workers.offload import LARGE, Offload
from mappings.hl7.refusals import MissingField
from tests.bridge.workers import offloaded

PAYLOAD = b"x" * LARGE


@pytest.fixture
def offload() -> Iterator[Offload]:
    """One that ends with the test."""
    made = Offload()
    yield made
    made.close()
    assert made.pids == []


def test_it_is_another_process_and_less_urgent(
    offload: Offload, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    And the same one for the next question; none before the first.

    What lies where the service was started is no program of ours.
    """
    (tmp_path / "pickle.py").write_text("raise SystemExit(1)", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert offload.pids == []
    assert offload.run(offloaded.length, PAYLOAD, 3) == LARGE + 3
    pid, nice = offload.run(offloaded.who, PAYLOAD)
    assert [pid] == offload.pids != [os.getpid()]
    assert nice > os.nice(0)


def test_what_is_raised_there_is_raised_here(offload: Offload) -> None:
    """A refusal with its place and text; what cannot travel, by its class alone."""
    with pytest.raises(MissingField) as found:
        offload.run(offloaded.refuse, PAYLOAD)
    expected = MissingField("PID-3")
    assert (found.value.place, found.value.text) == (expected.place, expected.text)
    assert found.value.args == expected.args
    with pytest.raises(WorkerFailed) as failed:
        offload.run(offloaded.fail, PAYLOAD)
    assert failed.value.names == ("Own",)


def test_killed_in_the_middle(offload: Offload, tmp_path: Path) -> None:
    """Another is asked; where that is killed too, nobody can say, and the next question can."""
    assert offload.run(offloaded.dies_once, PAYLOAD, str(tmp_path / "mark")) == "answered"
    with pytest.raises(WorkerFailed):
        offload.run(offloaded.dies, PAYLOAD)
    assert offload.run(offloaded.length, PAYLOAD, 0) == LARGE


def test_what_takes_too_long() -> None:
    """Is killed."""
    offload = Offload(seconds=1.0)
    with pytest.raises(WorkerTimeout):
        offload.run(offloaded.sleeps, PAYLOAD)
    assert offload.pids == []


def test_idle() -> None:
    """Nobody asks: no process."""
    offload = Offload(idle=0.1)
    pid = offload.run(offloaded.who, PAYLOAD)[0]
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert offload.pids == []
    assert not Path(f"/proc/{pid}").exists()  # nor is it left to be asked for its end


def test_one_that_needs_too_much_memory() -> None:
    """The process ends and the call fails; the next call has another process."""
    offload = Offload(memory=256 * 2**20)
    with pytest.raises(WorkerFailed):
        offload.run(offloaded.fills, PAYLOAD, 2**30)
    assert offload.run(offloaded.length, PAYLOAD, 0) == LARGE
    offload.close()


def test_its_environment_is_empty(offload: Offload, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets no secret of the service."""
    monkeypatch.setenv("SECRET", "tops3cret")
    assert offload.run(offloaded.environment, PAYLOAD).keys() <= {"LC_CTYPE"}
