"""
The host of child processes: start, time limits, restart and end; and the errors of calls.

A host runs up to a number of processes of one program. It has two subclasses:

* `pool.WorkerPool`    runs foreign code and parses uploaded documents: program `zygote`, sealed
* `offload.Offload`    runs our own functions on large messages: program `offload`

A program serves one call at a time over its pipes and keeps no state between calls. Calls block:
make them on a thread, outside of transactions and locks.

* WorkerError
    * WorkerTimeout    the call used up its wall-clock or processor time
    * WorkerBusy       no worker became free in time, or too many calls wait
    * WorkerFailed     the task raised an exception, or its process ended
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast
from weakref import WeakSet

import structlog

from bridge.errors import BridgeError
from bridge.workers.zygote import HEAD


class WorkerError(BridgeError):
    """A call to a worker process has no answer."""


class WorkerTimeout(WorkerError):
    """The call exceeded its limits of wall-clock or processor time."""

    def __init__(self) -> None:
        super().__init__("the worker process was stopped: it took too long")


class WorkerBusy(WorkerError):
    """No worker process became free in time."""

    def __init__(self) -> None:
        super().__init__("all worker processes are busy; try again later")


class WorkerFailed(WorkerError):
    """
    The task raised an exception, its answer was too large, or its process ended.

    `names` are the class names of the exception and its bases, as the worker reports them. A
    process with foreign code can invent them: check them before logging.
    """

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self.names = names
        super().__init__("the worker process failed")


MEBIBYTE = 2**20

START_WITHIN = 30.0
"""Seconds for the start of a process with all its imports on a busy machine."""
_ATTEMPTS = 2  # per call: a worker may be killed from outside

_BOOTSTRAP = (
    "import sys, json, importlib; named = json.loads(sys.argv[1]); sys.path += named.pop('path'); "
    "importlib.import_module(named.pop('program')).main(**named)"
)


class WorkerHost:
    """
    Up to `size` processes of a program, started on demand.

    `arguments` are those of the program's `main`, `idle` the seconds after which unused
    processes end, and `waiting` the number of calls that may wait for a process.
    """

    def __init__(
        self,
        name: str,
        program: str,
        arguments: Mapping[str, Any],
        *,
        size: int,
        waiting: int = 64,
        idle: float = 60.0,
    ) -> None:
        self.name = name
        self._program, self._arguments = program, arguments
        self._size, self._max_waiting, self._idle_seconds = size, waiting, idle
        self._changed = threading.Condition()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._starting = 0
        self._waiting = 0
        self._retiring: threading.Timer | None = None
        _hosts.add(self)

    def ask(self, call: bytes, payload: bytes, *, seconds: float, wait: float) -> bytes:
        """
        Return the answer to a call, within `seconds` after `wait` for a free process.

        A process that ends during the call is replaced once. Raises WorkerTimeout, WorkerBusy,
        WorkerFailed.
        """
        until = time.monotonic() + wait
        for _ in range(_ATTEMPTS):
            worker = self._acquire(until)
            try:
                answer = worker.ask(call, payload, seconds)
            except BrokenPipeError:
                closed = worker.is_killed
                self._discard(worker)
                if closed:
                    break
                _log.warning("worker process ended before it answered", job=self.name)
            except BaseException:
                self._discard(worker)
                raise
            else:
                self._release(worker)
                return answer
        raise WorkerFailed

    @property
    def active(self) -> list[str]:
        """The confinement of the processes, as the process that was used last reported it."""
        with self._changed:
            return self._idle[-1].active if self._idle else []

    @property
    def pids(self) -> list[int]:
        """The ids of the running processes."""
        with self._changed:
            return sorted(worker.pid for worker in [*self._idle, *self._busy])

    def close(self) -> None:
        """End all processes and their calls. A later call starts a new one."""
        with self._changed:
            idle, self._idle = self._idle, []
            busy = list(self._busy)
            if self._retiring is not None:
                self._retiring.cancel()
                self._retiring = None
        for worker in idle:
            worker.end()
        for worker in busy:
            worker.kill()

    def _acquire(self, until: float) -> "_Worker":
        """Take an idle worker or start one. Raises WorkerBusy, WorkerFailed."""
        with self._changed:
            if self._waiting >= self._max_waiting:
                raise WorkerBusy
            self._waiting += 1
            try:
                while not self._idle and len(self._busy) + self._starting >= self._size:
                    if not self._changed.wait(max(0.0, until - time.monotonic())):
                        raise WorkerBusy
            finally:
                self._waiting -= 1
            if self._idle:
                worker = self._idle.pop()
                self._busy.add(worker)
                return worker
            self._starting += 1
        started: _Worker | None = None
        try:
            started = _Worker(self._program, self._arguments)
        finally:
            with self._changed:
                self._starting -= 1
                if started is not None:
                    self._busy.add(started)
                self._changed.notify()
        return started

    def _release(self, worker: "_Worker") -> None:
        with self._changed:
            self._busy.discard(worker)
            if worker.is_killed:  # the host was closed during the task
                return
            worker.used_at = time.monotonic()
            self._idle.append(worker)
            self._changed.notify()
            if self._retiring is None:
                self._retire_later()

    def _discard(self, worker: "_Worker") -> None:
        worker.end()
        with self._changed:
            self._busy.discard(worker)
            self._changed.notify()

    def _retire_later(self) -> None:
        self._retiring = threading.Timer(self._idle_seconds, self._retire)
        self._retiring.daemon = True
        self._retiring.start()

    def _retire(self) -> None:
        """End processes that were idle for a while."""
        with self._changed:
            since = time.monotonic() - self._idle_seconds
            ended = [worker for worker in self._idle if worker.used_at <= since]
            self._idle = [worker for worker in self._idle if worker.used_at > since]
            self._retiring = None
            if self._idle or self._busy:
                self._retire_later()
        for worker in ended:
            worker.end()


class _Worker:
    """One worker process and its pipes."""

    def __init__(self, program: str, arguments: Mapping[str, Any]) -> None:
        """Start the process and wait until it is ready. Raises WorkerFailed."""
        start_arguments = json.dumps({"path": _import_path(), "program": program, **arguments})
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own interpreter
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOTSTRAP, start_arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={},
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
        except OSError:  # out of descriptors or processes
            raise WorkerFailed from None
        self.pid = self._process.pid
        self.used_at = 0.0
        self.is_killed = False
        self._request_pipe = cast("IO[bytes]", self._process.stdin).fileno()
        self._reply_pipe = cast("IO[bytes]", self._process.stdout).fileno()
        os.set_blocking(self._request_pipe, False)
        try:
            ready = self._answer(time.monotonic() + START_WITHIN)
        except BrokenPipeError:
            self.end()
            raise WorkerFailed from None
        except BaseException:
            self.end()
            raise
        self.active: list[str] = json.loads(ready)
        """Its active confinement (see `confinement`)."""

    def ask(self, call: bytes, payload: bytes, seconds: float) -> bytes:
        """
        Send a call and return the answer.

        Raises WorkerTimeout, and BrokenPipeError if the worker has ended.
        """
        until = time.monotonic() + seconds
        for part in (HEAD.pack(len(call), len(payload)) + call, payload):
            self._write(part, until)
        return self._answer(until)

    def _answer(self, until: float) -> bytes:
        length, _ = HEAD.unpack(self._read(HEAD.size, until))
        return self._read(length, until)

    def _write(self, data: bytes, until: float) -> None:
        view = memoryview(data)
        while view:
            self._await(self._request_pipe, select.POLLOUT, until)
            view = view[os.write(self._request_pipe, view[: 2**16]) :]

    def _read(self, size: int, until: float) -> bytes:
        found = bytearray()
        while len(found) < size:
            self._await(self._reply_pipe, select.POLLIN, until)
            piece = os.read(self._reply_pipe, min(size - len(found), 2**20))
            if not piece:
                raise BrokenPipeError
            found += piece
        return bytes(found)

    def _await(self, descriptor: int, event: int, until: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        left = until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise WorkerTimeout

    def kill(self) -> None:
        """Kill the process group; a waiting call gets WorkerFailed."""
        self.is_killed = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Kill the process and close the pipes: for the thread that uses it."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                cast("IO[bytes]", pipe).close()


def _import_path() -> list[str]:
    """Return the folders that the service imports from."""
    return [str(Path(path or ".").resolve()) for path in sys.path]


_log = structlog.get_logger("workers")
_hosts: "WeakSet[WorkerHost]" = WeakSet()


@atexit.register
def close_all() -> None:
    """End the processes of all hosts."""
    for host in list(_hosts):
        host.close()
