"""Functions that the process for large messages runs in tests."""

import os
import signal
import time
from pathlib import Path

from mappings.hl7.refusals import MissingField


def length(payload: bytes, more: int) -> int:
    """Count."""
    return len(payload) + more


def who(_payload: bytes) -> tuple[int, int]:
    """Tell the process that answers, and how urgent it is."""
    return os.getpid(), os.nice(0)


def refuse(_payload: bytes) -> None:
    """Raise what has more to it than its text."""
    raise MissingField("PID-3")


def fail(_payload: bytes) -> None:
    """Raise what cannot be written down."""

    class Own(Exception):  # noqa: N818  # of this function alone
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
    """Take far too long."""
    time.sleep(60)


def fills(_payload: bytes, size: int) -> int:
    """Take so many bytes of memory."""
    return len(bytearray(size))


def environment(_payload: bytes) -> dict[str, str]:
    """Give the environment of the process."""
    return dict(os.environ)
