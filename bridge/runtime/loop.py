"""The one loop that Twisted and asyncio share, and the interpreter settings of a service process.

SIGTERM and SIGINT ask it to stop, once; it decides how. No part of the service is known here.
"""

import asyncio
import ctypes
import gc
import signal
import sys
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


_TURN = 0.0005  # seconds
_NEW_OBJECTS = 20_000  # before the collector looks at them
_PAGES_FROM = -3  # M_MMAP_THRESHOLD of malloc.h
_LARGE_MEMORY = 2**20  # bytes


def settle_down() -> None:
    """Set all of it, when everything that stays is there."""
    spare_the_collector()
    take_short_turns()
    give_large_memory_back()


def spare_the_collector() -> None:
    """
    Let the garbage collector leave alone what start-up made, and look less often.

    Hundreds of thousands of objects live as long as the process; to walk them again and again
    while messages come in costs as much as the messages (measured: half of the intake's time).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 50)
    gc.enable()


def take_short_turns() -> None:
    """
    Let the loop have its turn soon while threads compute.

    Each call to the database gives the interpreter away, and to get it back from a thread that
    computes takes up to this long: by default five milliseconds for each statement.
    """
    sys.setswitchinterval(_TURN)


def give_large_memory_back() -> None:
    """
    Let what is larger than a mebibyte have pages of its own (glibc; elsewhere nothing is changed).

    As it grows they are moved and not copied, for which everybody would wait; and the system has
    them back at once. By itself the library does so only until the first large one was let go.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_PAGES_FROM, _LARGE_MEMORY)
