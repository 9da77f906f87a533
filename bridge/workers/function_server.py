"""The program of the worker process for large messages: it runs functions of this release.

It reads a function and its arguments, then the message that is the first argument, and returns
the result or the exception. It holds no secret, no database and no settings. It has lower
priority than the service, and the system ends it first if memory runs out. It ends when the
service closes the pipe.
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
from bridge.workers.errors import WorkerFailed
from bridge.workers.zygote import HEAD

_PIPE = 2**20  # bytes


def main(memory: int, nice: int) -> None:
    """Serve calls until the service closes the pipe; `memory` in bytes of address space."""
    os.nice(nice)
    for each in (signal.SIGTERM, signal.SIGINT):  # the service closes the pipe when it ends
        signal.signal(each, signal.SIG_IGN)
    time.tzset()
    limit(memory)
    # A called function must not print into the pipes.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with suppress(OSError, AttributeError):  # Linux only
        fcntl.fcntl(requests, fcntl.F_SETPIPE_SZ, _PIPE)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    with suppress(BrokenPipeError):
        _reply(replies, b"[]")  # ready, and not confined
        while _serve(requests, replies):
            pass


def _serve(requests: BinaryIO, replies: BinaryIO) -> bool:
    """Serve one call; return False at the end of the stream."""
    head = requests.read(HEAD.size)
    if len(head) < HEAD.size:
        return False
    asked, size = HEAD.unpack(head)
    call = pickle.loads(requests.read(asked))  # noqa: S301  # from the service
    _reply(replies, _result_of(call, requests.read(size)))
    return True


def _result_of(call: tuple[Callable[..., Any], tuple[Any, ...]], payload: bytes) -> bytes:
    """Run a function; return its result or exception, pickled."""
    function, given = call
    try:
        return pickle.dumps((True, function(payload, *given)))
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
