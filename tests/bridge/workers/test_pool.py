"""The worker pool: a new process for each call, with limits; closing the pool ends them."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bridge.workers.hooks import WorkerHookRunner
from bridge.workers.host import WorkerBusy, WorkerFailed, WorkerTimeout
from bridge.workers.pool import WorkerPool
from mappings.language.hooks import HookStopped
from tests.eventually import eventually

MODULES = ["tests.bridge.workers.tasks"]


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool("test", MODULES, size=1)
    yield made
    made.close()
    assert made.pids == []


def test_a_task_takes_bytes_and_arguments(pool: WorkerPool) -> None:
    """It returns JSON or bytes; the worker is kept for the next call."""
    assert pool.pids == []
    assert pool.call("length", b"x" * 10**6, {"more": 3}, seconds=60) == 10**6 + 3
    before = pool.pids
    assert pool.call("echo", bytes(range(256)), seconds=60) == bytes(range(256))
    assert pool.pids == before != []


def test_no_call_sees_the_state_of_another(pool: WorkerPool) -> None:
    """A module's variables are as they were imported, for each call."""
    assert [pool.call("count", seconds=60) for _ in range(3)] == [1, 1, 1]


def test_the_environment_is_empty(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Files in the working directory are not imported."""
    (tmp_path / "json.py").write_text("raise SystemExit(1)", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET", "tops3cret")
    environment, parent, folder = pool.call("about", seconds=60)
    assert environment.keys() <= {"LC_CTYPE"}
    assert parent != os.getpid()
    assert folder == "/"
    assert os.getsid(parent) == parent


@pytest.mark.parametrize("task", ["compute", "sleep"])
def test_a_call_that_takes_too_long(pool: WorkerPool, task: str) -> None:
    """The call is stopped, and the same worker serves the next one."""
    pool.call("length", seconds=60)
    before = pool.pids
    with pytest.raises(WorkerTimeout):
        pool.call(task, arguments={"seconds": 600}, seconds=0.3, wait=30)
    with pytest.raises(WorkerTimeout):
        pool.call("compute", seconds=600, processor=1)
    assert pool.call("length", seconds=60) == 0
    assert pool.pids == before


def test_a_call_that_fails(pool: WorkerPool) -> None:
    """The error has the class name, not the text. Large results and early exits fail too."""
    with pytest.raises(WorkerFailed) as found:
        pool.call("fail", b"Doe^John", seconds=60)
    assert found.value.names[:2] == ("KeyError", "LookupError")
    assert "Doe" not in str(found.value) + repr(found.value.args)
    with pytest.raises(WorkerFailed):
        pool.call("echo", b"x" * 10**6, seconds=60, max_bytes=999)  # the task is still writing
    with pytest.raises(WorkerFailed):
        pool.call("leave", seconds=60)


def test_a_worker_that_was_killed_is_replaced(pool: WorkerPool) -> None:
    pool.call("length", seconds=60)
    (before,) = pool.pids
    os.kill(before, 9)
    assert pool.call("length", b"x", seconds=60) == 1
    assert pool.pids != [before]


def test_waiting_is_bounded() -> None:
    """The time and the number of waiting calls are limited."""
    pool = WorkerPool("test", MODULES, size=1, waiting=1)
    pool.call("length", seconds=60)
    results: list[object] = []

    def call(seconds: float) -> None:
        with suppress(WorkerFailed):
            results.append(pool.call("sleep", arguments={"seconds": seconds}, seconds=60))

    first = threading.Thread(target=call, args=(600,))
    first.start()
    eventually(lambda: not pool._idle)
    with pytest.raises(WorkerBusy):
        pool.call("length", seconds=60, wait=0.05)
    second = threading.Thread(target=call, args=(0,))
    second.start()
    eventually(lambda: pool._waiting == 1)
    with pytest.raises(WorkerBusy):
        pool.call("length", seconds=60, wait=60)
    pool.close()
    first.join()
    second.join()
    assert results == [None]
    pool.close()


def test_closing_ends_everything(pool: WorkerPool) -> None:
    """A later call starts another process."""
    pool.call("length", seconds=60)
    (pid,) = pool.pids
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert pool.call("length", seconds=60) == 0


def test_idle_processes_end() -> None:
    pool = WorkerPool("test", MODULES, size=1, idle=0.05)
    pool.call("length", seconds=60)
    eventually(lambda: pool.pids == [])


MESSAGE = "MSH|^~\\&|RIS\rPID|1||M1||DOE^JANE\r"


@pytest.mark.parametrize("result", ["'a\\x00b'", "'\\ud800'", "chr(0xDFFF)"])
def test_a_result_that_no_database_can_store_is_refused(result: str) -> None:
    """The hook fails before its text is stored."""
    source = f"def value(message):\n    return {result}\n"
    with pytest.raises(HookStopped, match="NUL character or an unpaired surrogate"):
        WorkerHookRunner().call("odd", source, "value", MESSAGE)


def test_a_result_in_any_language() -> None:
    """Text of all languages is accepted."""
    source = "def value(message):\n    return f'{message[1][3]} \\u80ba \\U0001f9b4'\n"
    assert WorkerHookRunner().call("plain", source, "value", MESSAGE) == "M1 \u80ba \U0001f9b4"
