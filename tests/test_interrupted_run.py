"""An interrupted run of the tests leaves no process and no database server behind."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.eventually import PATIENCE, eventually

_MARK = "REPORT_BRIDGE_INTERRUPTED_RUN"
"""Marks all processes of an interrupted run in their environment."""

_WAITING = """
import subprocess
import sys
from pathlib import Path
from threading import Event


def test_waits(postgres_server):
    child = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True
    )
    Path({ready!r}).write_text(str(child.pid))
    Event().wait()
"""


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_no_process_is_left(tmp_path: Path, kind: signal.Signals) -> None:
    """The service that a test started and its PostgreSQL end with the run."""
    ready, case = tmp_path / "ready", tmp_path / "test_case.py"
    (tmp_path / "pytest.ini").write_text("[pytest]")
    case.write_text(_WAITING.format(ready=str(ready)))
    options = ["-q", "-n", "1", "-p", "tests.conftest", "--rootdir", str(tmp_path)]
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, "-c", str(tmp_path / "pytest.ini"), str(case)],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, _MARK: str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        eventually(lambda: ready.exists() and ready.read_text())
        left = psutil.Process(run.pid).children(recursive=True)
        assert any(item.name() == "postgres" for item in left)
        assert int(ready.read_text()) in {item.pid for item in left}

        os.killpg(run.pid, kind)
        run.wait(PATIENCE)
        eventually(lambda: not [item for item in left if item.is_running()])
    finally:
        run.kill()
        run.wait()
        _kill_all_of(str(tmp_path))


def _kill_all_of(run: str) -> None:
    """Kill what an interrupted run has left, wherever it is now in the tree of processes."""
    while left := [process for process in psutil.process_iter() if _is_of(process, run)]:
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=10)


def _is_of(process: psutil.Process, run: str) -> bool:
    with suppress(psutil.Error):
        return bool(process.environ().get(_MARK) == run)
    return False
