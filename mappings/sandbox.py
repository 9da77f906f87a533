"""
Run an administrator's code where it can do no harm: elsewhere, bounded in time and memory.

A process for each caller at a time, kept for the next one; whatever overruns is killed, and
what it was asked fails. Time is what the code used of a processor: on a machine that is busy
with other work, code that is quick is not killed for it. No protection against malice: the
code is the administrator's own.
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

from mappings.hookhost import LENGTH

SECONDS = 1.0
"""How much of a processor's time one answer may take."""
PATIENCE = 4.0
"""Seconds of the clock beyond that: for code that waits, and for a machine that has other work."""

_START_WITHIN = 20.0
_LONGEST_ANSWER = 4 * 1024 * 1024  # bytes
_ALARM_AFTER = 2.0  # seconds beyond the limit, should nobody be left to kill it


class Overrun(Exception):  # noqa: N818  # says what happened
    """It took too long, said too much, or ended instead of answering."""


class Raised(Exception):  # noqa: N818  # says what happened
    """It raised; the class is all that is told."""


class _Host:
    """One process that answers."""

    def __init__(self) -> None:
        path = os.pathsep.join(each or str(Path.cwd()) for each in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "mappings.hookhost"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
            bufsize=0,
        )
        self._to = cast("IO[bytes]", self._process.stdin)
        self._from = cast("IO[bytes]", self._process.stdout)
        try:
            self._read(LENGTH.size, time.monotonic() + _START_WITHIN)
        except BaseException:
            self.end()
            raise

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Send a request and wait for the reply. Raises Overrun."""
        within = seconds + PATIENCE
        limits = {"processor": seconds, "seconds": within + _ALARM_AFTER}
        body = json.dumps({**request, **limits}).encode()
        until = time.monotonic() + within
        try:
            _write_all(self._to, LENGTH.pack(len(body)) + body)
        except OSError:
            raise Overrun from None
        (length,) = LENGTH.unpack(self._read(LENGTH.size, until))
        if length > _LONGEST_ANSWER:
            raise Overrun
        reply: dict[str, Any] = json.loads(self._read(length, until))
        return reply

    def _read(self, size: int, until: float) -> bytes:
        stream = self._from
        poll = select.poll()
        poll.register(stream, select.POLLIN | select.POLLHUP)
        data = b""
        while len(data) < size:
            left = until - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise Overrun
            piece = os.read(stream.fileno(), size - len(data))
            if not piece:
                raise Overrun
            data += piece
        return data

    def end(self) -> None:
        """Kill it, and whatever it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._to.close()
        self._from.close()
        self._process.wait()


def _write_all(stream: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]


_idle: list[_Host] = []
_guard = threading.Lock()


def ask(request: Mapping[str, Any], seconds: float = SECONDS) -> Any:
    """
    Give what the code answers, in so many seconds of a processor. Raises Overrun and Raised.

    Blocking, for `seconds + PATIENCE` at most.
    """
    with _guard:
        host = _idle.pop() if _idle else None
    host = host or _Host()
    try:
        reply = host.ask(request, seconds)
    except BaseException:
        host.end()
        raise
    with _guard:
        _idle.append(host)
    if "raised" in reply:
        raise Raised(reply["raised"])
    return reply["value"]


@atexit.register
def end() -> None:
    """End all processes that wait for work."""
    with _guard:
        while _idle:
            _idle.pop().end()
