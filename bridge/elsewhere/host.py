"""
Ask the process that reads large messages: `bridge.elsewhere.worker`.

It is started when there is something to ask, and ended when there was nothing for a while. One
message at a time: so what they need of memory is bounded. Blocking: for threads.
"""

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from bridge.elsewhere.errors import Gone
from bridge.elsewhere.worker import HEAD

LARGE = 2**20
"""Bytes of a message from which it keeps others waiting for longer than a process costs."""

IDLE = 60.0
"""Seconds after which a process that nobody asks is ended."""
WITHIN = 120.0
"""Seconds that one answer may take."""
_FAREWELL = 5.0  # seconds to end by itself


class _Process:
    """One process, and the pipes to it."""

    def __init__(self) -> None:
        path = os.pathsep.join(each or str(Path.cwd()) for each in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "bridge.elsewhere.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
            bufsize=0,
        )
        self.pid = self._process.pid

    def ask(self, call: bytes, payload: bytes, within: float) -> bytes:
        """Give the answer; raises OSError or EOFError where there is none."""
        overdue = threading.Timer(within, self._process.kill)
        overdue.daemon = True
        overdue.start()
        try:
            for part in (HEAD.pack(len(call), len(payload)) + call, payload):
                self._write(part)
            length, _ = HEAD.unpack(self._read(HEAD.size))
            return self._read(length)
        finally:
            overdue.cancel()

    def end(self, patience: float) -> None:
        """Let it end, or end it."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101  # it is a pipe
        view = memoryview(data)
        while view:  # gives the interpreter away, whatever it takes
            view = view[os.write(self._process.stdin.fileno(), view) :]

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None  # noqa: S101  # it is a pipe
        found = []
        while size:
            piece = os.read(self._process.stdout.fileno(), min(size, 2**16))
            if not piece:
                raise EOFError
            found.append(piece)
            size -= len(piece)
        return b"".join(found)


class Elsewhere:
    """The process, whether it runs just now or not."""

    def __init__(self, *, idle: float = IDLE, within: float = WITHIN) -> None:
        self._log = structlog.get_logger("large messages")
        self._idle, self._within = idle, within
        self._turn = threading.Lock()
        self._process: _Process | None = None
        self._rest: threading.Timer | None = None

    @property
    def pid(self) -> int | None:
        """The number of the process that runs, if one does."""
        process = self._process
        return None if process is None else process.pid

    def ask(self, function: Callable[..., Any], payload: bytes, *given: Any) -> Any:
        """
        Give what `function(payload, *given)` gives there, or raise what it raises.

        `function` is one of a module; what is given and returned can be pickled. A process that
        ends meanwhile is replaced once. Raises Gone.
        """
        call = pickle.dumps((function, given))
        with self._turn:
            self._stay()
            good, answer = pickle.loads(self._asked(call, payload))  # noqa: S301  # our own process's
            self._rest = threading.Timer(self._idle, self._retire)
            self._rest.daemon = True
            self._rest.start()
        if good:
            return answer
        raise answer

    def end(self) -> None:
        """End the process, once it has answered; the next question starts another."""
        with self._turn:
            self._stay()
            self._drop(_FAREWELL)

    def _asked(self, call: bytes, payload: bytes) -> bytes:
        for _ in range(2):
            try:
                if self._process is None:
                    self._process = _Process()
                return self._process.ask(call, payload, self._within)
            except (OSError, EOFError):
                self._drop(0.0)
                self._log.warning("the process for large messages ended before it had answered")
        raise Gone

    def _stay(self) -> None:
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.cancel()

    def _retire(self) -> None:
        if self._turn.acquire(blocking=False):  # else it is asked just now
            try:
                if self._rest is threading.current_thread():
                    self._drop(_FAREWELL)
            finally:
                self._turn.release()

    def _drop(self, patience: float) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end(patience)
