"""The program of a sealed worker: one confined child process for each call.

The process imports the modules with the tasks, confines itself (`confinement`), and serves calls
from stdin, one at a time. Each call runs in a child process that is forked for it, sealed, and
killed afterwards: calls share no state, and a task that takes over its process can forge only
its own answer. The child process has one descriptor, the pipe for its answer.

Framing, both ways: a head (length of the JSON or of the answer, length of the payload) and that
many bytes. An answer starts with one byte of this process, followed by the output of the child
process.
"""

import gc
import importlib
import json
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from bridge.workers.confinement import LANDLOCK, ProcessSeal, confine, library_folders

HEAD = struct.Struct("!IQ")
"""Length of the JSON (or of the answer), and of the payload that follows."""

ANSWERED, FAILED, OVERDUE = b"A", b"F", b"T"
"""The result of a call: the child process answered, failed, or exceeded its time."""
JSON_ANSWER, BYTES_ANSWER, RAISED = b"J", b"B", b"E"
"""The kind of the child's output."""

LENGTH = struct.Struct("!I")
"""Length of the child's output, which follows."""
PROTECTIONS = "protections"
"""The task that every worker has: return the confinement of a call's process."""

Task = Callable[[bytes, Mapping[str, Any]], Any]
"""Takes the payload and the arguments; returns bytes or a JSON value."""

_CHUNK_BYTES = 2**16


def main(modules: list[str], memory: int, nice: int) -> None:
    """Serve calls until the service closes the pipe."""
    requests, replies = os.dup(0), os.dup(1)
    null_device = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null_device, descriptor)
    for number in (signal.SIGTERM, signal.SIGINT):  # the service closes the pipe when it ends
        signal.signal(number, signal.SIG_IGN)
    os.nice(nice)
    tasks: dict[str, Task] = {PROTECTIONS: _protections}
    for name in modules:
        tasks.update(importlib.import_module(name).TASKS)
    time.tzset()
    folders = library_folders()
    sys.path[:] = [str(folder) for folder in folders if folder.name != "zoneinfo"]
    active = confine(memory, folders)
    seal = ProcessSeal(can_open=LANDLOCK in active)
    gc.collect()
    gc.freeze()
    os.dup2(null_device, 2)  # until here, errors go to the service's stderr
    os.close(null_device)
    _reply(replies, json.dumps(active).encode())
    server = _CallServer(requests, replies, tasks, seal)
    with suppress(BrokenPipeError):
        while server.serve():
            pass


class _CallServer:
    def __init__(
        self, requests: int, replies: int, tasks: Mapping[str, Task], seal: ProcessSeal
    ) -> None:
        self._requests, self._replies = requests, replies
        self._tasks, self._seal = tasks, seal

    def serve(self) -> bool:
        """Serve one call; return False at the end of the stream."""
        head = _read(self._requests, HEAD.size)
        if head is None:
            return False
        call_size, payload_size = HEAD.unpack(head)
        call, payload = _read(self._requests, call_size), _read(self._requests, payload_size)
        if call is None or payload is None:
            return False
        answer = self._run_in_child(json.loads(call), payload)
        if answer is None:
            return False
        _reply(self._replies, answer)
        return True

    def _run_in_child(self, call: dict[str, Any], payload: bytes) -> bytes | None:
        """Run a call in a child process; None if the service is gone."""
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            for descriptor in (read_end, self._requests, self._replies):
                os.close(descriptor)
            self._run(call, payload, write_end)
        os.close(write_end)
        try:
            return self._collect(call, child, read_end)
        finally:
            os.close(read_end)

    def _collect(self, call: dict[str, Any], child: int, pipe: int) -> bytes | None:
        """Read the output of the child process, within the limits; then end the process."""
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        poll.register(self._requests, 0)  # wakes the poll when the service closes the pipe
        until = time.monotonic() + call["seconds"]
        output, verdict = bytearray(), b""
        while not verdict:
            ready = dict(poll.poll(max(0.0, until - time.monotonic()) * 1000))
            if not ready:
                verdict = OVERDUE
            elif self._requests in ready:
                break
            elif piece := os.read(pipe, _CHUNK_BYTES):
                output += piece
                verdict = _verdict(output, call["max_bytes"])
            else:
                verdict = FAILED
        # Kill the child even after its answer: threads of the task may still be running.
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if verdict == FAILED and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            verdict = OVERDUE  # the limit of processor time ended the child
        if verdict == ANSWERED:
            (length,) = LENGTH.unpack_from(output)
            return verdict + output[LENGTH.size : LENGTH.size + length]
        return verdict or None

    def _run(self, call: dict[str, Any], payload: bytes, pipe: int) -> NoReturn:
        """Run a call; this is the child process."""
        try:
            gc.disable()
            active = self._seal.apply(call["processor"])
            output = _result_of(self._tasks[call["task"]], payload, call["arguments"], active)
            view = memoryview(LENGTH.pack(len(output)) + output)
            while view:
                view = view[os.write(pipe, view) :]
        finally:
            os._exit(0)


def _result_of(
    task: Task, payload: bytes, arguments: Mapping[str, Any], active: list[str]
) -> bytes:
    """Run a task; return its answer, or the class names of its exception and the bases."""
    try:
        answer = active if task is _protections else task(payload, arguments)
        if isinstance(answer, bytes):
            return BYTES_ANSWER + answer
        return JSON_ANSWER + json.dumps(answer).encode()
    except BaseException as error:  # noqa: BLE001  # foreign code may raise anything
        return RAISED + json.dumps([kind.__name__ for kind in type(error).__mro__]).encode()


def _protections(payload: bytes, arguments: Mapping[str, Any]) -> list[str]:
    """Mark the task whose answer is the active confinement of its own process."""
    return []


def _verdict(output: bytearray, max_bytes: int) -> bytes:
    """True if the output is complete or too large; empty if neither."""
    if len(output) < LENGTH.size:
        return b""
    (length,) = LENGTH.unpack_from(output)
    if length > max_bytes:
        return FAILED
    return ANSWERED if len(output) >= LENGTH.size + length else b""


def _read(descriptor: int, size: int) -> bytes | None:
    """Read `size` bytes; None if the pipe ends before."""
    found = bytearray()
    while len(found) < size:
        piece = os.read(descriptor, min(size - len(found), 2**20))
        if not piece:
            return None
        found += piece
    return bytes(found)


def _reply(descriptor: int, answer: bytes) -> None:
    view = memoryview(HEAD.pack(len(answer), 0) + answer)
    while view:
        view = view[os.write(descriptor, view) :]
