"""The worker process for large messages: called like a function, replaced, ended when idle."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.workers.host import WorkerFailed, WorkerTimeout
from bridge.workers.offload import LARGE, Offload
from mappings.hl7.refusals import MissingField
from tests.bridge.workers import functions
from tests.eventually import eventually

PAYLOAD = b"x" * LARGE


@pytest.fixture
def offload() -> Iterator[Offload]:
    made = Offload()
    yield made
    made.close()
    assert made.pids == []


def test_it_is_another_process_with_lower_priority(
    offload: Offload, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    The first call starts it, and the next call uses it again.

    It imports no module from the working directory.
    """
    (tmp_path / "pickle.py").write_text("raise SystemExit(1)", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert offload.pids == []
    assert offload.run(functions.length, PAYLOAD, 3) == LARGE + 3
    pid, nice = offload.run(functions.who, PAYLOAD)
    assert [pid] == offload.pids != [os.getpid()]
    assert nice > os.nice(0)


def test_an_exception_of_the_worker_is_raised_by_the_call(offload: Offload) -> None:
    """A refusal keeps place and text; an exception that cannot be pickled keeps its class name."""
    with pytest.raises(MissingField) as found:
        offload.run(functions.refuse, PAYLOAD)
    expected = MissingField("PID-3")
    assert (found.value.place, found.value.text) == (expected.place, expected.text)
    assert found.value.args == expected.args
    with pytest.raises(WorkerFailed) as failed:
        offload.run(functions.fail, PAYLOAD)
    assert failed.value.names == ("Own",)


def test_a_worker_killed_during_a_call(offload: Offload, tmp_path: Path) -> None:
    """A new process gets the call; if that is killed too, the call fails and the next one works."""
    assert offload.run(functions.dies_once, PAYLOAD, str(tmp_path / "mark")) == "answered"
    with pytest.raises(WorkerFailed):
        offload.run(functions.dies, PAYLOAD)
    assert offload.run(functions.length, PAYLOAD, 0) == LARGE


def test_a_call_that_takes_too_long() -> None:
    offload = Offload(seconds=1.0)
    with pytest.raises(WorkerTimeout):
        offload.run(functions.sleeps, PAYLOAD)
    assert offload.pids == []


def test_an_idle_worker_ends() -> None:
    """It is not left as a zombie."""
    offload = Offload(idle=0.1)
    pid = offload.run(functions.who, PAYLOAD)[0]
    eventually(lambda: not Path(f"/proc/{pid}").exists())
    assert offload.pids == []


def test_a_call_that_needs_too_much_memory() -> None:
    """The process ends and the call fails; the next call has another process."""
    offload = Offload(memory=256 * 2**20)
    with pytest.raises(WorkerFailed):
        offload.run(functions.fills, PAYLOAD, 2**30)
    assert offload.run(functions.length, PAYLOAD, 0) == LARGE
    offload.close()


def test_its_environment_is_empty(offload: Offload, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process gets no secret of the service."""
    monkeypatch.setenv("SECRET", "tops3cret")
    assert offload.run(functions.environment, PAYLOAD).keys() <= {"LC_CTYPE"}
