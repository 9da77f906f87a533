"""
The process that carries out batches of launches: `python -m bridge.runtime.second_engine`.

The same engine as the service's own, on the same database, started by it while one process is not
enough (`bridge.runtime.seconding`). Does what a request asks for and nothing of the background
work. Ends when the service does, or has no more use for it.
"""

import asyncio
import ctypes
import gc
import os
import pickle
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from bridge import __version__
from bridge.engine_client.reports import BATCH
from bridge.observability.logs import configure
from bridge.runtime.interpreter import settle_down
from bridge.runtime.step import now_ms
from bridge.runtime.web import WebServer
from bridge.store.database import Database
from bridge.store.pool import Pool
from bridge.wiring import stores
from bridge.wiring.engine import engine_application
from config import Settings
from config.sections import LogFormat

CONNECTIONS = Pool(4, 4)
_FIRST_TO_GO = "500"  # of 1000, as Linux counts whom it ends where memory runs out
_SIGNAL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_OTHER_RELEASE = 3  # exit status


def main() -> None:
    """
    Take two descriptors: a socket that listens, a pipe to say "ready" on.

    The service writes what it is, how it was started, and the name of its announcements.
    """
    _step_back()
    _fall_with_the_service()
    gc.disable()  # until all runs
    listening, ready = (int(each) for each in sys.argv[1:])
    if sys.stdin.buffer.readline().decode().strip() != __version__:
        sys.exit(_OTHER_RELEASE)  # the files here were replaced meanwhile
    settings, mark = pickle.load(sys.stdin.buffer)  # noqa: S301  # the service's, by its own pipe
    configure(settings.log.level, as_json=settings.log.format is LogFormat.JSON)
    database = stores.open_engine_database(settings, CONNECTIONS)
    database.mark = mark
    try:
        asyncio.run(_serve(settings, database, socket.socket(fileno=listening), ready))
    finally:
        database.dispose()


async def _serve(
    settings: Settings, database: Database, listening: socket.socket, ready: int
) -> None:
    application = engine_application(settings, database, now_ms, alone=True)
    web = WebServer(batches_alone(application), listening)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def await_the_end() -> None:
        os.read(sys.stdin.fileno(), 1)  # until the service closes its pipe, or is gone
        loop.call_soon_threadsafe(stop.set)

    await web.start()
    settle_down()
    threading.Thread(target=await_the_end, daemon=True).start()
    with suppress(BrokenPipeError):  # nobody waits any more
        os.write(ready, b"!")
    os.close(ready)
    await stop.wait()
    await web.stop()
    await application.state.engine.stop()


def batches_alone(application: Any) -> Any:
    """Let nothing through but batches of launches: everything else is the service's own."""

    async def gate(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == BATCH:
            await application(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return gate


def _step_back() -> None:
    """Ignore signals to stop, which are the service's: it closes the pipe."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)


def _fall_with_the_service() -> None:
    """
    Be killed where the service is (Linux), held up or not.

    The next service tries again what was asked here, and applies what came after it: to be told by
    the pipe, and to finish what is in hand, would put an order back to what it was before.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main()
