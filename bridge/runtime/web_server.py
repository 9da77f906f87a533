"""
Web server: uvicorn as a task of the event loop.

The socket is bound before any part starts, so that a port in use is an error at once.
"""

import asyncio
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

from bridge.metrics import Metrics
from bridge.request_body import BUDGET
from bridge.runtime.http_connections import HttpConnections, HttpLimits, fit_to_descriptors
from bridge.runtime.http_protocol import HttpProtocol
from bridge.runtime.schedule import ServicePart
from config.quantities import Address
from config.sections import Http

BACKLOG = 128
"""Connections that wait to be accepted. The loop may accept all of them before it closes those
beyond the limit, so that this many more file descriptors are needed."""
DRAIN_SECONDS = 10
DATE_SECONDS = 1.0

DEFAULT_LIMITS = HttpLimits()


class _Server(uvicorn.Server):
    """Handles no signals, and updates the Date header once a second instead of ten times."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Accept no more requests, and let `serve` end."""
        self.should_exit = True
        self._ending.set()

    @contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        yield

    @override
    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # 0: it updates the Date header
            with suppress(TimeoutError):
                async with asyncio.timeout(DATE_SECONDS):
                    await self._ending.wait()


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
        self._connections = HttpConnections(limits, note)
        config = uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # the engine evaluates the headers of trusted proxies
            timeout_graceful_shutdown=DRAIN_SECONDS,
            backlog=BACKLOG,
            ws="none",
            http=partial(HttpProtocol, self._connections),  # type: ignore[arg-type]  # uvicorn calls it like a class
        )
        self._server = _Server(config)
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
        self._server.end()
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
    listening.setblocking(False)  # the standard library's signature
    return listening


def web_part(application: Any, bind: Address, settings: Http, metrics: Metrics) -> ServicePart:
    """Make the part of the service that serves HTTP, with the limits of the settings."""
    limits = HttpLimits(
        settings.max_connections,
        settings.max_connections_per_source,
        settings.head_timeout,
        settings.body_timeout,
        settings.body_rate,
        settings.idle_timeout,
        settings.write_timeout,
        tuple(settings.trusted_proxies),
    )
    BUDGET.size = settings.body_memory
    closed = metrics.http_connections_closed
    web = WebServer(application, bind, limits, lambda reason: closed.labels(reason).inc())
    log = structlog.get_logger("web")

    async def start() -> None:
        await web.start()
        log.info("listening", address=f"{bind.host}:{web.port}")

    return ServicePart("web", start, web.stop)
