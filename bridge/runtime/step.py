"""A part of the service as two coroutines, and the clock that all parts share."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Action = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Step:
    """Something that runs between `start` and `stop`; `name` is what the log calls it."""

    name: str
    start: Action
    stop: Action


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


async def nothing() -> None:
    """Do nothing: half of what only starts or only stops."""
