"""
Pools of worker processes, and how to call a task in one: `WorkerPool.call`.

A task is a named function `(payload: bytes, arguments: Mapping) -> bytes | JSON` in the dictionary
`TASKS` of one of the pool's modules. Each call runs in a process of its own, which is confined
(`confinement`): it has an empty environment, no network, no files but the standard library's, no
further processes, and limits on time, memory and the size of its answer. So a module with tasks
imports at its top whatever its tasks need; an import inside a task finds the standard library only.

Calls block: make them in a thread, outside of transactions and locks. Payload and answer are bytes
or JSON; nothing that a worker says is unpickled or run.
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast
from weakref import WeakSet

from bridge.workers import zygote
from bridge.workers.errors import WorkerBusy, WorkerFailed, WorkerTimeout
from bridge.workers.zygote import HEAD

MEBIBYTE = 2**20

_START_WITHIN = 30.0  # seconds, of a process with all its imports on a busy machine
_MARGIN = 5.0  # seconds beyond the limit of a call, until its worker is replaced
_ATTEMPTS = 2  # to call a task, where workers are killed from outside
_MOST_NAMES = 32  # of the classes of an exception

_BOOTSTRAP = (
    "import sys, json; given = json.loads(sys.argv[1]); sys.path += given.pop('path'); "
    "from bridge.workers.zygote import main; main(**given)"
)


class WorkerPool:
    """
    Up to `size` worker processes with the same tasks; started when they are needed.

    `modules` are imported by each process; `memory` is the address space of one in bytes, `idle`
    the seconds after which unused processes end, and `waiting` how many calls may wait for one.
    """

    def __init__(
        self,
        name: str,
        modules: Sequence[str],
        *,
        size: int,
        memory: int = 512 * MEBIBYTE,
        nice: int = 0,
        waiting: int = 64,
        idle: float = 60.0,
    ) -> None:
        self.name = name
        self._modules, self._memory, self._nice = list(modules), memory, nice
        self._size, self._most_waiting, self._rest = size, waiting, idle
        self._changed = threading.Condition()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._starting = 0
        self._waiting = 0
        self._retiring: threading.Timer | None = None
        _pools.add(self)

    def call(
        self,
        task: str,
        payload: bytes = b"",
        arguments: Mapping[str, Any] | None = None,
        *,
        seconds: float,
        processor: int | None = None,
        most: int = 16 * MEBIBYTE,
        wait: float | None = None,
    ) -> Any:
        """
        Run a task in a worker; give its answer: bytes, or what JSON can say.

        The call may take `seconds` by the clock, of these `processor` seconds of computing (as
        many as by the clock, where it is not given), may answer `most` bytes, and waits up to
        `wait` seconds for a free worker (as long as it may take). Raises WorkerTimeout,
        WorkerBusy, WorkerFailed.
        """
        limits = {"seconds": seconds, "processor": processor or max(1, round(seconds))}
        call = {"task": task, "arguments": dict(arguments or {}), "most": most, **limits}
        body = json.dumps(call).encode()
        until = time.monotonic() + (seconds if wait is None else wait)
        for _ in range(_ATTEMPTS):
            worker = self._taken(until)
            try:
                answer = worker.ask(body, payload, seconds + _MARGIN)
            except BrokenPipeError:  # no task ends the worker itself: it was killed from outside
                closed = worker.is_over
                self._dropped(worker)
                if closed:
                    break
            except BaseException:
                self._dropped(worker)
                raise
            else:
                self._returned(worker)
                return _read_answer(answer)
        raise WorkerFailed

    def protections(self) -> list[str]:
        """Name what confines the process of a call, in the order of `confinement.ALL`."""
        sealed = self.call(zygote.PROTECTIONS, seconds=10, wait=_START_WITHIN)
        with self._changed:
            active = self._idle[-1].active if self._idle else []
        return [*active, *sealed]

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes that run."""
        with self._changed:
            return sorted(each.pid for each in [*self._idle, *self._busy])

    def close(self) -> None:
        """End all processes, with the calls in them; a later call starts another."""
        with self._changed:
            idle, self._idle = self._idle, []
            busy = list(self._busy)
            if self._retiring is not None:
                self._retiring.cancel()
                self._retiring = None
        for each in idle:
            each.end()
        for each in busy:
            each.kill()

    def _taken(self, until: float) -> "_Worker":
        """Take a worker, or the right to start one. Raises WorkerBusy, WorkerFailed."""
        with self._changed:
            if self._waiting >= self._most_waiting:
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
            started = _Worker(self._modules, self._memory, self._nice)
        finally:
            with self._changed:
                self._starting -= 1
                if started is not None:
                    self._busy.add(started)
                self._changed.notify()
        return started

    def _returned(self, worker: "_Worker") -> None:
        with self._changed:
            self._busy.discard(worker)
            if worker.is_over:  # the pool was closed meanwhile
                return
            worker.used = time.monotonic()
            self._idle.append(worker)
            self._changed.notify()
            if self._retiring is None:
                self._retire_later()

    def _dropped(self, worker: "_Worker") -> None:
        worker.end()
        with self._changed:
            self._busy.discard(worker)
            self._changed.notify()

    def _retire_later(self) -> None:
        self._retiring = threading.Timer(self._rest, self._retire)
        self._retiring.daemon = True
        self._retiring.start()

    def _retire(self) -> None:
        """End the processes that nobody used for a while."""
        with self._changed:
            since = time.monotonic() - self._rest
            ended = [each for each in self._idle if each.used <= since]
            self._idle = [each for each in self._idle if each.used > since]
            self._retiring = None
            if self._idle or self._busy:
                self._retire_later()
        for each in ended:
            each.end()


class _Worker:
    """One worker process, and the pipes to it."""

    def __init__(self, modules: list[str], memory: int, nice: int) -> None:
        """Start it, and wait until it is ready. Raises WorkerFailed."""
        given = {"path": _path(), "modules": modules, "memory": memory, "nice": nice}
        self._process = subprocess.Popen(  # noqa: S603  # our own interpreter
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOTSTRAP, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={},
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )
        self.pid = self._process.pid
        self.used = 0.0
        self.is_over = False
        self._to = cast("IO[bytes]", self._process.stdin).fileno()
        self._from = cast("IO[bytes]", self._process.stdout).fileno()
        os.set_blocking(self._to, False)
        try:
            ready = self._answer(time.monotonic() + _START_WITHIN)
        except BrokenPipeError:
            self.end()
            raise WorkerFailed from None
        except BaseException:
            self.end()
            raise
        self.active: list[str] = json.loads(ready)
        """What confines it (`confinement`)."""

    def ask(self, call: bytes, payload: bytes, seconds: float) -> bytes:
        """
        Send a call; give the answer.

        Raises WorkerTimeout, and BrokenPipeError where the worker has ended.
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
            self._await(self._to, select.POLLOUT, until)
            view = view[os.write(self._to, view[: 2**16]) :]

    def _read(self, size: int, until: float) -> bytes:
        found = bytearray()
        while len(found) < size:
            self._await(self._from, select.POLLIN, until)
            piece = os.read(self._from, min(size - len(found), 2**20))
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
        """Kill it and whatever it started; who waits for its answer gets WorkerFailed."""
        self.is_over = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Kill it, and close the pipes: for the one thread that uses it."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                cast("IO[bytes]", pipe).close()


def _path() -> list[str]:
    """Give the folders that the service imports from; the interpreter's own come first there."""
    return [str(Path(each or ".").resolve()) for each in sys.path]


def _read_answer(answer: bytes) -> Any:
    """Read what a worker says. Raises WorkerTimeout, WorkerFailed."""
    verdict, kind, said = answer[:1], answer[1:2], answer[2:]
    if verdict == zygote.OVERDUE:
        raise WorkerTimeout
    if verdict != zygote.ANSWERED:
        raise WorkerFailed
    if kind == zygote.BYTES_ANSWER:
        return said
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        raise WorkerFailed from None
    if kind != zygote.RAISED:
        return found
    names = found[:_MOST_NAMES] if isinstance(found, list) else []
    raise WorkerFailed(tuple(each for each in names if isinstance(each, str)))


_pools: "WeakSet[WorkerPool]" = WeakSet()


@atexit.register
def close_all() -> None:
    """End the processes of all pools."""
    for each in list(_pools):
        each.close()
