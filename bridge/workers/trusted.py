"""
The main program of the worker process for large messages: it runs functions of this release.

Takes a function and its arguments, then the message that is its first argument; gives what it
returns or raises. It holds no secret, no database and no settings. It is less urgent than the
service and the first to be ended where memory runs out. It ends when the service closes the pipe.
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
    # The pipes are ours alone: nothing that is called may print into them.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with suppress(OSError, AttributeError):  # Linux alone
        fcntl.fcntl(requests, fcntl.F_SETPIPE_SZ, _PIPE)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    with suppress(BrokenPipeError):
        _reply(replies, b"[]")  # ready, and not confined
        while _serve(requests, replies):
            pass


def _serve(requests: BinaryIO, replies: BinaryIO) -> bool:
    """Serve one call; False when there will be no more."""
    head = requests.read(HEAD.size)
    if len(head) < HEAD.size:
        return False
    asked, size = HEAD.unpack(head)
    call = pickle.loads(requests.read(asked))  # noqa: S301  # the service's, by a pipe of its own
    _reply(replies, _answered(call, requests.read(size)))
    return True


def _answered(call: tuple[Callable[..., Any], tuple[Any, ...]], payload: bytes) -> bytes:
    """Give what a function returns, or raises, as `pickle` writes it."""
    function, given = call
    try:
        return pickle.dumps((True, function(payload, *given)))
    except MemoryError:  # the process ends: the host answers for it
        raise
    except Exception as error:  # noqa: BLE001  # it is raised again where it was asked for
        return _raised(error)


def _raised(error: Exception) -> bytes:
    try:
        said = pickle.dumps((False, error))
        pickle.loads(said)  # noqa: S301  # our own, of a moment before
    except Exception:  # noqa: BLE001  # not every exception can be pickled: its class is passed on
        return pickle.dumps((False, WorkerFailed((type(error).__name__,))))
    return said


def _reply(replies: BinaryIO, answer: bytes) -> None:
    replies.write(HEAD.pack(len(answer), 0) + answer)
    replies.flush()
