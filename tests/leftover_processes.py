"""
End the processes that a run of the tests leaves behind when it is interrupted.

Ctrl-C ends the workers of pytest before their fixtures stop services and PostgreSQL. The process
that started the run adopts all orphans below it (Linux: prctl(2), PR_SET_CHILD_SUBREAPER) and
kills those that are left when it ends.
"""

import atexit
import ctypes
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil

_SET_CHILD_SUBREAPER = 36


def end_with_this_process(folder: Path) -> None:
    """Kill all descendants at the end of this process, then remove `folder`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, signal.default_int_handler)
    atexit.register(_end, os.getpid(), folder)


def _end(owner: int, folder: Path) -> None:
    if os.getpid() != owner:  # a forked process has inherited this handler
        return
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, signal.SIG_IGN)
    # A killed process hands its children to this one, so there may be more in the next round.
    while descendants := psutil.Process().children(recursive=True):
        for process in descendants:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(descendants, timeout=10)
        _reap()
    shutil.rmtree(folder, ignore_errors=True)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
