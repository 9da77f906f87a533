"""Python's start-up hook: it shifts the clock by the seconds in a file of the soak test."""

import os
import time
from contextlib import suppress

_FILE = os.environ.get("SOAK_CLOCK", "")
_true = time.time_ns


def _shifted_ns() -> int:
    with suppress(OSError, ValueError), open(_FILE, encoding="ascii") as file:  # noqa: PTH123  # no imports here
        return _true() + int(file.read()) * 1_000_000_000
    return _true()


def _shifted() -> float:
    return _shifted_ns() / 1_000_000_000


if _FILE:
    time.time_ns = _shifted_ns
    time.time = _shifted
