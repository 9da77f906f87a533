"""A part of the service as two coroutines, and the clock that all parts share."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

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


class Chore:
    """What goes on as a task of its own from `start` to `stop`, and ends with its last word."""

    def __init__(
        self, name: str, run: Callable[[], Coroutine[Any, Any, None]], last: Action = nothing
    ) -> None:
        """`run` does not return by itself; `last` is awaited at the end, started or not."""
        self._name = name
        self._run = run
        self._last = last
        self._task: asyncio.Task[None] | None = None

    def part(self) -> Step:
        """Give it as a part of the service."""
        return Step(self._name, self.start, self.stop)

    async def start(self) -> None:
        """Begin; from now on it has its turns."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Cancel it, and wait until it has ended, however it ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._last()
