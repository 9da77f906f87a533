"""Wait until something holds that another thread, task or process does."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 120.0  # seconds; a busy machine takes its time
_PAUSE = 0.02

T = TypeVar("T")


def eventually(ask: Callable[[], T], patience: float = PATIENCE) -> T:
    """Ask until the answer is true, and return it; fails where it never is."""
    until = time.monotonic() + patience
    while not (answer := ask()):
        assert time.monotonic() < until, f"after {patience:.0f} s it is still {answer!r}"
        time.sleep(_PAUSE)
    return answer


async def eventually_async(ask: Callable[[], T]) -> T:
    """Ask until the answer is true, while the event loop runs; as `eventually`."""
    until = time.monotonic() + PATIENCE
    while not (answer := ask()):
        assert time.monotonic() < until, f"after {PATIENCE:.0f} s it is still {answer!r}"
        await asyncio.sleep(_PAUSE)
    return answer
