"""Wait for a condition that another thread, task or process makes true."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 120.0  # seconds; a test machine may be busy
_FIRST_PAUSE = 0.001  # seconds; each pause is twice as long as the one before
_LONGEST_PAUSE = 0.05

T = TypeVar("T")


def eventually(ask: Callable[[], T], patience: float = PATIENCE) -> T:
    """Call `ask` until its result is true, and return it; fail after `patience` seconds."""
    until = time.monotonic() + patience
    pause = _FIRST_PAUSE
    while not (answer := ask()):
        assert time.monotonic() < until, f"after {patience:.0f} s it is still {answer!r}"
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return answer


async def eventually_async(ask: Callable[[], T]) -> T:
    until = time.monotonic() + PATIENCE
    pause = _FIRST_PAUSE
    while not (answer := ask()):
        assert time.monotonic() < until, f"after {PATIENCE:.0f} s it is still {answer!r}"
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return answer
