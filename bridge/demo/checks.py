"""Compare what happens with what the story says; wait for what takes its time. Prints nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from bridge.demo.errors import Interrupted, ServiceEnded, TooLate, Unexpected

Found = TypeVar("Found")

PATIENCE: Final = 30.0
"""Seconds: long for a machine with nothing else to do, not for a busy one."""
LOOK_EVERY: Final = 0.05
HINDSIGHT: Final = 2.0
"""Seconds that a failure waits for its cause: a dead service's connections break before its end
is known."""


def expect(what: str, expected: object, found: object) -> None:
    """Raise Unexpected unless both are equal."""
    if expected != found:
        raise Unexpected(what, expected, found)


async def until(
    what: str,
    look: Callable[[], Awaitable[Found]],
    enough: Callable[[Found], bool],
    *,
    within: float = PATIENCE,
) -> Found:
    """Look again and again until it is enough; raise TooLate after `within` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not enough(found := await look()):
        if loop.time() >= deadline:
            raise TooLate(what, within, found)
        await asyncio.sleep(LOOK_EVERY)
    return found


async def unless_over(
    work: Awaitable[Found], stop: asyncio.Event, ended: "asyncio.Future[int]"
) -> Found:
    """Give what comes of `work`, unless the user (`stop`) or the service (`ended`) ends first."""
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    watched: set[asyncio.Future[Any]] = {task, stopping, ended}
    try:
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            raise Interrupted
        if task.done() and task.exception() is not None:
            await asyncio.wait({ended}, timeout=HINDSIGHT)
        if ended.done() and not (task.done() and task.exception() is None):
            raise ServiceEnded(ended.result())
        return await task
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
