"""
`python -m bridge …` in processes of its own: started, or forked from one that has loaded it.

What runs and what it is killed by is the same; most of what starting costs is imports, and a
forked one has them already. What is measured, or wants another interpreter, is started.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.processes import FORKED

ROOT = Path(__file__).resolve().parents[2]


class Running(Protocol):
    """What can be done with a process, as `subprocess.Popen` has it."""

    pid: int

    def poll(self) -> int | None:
        """Give the exit status, or minus the signal; None while it runs."""

    def send_signal(self, sig: int, /) -> None:
        """Send a signal to what runs."""

    def kill(self) -> None:
        """Kill -9."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; give the status. Raises TimeoutExpired."""


Program = Callable[[Sequence[str], Mapping[str, str], Path, Path], Running]
"""Runs `bridge` with arguments, in an environment; output and errors are appended to files."""


def started(
    arguments: Sequence[str], env: Mapping[str, str], output: Path, errors: Path
) -> Running:
    """Start an interpreter that runs it."""
    with output.open("ab") as out, errors.open("ab") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "bridge", *arguments],
            cwd=ROOT, env={**os.environ, **env}, stdout=out, stderr=err,
        )  # fmt: skip


class Forked:
    """One `bridge …`, forked; what it does not inherit is given to it."""

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
        """Give the exit status, or minus the signal; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal to what runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill -9."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; give the status. Raises TimeoutExpired."""
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
    for number, path in ((1, output), (2, errors)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123  # for as long as it runs
    sys.stdout, sys.stderr = (
        os.fdopen(number, "w", encoding="utf-8", buffering=1, closefd=False) for number in (1, 2)
    )
    from bridge.cli import main  # noqa: PLC0415  # where it is loaded already

    main()
