"""
Web server: uvicorn as a task of the event loop; and the probes `/healthz`, `/readyz`, `/metrics`.

The socket is bound before any part starts, so that a port in use is an error at once. Probes need
no token and contain no patient data. `/readyz` has its own database connection, so that it does not
depend on the connection pool.
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
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, Router
from typing_extensions import override

from bridge.executors import Threads
from bridge.metrics import CONTENT_TYPE, Metrics
from bridge.queue import queries
from bridge.queue.listing_rows import Depth
from bridge.queue.states import QueueState
from bridge.request_body import BUDGET
from bridge.runtime.http_connections import HttpConnections, HttpLimits, fit_to_descriptors
from bridge.runtime.http_protocol import HttpProtocol
from bridge.runtime.schedule import ServicePart
from bridge.store.database import Database
from bridge.store.errors import StoreError
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
    listening.setblocking(False)
    return listening


def web_part(application: Any, address: Address, settings: Http, metrics: Metrics) -> ServicePart:
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
    web = WebServer(application, address, limits, lambda reason: closed.labels(reason).inc())
    log = structlog.get_logger("web")

    async def start() -> None:
        await web.start()
        log.info("listening", address=f"{address.host}:{web.port}")

    return ServicePart("web", start, web.stop)


INBOX = "inbox"
ANSWER_SECONDS = 1.5
"""Seconds for the database to answer; load balancers and scrapers wait a little longer."""


class SharedQuery:
    """
    A database query whose result is shared by all requests that arrive while it runs.

    An unreachable server can block a query for half a minute. A request waits `ANSWER_SECONDS` and
    then counts the query as failed.
    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._query: asyncio.Future[bool] | None = None

    async def succeeded(self) -> bool:
        """Run the query, or wait for the one in progress; return whether it succeeded in time."""
        if self._query is None or self._query.done():
            self._query = asyncio.ensure_future(Threads.HEALTH.run(self._attempt))
        query = self._query
        await asyncio.wait([query], timeout=ANSWER_SECONDS)
        return query.done() and query.result()

    def _attempt(self) -> bool:
        try:
            self._ask()
        except StoreError:
            return False
        return True


class Readiness:
    """Whether a process is ready: all its parts have started, and none has begun to stop."""

    def __init__(self) -> None:
        self._ready = False

    async def begin(self) -> None:
        """Set the process ready: all parts have started."""
        self._ready = True

    async def end(self) -> None:
        """Set the process not ready: the first part is about to stop."""
        self._ready = False

    @property
    def status(self) -> str:
        """`ready`, or `unavailable` while starting and stopping."""
        return "ready" if self._ready else "unavailable"


async def _to_console(_: Request) -> Response:
    return RedirectResponse("/console", 303)


class Probes:
    """Serves the probes; all other paths go to the application."""

    def __init__(
        self,
        metrics: Metrics,
        readiness: Readiness,
        database: Database | None,
        now: Callable[[], int],
    ) -> None:
        self._metrics = metrics
        self._readiness = readiness
        self._now = now
        self._queues = {INBOX}
        self._ping = self._depths = None
        self._page: asyncio.Future[bytes] | None = None
        if database is not None:
            self._ping = SharedQuery(database.reader().ping)
            self._depths = SharedQuery(partial(self._measure, database))

    def router(self, application: Any | None, console: Any | None = None) -> Router:
        routes: list[Route | Mount] = [
            Route("/healthz", self._health),
            Route("/readyz", self._ready),
            Route("/metrics", self._send_metrics),
        ]
        if console is not None:
            routes += [Route("/console", console), Mount("/console", console)]
        if application is not None:
            routes.append(Mount("/", application))
        elif console is not None:
            routes.append(Route("/", _to_console))
        return Router(routes)

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        status = self._readiness.status
        if self._ping is not None and status == "ready":
            status = status if await self._ping.succeeded() else "unavailable"
        return JSONResponse({"status": status}, 200 if status == "ready" else 503)

    async def _send_metrics(self, request: Request) -> Response:
        if self._page is None or self._page.done():
            self._page = asyncio.ensure_future(self._render())
        # Requests that arrive while a page is rendered share it: rendering blocks the event loop.
        return Response(await asyncio.shield(self._page), media_type=CONTENT_TYPE)

    async def _render(self) -> bytes:
        if self._depths is not None and not await self._depths.succeeded():
            self._metrics.hide_queues()  # the counters are shown anyway
        return self._metrics.render()

    def _measure(self, database: Database) -> None:
        found = {INBOX: queries.open_messages(database), **queries.open_deliveries(database)}
        self._queues |= found.keys()  # queues that are empty now are set to 0
        for name in self._queues:
            self._show_queue(name, found.get(name, {}))

    def _show_queue(self, name: str, depths: dict[QueueState, Depth]) -> None:
        oldest = min((each.oldest for each in depths.values() if each.count), default=None)
        age = 0.0 if oldest is None else max(0, self._now() - oldest) / 1000
        counts = {each.value: depths[each].count if each in depths else 0 for each in queries.OPEN}
        self._metrics.show_queue(name, counts, age)
