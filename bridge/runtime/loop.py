"""
The event loop that Twisted and asyncio share, and the interpreter settings of a service process.

SIGTERM and SIGINT set an event; the main function decides how to stop.
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

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.main import installReactor

_RESOLVERS = 4  # threads of asyncio's default executor; other blocking work uses `bridge.executors`

Main = Callable[[asyncio.Event], Awaitable[int]]
"""Takes the event that requests a stop; returns the exit status."""


def run(main: Main) -> int:
    """Install the reactor, run `main`, and return its status or raise its error."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    installReactor(AsyncioSelectorReactor(loop))  # type: ignore[no-untyped-call]
    loop.set_default_executor(ThreadPoolExecutor(_RESOLVERS, "host names"))
    from twisted.internet import reactor  # noqa: PLC0415  # importing it earlier would install another

    installed: Any = reactor
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, ValueError, RuntimeError):  # no main thread, Windows
            loop.add_signal_handler(number, stop.set)

    async def run_main() -> int:
        try:
            return await main(stop)
        finally:
            await loop.shutdown_default_executor()
            installed.callLater(0, installed.stop)

    task = loop.create_task(run_main())
    installed.run(installSignalHandlers=False)
    return task.result()


_SWITCH_SECONDS = 0.0005
_NEW_OBJECTS = 20_000  # allocations until the garbage collector runs
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h
_LARGE_BLOCK = 2**20  # bytes


def tune_process() -> None:
    """Set the garbage collector, the switch interval and malloc; call it after the start."""
    tune_garbage_collector()
    shorten_switch_interval()
    map_large_blocks()


def tune_garbage_collector() -> None:
    """
    Exclude the objects of the start from garbage collection, and collect less often.

    Hundreds of thousands of objects live as long as the process. Scanning them repeatedly took half
    of the intake's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 50)
    gc.enable()


def shorten_switch_interval() -> None:
    """
    Let the event loop get the GIL back sooner while other threads compute.

    Each database call releases the GIL. With the default interval, getting it back from a computing
    thread takes up to five milliseconds per statement.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)


def map_large_blocks() -> None:
    """
    Let glibc map memory blocks above one mebibyte separately; no effect with other libraries.

    The kernel moves such blocks without copying when they grow, and gets them back when they are
    freed. By default glibc raises the threshold after the first large block is freed.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BLOCK)
