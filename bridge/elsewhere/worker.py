"""
The process that reads large messages: `python -m bridge.elsewhere.worker`.

Takes a function and its arguments, then the message that is its first argument; gives what it
returns or raises. Ends when nobody can ask any more. It is less urgent than the service, and the
first to be given up where memory runs out.
"""

import fcntl
import os
import pickle
import signal
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from bridge.elsewhere.errors import Unforeseen

HEAD = struct.Struct("!IQ")
"""Bytes of the pickled call or answer, and of the message behind it."""

_NICE = 10
_FIRST_TO_GO = "500"  # of 1000, as Linux counts whom it ends where memory runs out
_PIPE = 2**20  # bytes


def answered(call: tuple[Callable[..., Any], tuple[Any, ...]], payload: bytes) -> bytes:
    """Do what is asked; give what it returns, or raises, as `pickle` writes it."""
    function, given = call
    try:
        return pickle.dumps((True, function(payload, *given)))
    except Exception as error:  # noqa: BLE001  # it is raised again where it was asked for
        return _raised(error)


def _raised(error: Exception) -> bytes:
    try:
        said = pickle.dumps((False, error))
        pickle.loads(said)  # noqa: S301  # our own, of a moment before
    except Exception:  # noqa: BLE001  # not all that is raised can be written down
        return pickle.dumps((False, Unforeseen(type(error).__name__)))
    return said


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer until nobody asks any more."""
    while len(head := requests.read(HEAD.size)) == HEAD.size:
        asked, size = HEAD.unpack(head)
        call = pickle.loads(requests.read(asked))  # noqa: S301  # the service's, by a pipe of its own
        reply = answered(call, requests.read(size))
        replies.write(HEAD.pack(len(reply), 0) + reply)
        replies.flush()


def _step_back() -> None:
    """Be less urgent than the service. A signal to stop is the service's: it closes the pipe."""
    os.nice(_NICE)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)


def main() -> None:
    """Keep the pipes for ourselves: nothing that is called may print into them."""
    _step_back()
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with suppress(OSError, AttributeError):  # Linux alone
        fcntl.fcntl(requests, fcntl.F_SETPIPE_SZ, _PIPE)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    with suppress(BrokenPipeError):
        serve(requests, replies)


if __name__ == "__main__":
    main()
