"""
The worker process for large messages: a host of one process that runs our own functions.

Splitting, decoding or searching a large message holds the interpreter lock for milliseconds. In
a separate process it does not delay the service. It reads one message at a time, so that the
memory for large messages is bounded.

`main` is the program of the process. It reads a function and its arguments, then the message that
is the first argument, and returns the result or the exception. It has no
secrets, no database connection and no settings. It has lower priority than the service, and the
system ends it first if memory runs out.
"""

import fcntl
import os
import pickle
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

from bridge.workers.confinement import limit
from bridge.workers.host import MEBIBYTE, WorkerFailed, WorkerHost
from bridge.workers.zygote import HEAD

LARGE = 256 * 2**10
"""Bytes from which a message is large: stored in chunks, and read in the worker process."""
SECONDS = 120.0
"""Seconds for one answer."""
WAIT = 300.0
"""Seconds for which a call waits while other messages are read."""
MEMORY = 1024 * MEBIBYTE
"""Address space of the process; a message needs about five times its own size."""
_NICE = 10


class Offload(WorkerHost):
    """The process for large messages, started on demand."""

    def __init__(
        self, *, memory: int = MEMORY, idle: float = 60.0, seconds: float = SECONDS
    ) -> None:
        arguments = {"memory": memory, "nice": _NICE}
        super().__init__("large messages", __name__, arguments, size=1, idle=idle)
        self._seconds = seconds

    def run(self, function: Callable[..., Any], payload: bytes, *arguments: Any) -> Any:
        """
        Return the result of `function(payload, *arguments)` in the process, or raise its exception.

        `function` is a module's function; arguments and result must be picklable. Raises
        WorkerTimeout, WorkerBusy, WorkerFailed.
        """
        call = pickle.dumps((function, arguments))
        reply = self.ask(call, payload, seconds=self._seconds, wait=WAIT)
        succeeded, result = pickle.loads(reply)  # noqa: S301  # from our own process
        if succeeded:
            return result
        raise result


_PIPE_BYTES = 2**20


def main(memory: int, nice: int) -> None:
    """Serve calls until the service closes the pipe; `memory` in bytes of address space."""
    os.nice(nice)
    for number in (signal.SIGTERM, signal.SIGINT):  # the service closes the pipe when it ends
        signal.signal(number, signal.SIG_IGN)
    time.tzset()
    limit(memory)
    # A called function must not print into the pipes.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with suppress(OSError, AttributeError):  # Linux only
        fcntl.fcntl(requests, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    null_device = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null_device, descriptor)
    with suppress(BrokenPipeError):
        _reply(replies, b"[]")  # ready, and not confined
        while _serve(requests, replies):
            pass


def _serve(requests: BinaryIO, replies: BinaryIO) -> bool:
    """Serve one call; return False at the end of the stream."""
    head = requests.read(HEAD.size)
    if len(head) < HEAD.size:
        return False
    call_size, payload_size = HEAD.unpack(head)
    call = pickle.loads(requests.read(call_size))  # noqa: S301  # from the service
    _reply(replies, _result_of(call, requests.read(payload_size)))
    return True


def _result_of(call: tuple[Callable[..., Any], tuple[Any, ...]], payload: bytes) -> bytes:
    """Run a function; return its result or exception, pickled."""
    function, arguments = call
    try:
        return pickle.dumps((True, function(payload, *arguments)))
    except MemoryError:  # the process ends, and the host reports it
        raise
    except Exception as error:  # noqa: BLE001  # the caller raises it again
        return _pickled_error(error)


def _pickled_error(error: Exception) -> bytes:
    try:
        pickled = pickle.dumps((False, error))
        pickle.loads(pickled)  # noqa: S301  # just pickled here
    except Exception:  # noqa: BLE001  # not picklable: pass on its class name
        return pickle.dumps((False, WorkerFailed((type(error).__name__,))))
    return pickled


def _reply(replies: BinaryIO, answer: bytes) -> None:
    replies.write(HEAD.pack(len(answer), 0) + answer)
    replies.flush()
