"""
`python -m bridge …` in its own process: started, or forked from a process that has loaded it.

Both run the same program. A forked process starts faster because its imports are done. It forks its
service process, too, but starts a new one if that ends. Measurements and tests with another
interpreter start a new process.
"""

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, Protocol

from bridge.runtime import service_process
from tests.processes import FORKED

ROOT = Path(__file__).resolve().parents[2]


class Running(Protocol):
    """The interface of a running process, a part of that of `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit status, or minus the signal; None while it runs."""

    def send_signal(self, sig: int, /) -> None:
        """Send a signal to the process."""

    def kill(self) -> None:
        """Kill -9."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the status. Raises TimeoutExpired."""


Program = Callable[[Sequence[str], Mapping[str, str], Path, Path], Running]
"""Runs `bridge` with arguments, in an environment; output and errors are appended to files."""


def started(
    arguments: Sequence[str], env: Mapping[str, str], output: Path, errors: Path
) -> Running:
    """Start a new interpreter that runs `bridge`."""
    with output.open("ab") as out, errors.open("ab") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "bridge", *arguments],
            cwd=ROOT, env={**os.environ, **env}, stdout=out, stderr=err,
        )  # fmt: skip


_RUN = """
import runpy
runpy.run_module("bridge", run_name="__main__", alter_sys=True)
"""


def patched(source: str) -> Program:
    """Return a program that runs Python source, which changes the product, and then `bridge`."""

    def start(
        arguments: Sequence[str], env: Mapping[str, str], output: Path, errors: Path
    ) -> Running:
        code = f"{source}\nfrom bridge.cli import main\nmain()"
        with output.open("ab") as out, errors.open("ab") as err:
            return subprocess.Popen(
                [sys.executable, "-c", code, *arguments],
                cwd=ROOT, env={**os.environ, **env}, stdout=out, stderr=err,
            )  # fmt: skip

    return start


class Forked:
    """A forked `bridge …`; arguments, environment and output files are passed to it."""

    def __init__(
        self, arguments: Sequence[str], env: Mapping[str, str], output: Path, errors: Path
    ) -> None:
        environment = {**os.environ, **env}
        self._process = FORKED.Process(
            target=_become, args=(list(arguments), environment, output, errors), daemon=True
        )
        self._process.start()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        """Return the exit status, or minus the signal; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the status. Raises TimeoutExpired."""
        self._process.join(timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired("bridge", timeout or 0)
        return status


def _become(arguments: list[str], environment: dict[str, str], output: Path, errors: Path) -> None:
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["bridge", *arguments]
    sys.orig_argv = [sys.executable, "-m", *sys.argv]  # `serve` runs this in its service process
    for number, path in ((1, output), (2, errors)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123  # open until the process ends
    sys.stdout, sys.stderr = (
        os.fdopen(number, "w", encoding="utf-8", buffering=1, closefd=False) for number in (1, 2)
    )
    service_process.start_child = _fork_once
    from bridge.cli import main  # noqa: PLC0415  # the parent has loaded it already

    main()


_execute = service_process.start_child


class _ForkedChild:
    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._lock = threading.Lock()
        self._status: int | None = None

    def poll(self) -> int | None:
        with self._lock:
            if self._status is None and (ended := os.waitpid(self._pid, os.WNOHANG))[0]:
                self._status = os.waitstatus_to_exitcode(ended[1])
            return self._status

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        with suppress(ChildProcessError):  # another thread has noticed the end
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        status = self.poll()
        assert status is not None
        return status


def _fork_once(environment: Mapping[str, str], inherited: Sequence[int]) -> service_process.Child:
    """Fork the first service process. Later ones are executed, because threads are running."""
    service_process.start_child = _execute
    pid = os.fork()
    if pid == 0:
        _become_child(environment, inherited)
    return _ForkedChild(pid)


def _become_child(environment: Mapping[str, str], inherited: Sequence[int]) -> NoReturn:
    status = 70
    try:
        os.environ.clear()
        os.environ.update(environment)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in [int(link.name) for link in Path("/proc/self/fd").iterdir()]:
            with suppress(OSError):  # of the listing itself
                if stat.S_ISSOCK(os.fstat(number).st_mode) and number not in inherited:
                    os.dup2(nothing, number)
        service_process.NICE = 0  # other tests keep the processors busy
        from bridge.cli import main  # noqa: PLC0415  # the parent has loaded it already

        main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
    except BaseException:  # noqa: BLE001  # as at the end of an interpreter
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
