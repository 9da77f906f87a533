"""Checks of the demonstration: compare values, and wait for results. Prints nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from bridge.demo.errors import Interrupted, ServiceEnded, TooLate, Unexpected

Found = TypeVar("Found")

TIMEOUT_SECONDS: Final = 30.0
"""Generous, because the machine may be busy."""
POLL_SECONDS: Final = 0.05
CAUSE_SECONDS: Final = 2.0
"""Seconds to wait for the end of the service after an error, which may be its cause."""


def expect(what: str, expected: object, found: object) -> None:
    """Raise Unexpected unless the values are equal."""
    if expected != found:
        raise Unexpected(what, expected, found)


async def until(
    what: str,
    look: Callable[[], Awaitable[Found]],
    enough: Callable[[Found], bool],
    *,
    within: float = TIMEOUT_SECONDS,
) -> Found:
    """Poll until `enough` returns True. Raises TooLate after `within` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not enough(found := await look()):
        if loop.time() >= deadline:
            raise TooLate(what, within, found)
        await asyncio.sleep(POLL_SECONDS)
    return found


async def run_until_end(
    work: Awaitable[Found], stop: asyncio.Event, ended: "asyncio.Future[int]"
) -> Found:
    """Return the result of `work`. Raises Interrupted or ServiceEnded if one comes first."""
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    watched: set[asyncio.Future[Any]] = {task, stopping, ended}
    try:
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            raise Interrupted
        if task.done() and task.exception() is not None:
            await asyncio.wait({ended}, timeout=CAUSE_SECONDS)
        if ended.done() and not (task.done() and task.exception() is None):
            raise ServiceEnded(ended.result())
        return await task
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
