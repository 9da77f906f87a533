"""Functions that the tests run in the worker process for large messages."""

import os
import signal
import time
from pathlib import Path

from mappings.hl7.refusals import MissingField


def length(payload: bytes, more: int) -> int:
    return len(payload) + more


def who(_payload: bytes) -> tuple[int, int]:
    return os.getpid(), os.nice(0)


def refuse(_payload: bytes) -> None:
    raise MissingField("PID-3")


def fail(_payload: bytes) -> None:
    class Own(Exception):
        pass

    raise Own


def dies_once(_payload: bytes, mark: str) -> str:
    """End the process the first time."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "answered"


def dies(_payload: bytes) -> None:
    """End the process each time."""
    os.kill(os.getpid(), signal.SIGKILL)


def sleeps(_payload: bytes) -> None:
    time.sleep(60)


def fills(_payload: bytes, size: int) -> int:
    """Allocate this many bytes."""
    return len(bytearray(size))


def environment(_payload: bytes) -> dict[str, str]:
    return dict(os.environ)
