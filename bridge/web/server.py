"""
Web server: uvicorn as a task of the event loop, on a socket that is bound before any part starts.

A port in use is therefore an error at once.
"""

import asyncio
import logging
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
import uvicorn
from typing_extensions import override

from bridge.web.connections import HttpConnections, HttpLimits, fit_to_descriptors
from bridge.web.protocol import GuardedApplication, HttpProtocol
from config.quantities import Address

BACKLOG = 128
"""Connections that wait to be accepted. The loop may accept all of them before it closes those
beyond the limit, so that this many more file descriptors are needed."""
DRAIN_SECONDS = 10
_DATE_SECONDS = 1.0  # between two changes of the Date header
_UNLIMITED = 10**6  # seconds

DEFAULT_LIMITS = HttpLimits()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._exit = asyncio.Event()

    @contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        yield  # the process has its own handlers

    @override
    async def main_loop(self) -> None:
        # uvicorn's own loop wakes up ten times a second
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._exit.wait(), _DATE_SECONDS)

    def exit(self) -> None:
        """Accept no more requests."""
        self.should_exit = True
        self._exit.set()


def http_config(application: Any, connections: HttpConnections) -> uvicorn.Config:
    """Return the configuration of uvicorn, with the limits of `connections`."""
    return uvicorn.Config(
        GuardedApplication(application),
        log_config=None,
        log_level=logging.ERROR,  # a warning for each malformed request would be a flood
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,  # the engine evaluates the headers of trusted proxies
        timeout_keep_alive=_UNLIMITED,  # `HttpLimits` has the time limits
        timeout_graceful_shutdown=DRAIN_SECONDS,
        backlog=BACKLOG,
        ws="none",
        http=partial(HttpProtocol, connections),  # type: ignore[arg-type]  # uvicorn calls it like a class
    )


class WebServer:
    """An HTTP server on an address, or on a listening socket."""

    def __init__(
        self,
        application: Any,
        address: Address | socket.socket,
        limits: HttpLimits = DEFAULT_LIMITS,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`note` is called with the reason of each connection that is refused or closed."""
        self._socket = address if isinstance(address, socket.socket) else bind(address)
        self.port: int = self._socket.getsockname()[1]
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        fitting = fit_to_descriptors(limits.connections, descriptors)
        limits = replace(limits, connections=fitting)
        self._connections = HttpConnections(limits, note, structlog.get_logger("web"))
        self._server = _Server(http_config(application, self._connections))
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Accept requests."""
        self._task = asyncio.get_running_loop().create_task(
            self._server.serve(sockets=[self._socket]), name="web"
        )
        while not self._server.started and not self._task.done():  # noqa: ASYNC110  # uvicorn has no event for it
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Accept no more requests; finish those in progress."""
        self._server.exit()
        if self._task is not None:
            await self._task
        self._connections.stop()
        self._socket.close()


def bind(address: Address) -> socket.socket:
    """Return a listening socket. Raises OSError with the address."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is given. The algorithm would delay
    # the second part of a response until the first one is acknowledged (40 ms).
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot listen on {address}: {error.strerror}") from error
    listening.setblocking(False)
    return listening
