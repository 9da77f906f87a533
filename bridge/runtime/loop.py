"""
Run a coroutine on the one loop that Twisted and asyncio share.

SIGTERM and SIGINT ask it to stop, once; it decides how. No part of the service is known here.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

_RESOLVERS = 4  # threads of asyncio's default executor: what else blocks is `bridge.executors`'

Main = Callable[[asyncio.Event], Awaitable[int]]
"""Takes the event that says "stop"; returns the exit status."""


def run(main: Main) -> int:
    """Install the reactor, run `main` to its end, return its status; its error is raised here."""
    from bridge.runtime.reactor import install  # noqa: PLC0415  # importing installs nothing yet

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    install(loop)
    loop.set_default_executor(ThreadPoolExecutor(_RESOLVERS, "host names"))
    from twisted.internet import reactor  # noqa: PLC0415  # now it is ours

    turning: Any = reactor
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, ValueError, RuntimeError):  # no main thread, Windows
            loop.add_signal_handler(number, stop.set)

    async def whole() -> int:
        try:
            return await main(stop)
        finally:
            await loop.shutdown_default_executor()
            turning.callLater(0, turning.stop)

    task = loop.create_task(whole())
    turning.run(installSignalHandlers=False)
    return task.result()
