"""
The main program of a worker process: one confined child process for each call.

The process imports the modules with the tasks, confines itself (`confinement`) and then serves
calls from stdin, one at a time. Each call runs in a child process that is forked for it, sealed,
and killed afterwards: no call sees the state that another one left, and a task that takes over its
process can forge its own answer only. The child process has one descriptor, its answer's pipe.

Framing, both ways: a head (length of the JSON or of the answer, length of the payload) and that
many bytes. An answer starts with one byte of this process, then what the child process wrote.
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

from bridge.workers.confinement import LANDLOCK, Seal, confine, library_folders

HEAD = struct.Struct("!IQ")
"""Bytes of the JSON (or of the answer), and of the payload behind it."""

ANSWERED, FAILED, OVERDUE = b"A", b"F", b"T"
"""What this process says of a call: the child process ended well, badly, or was out of time."""
JSON_ANSWER, BYTES_ANSWER, RAISED = b"J", b"B", b"E"
"""How the child process marks what it says."""

LENGTH = struct.Struct("!I")
"""Bytes of what the child process says, before it."""
PROTECTIONS = "protections"
"""The task that every worker has: name what confines the process of a call."""

Task = Callable[[bytes, Mapping[str, Any]], Any]
"""Takes the payload and the arguments; gives bytes, or what JSON can say."""

_STOPPED = (signal.SIGKILL, signal.SIGXCPU)

_PIECE = 2**16


def main(modules: list[str], memory: int, nice: int) -> None:
    """Serve calls until the service closes the pipe."""
    requests, replies = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nowhere, descriptor)
    for each in (signal.SIGTERM, signal.SIGINT):  # the service closes the pipe when it ends
        signal.signal(each, signal.SIG_IGN)
    os.nice(nice)
    tasks: dict[str, Task] = {PROTECTIONS: _protections}
    for name in modules:
        tasks.update(importlib.import_module(name).TASKS)
    time.tzset()
    folders = library_folders()
    sys.path[:] = [str(each) for each in folders if each.name != "zoneinfo"]
    active = confine(memory, folders)
    seal = Seal(can_open=LANDLOCK in active)
    gc.collect()
    gc.freeze()
    os.dup2(nowhere, 2)  # until here, a mistake of ours is reported
    os.close(nowhere)
    _reply(replies, json.dumps(active).encode())
    server = _Server(requests, replies, tasks, seal)
    with suppress(BrokenPipeError):
        while server.serve():
            pass


class _Server:
    """Serves one call after the other."""

    def __init__(self, requests: int, replies: int, tasks: Mapping[str, Task], seal: Seal) -> None:
        self._requests, self._replies = requests, replies
        self._tasks, self._seal = tasks, seal

    def serve(self) -> bool:
        """Serve one call; False when there will be no more."""
        head = _read(self._requests, HEAD.size)
        if head is None:
            return False
        asked, size = HEAD.unpack(head)
        call, payload = _read(self._requests, asked), _read(self._requests, size)
        if call is None or payload is None:
            return False
        answer = self._performed(json.loads(call), payload)
        if answer is None:
            return False
        _reply(self._replies, answer)
        return True

    def _performed(self, call: dict[str, Any], payload: bytes) -> bytes | None:
        """Run a call in a child process; None when the service is gone meanwhile."""
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            for each in (ours, self._requests, self._replies):
                os.close(each)
            self._run(call, payload, theirs)
        os.close(theirs)
        try:
            return self._collected(call, child, ours)
        finally:
            os.close(ours)

    def _collected(self, call: dict[str, Any], child: int, pipe: int) -> bytes | None:
        """Read what the child process says, within the limits; it is gone afterwards."""
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        poll.register(self._requests, 0)  # reports a hang-up of the service
        until = time.monotonic() + call["seconds"]
        said, verdict = bytearray(), b""
        while not verdict:
            ready = dict(poll.poll(max(0.0, until - time.monotonic()) * 1000))
            if not ready:
                verdict = OVERDUE
            elif self._requests in ready:
                break
            elif piece := os.read(pipe, _PIECE):
                said += piece
                verdict = _verdict(said, call["most"])
            else:
                verdict = FAILED
        # Killed even after it answered: a task may have started what goes on behind it.
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if verdict == FAILED and os.WIFSIGNALED(status) and os.WTERMSIG(status) in _STOPPED:
            verdict = OVERDUE  # by its limit of processor time
        if verdict == ANSWERED:
            (length,) = LENGTH.unpack_from(said)
            return verdict + said[LENGTH.size : LENGTH.size + length]
        return verdict or None

    def _run(self, call: dict[str, Any], payload: bytes, pipe: int) -> NoReturn:
        """Be the child process of a call."""
        try:
            gc.disable()
            active = self._seal.close(call["processor"])
            said = _said(self._tasks[call["task"]], payload, call["arguments"], active)
            view = memoryview(LENGTH.pack(len(said)) + said)
            while view:
                view = view[os.write(pipe, view) :]
        finally:
            os._exit(0)


def _said(task: Task, payload: bytes, given: Mapping[str, Any], active: list[str]) -> bytes:
    """Run a task; give its answer, or the names of the class that it raised and of its bases."""
    try:
        answer = active if task is _protections else task(payload, given)
        if isinstance(answer, bytes):
            return BYTES_ANSWER + answer
        return JSON_ANSWER + json.dumps(answer).encode()
    except BaseException as error:  # noqa: BLE001  # foreign code may raise anything
        return RAISED + json.dumps([each.__name__ for each in type(error).__mro__]).encode()


def _protections(payload: bytes, given: Mapping[str, Any]) -> list[str]:
    """Stand for the task that answers what the seal of its own process has made active."""
    return []


def _verdict(said: bytearray, most: int) -> bytes:
    """Say whether an answer is complete, or larger than it may be; empty while neither."""
    if len(said) < LENGTH.size:
        return b""
    (length,) = LENGTH.unpack_from(said)
    if length > most:
        return FAILED
    return ANSWERED if len(said) >= LENGTH.size + length else b""


def _read(descriptor: int, size: int) -> bytes | None:
    """Read so many bytes; None where the pipe ends before."""
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
