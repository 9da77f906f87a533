"""
The web server of a process, and its probes `/healthz`, `/readyz` and `/metrics`.

Probes need no token and contain no patient data. `/readyz` has its own database connection, so that
it does not depend on the connection pool.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, Router

from bridge.executors import Threads
from bridge.metrics import CONTENT_TYPE, Metrics
from bridge.queue import queries
from bridge.queue.listing_rows import Depth
from bridge.queue.states import QueueState
from bridge.runtime.schedule import ServicePart
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.web.bodies import BUDGET
from bridge.web.connections import HttpLimits
from bridge.web.server import WebServer
from config.quantities import Address
from config.sections import Http


def web_part(application: Any, address: Address, settings: Http, metrics: Metrics) -> ServicePart:
    limits = HttpLimits(
        settings.max_connections,
        settings.max_connections_per_source,
        settings.head_timeout,  # the same before its first byte
        settings.head_timeout,
        settings.body_timeout,
        settings.body_rate,
        settings.idle_timeout,
        settings.write_timeout,
        proxies=tuple(settings.trusted_proxies),
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
            self._query = asyncio.ensure_future(Threads.LEASES.run(self._attempt))
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
    """Redirect to the console, which leads each account to its place."""
    return RedirectResponse("/console", 303)


class Probes:
    """Serves the probes; all other paths go to the application."""

    def __init__(
        self,
        metrics: Metrics,
        readiness: Readiness,
        database: Database | None,
        now: Callable[[], int],
        others: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        """`others` returns the samples of the process that receives messages."""
        self._metrics = metrics
        self._others = others
        self._readiness = readiness
        self._now = now
        self._queues = {INBOX}
        self._ping = self._depths = None
        self._page: asyncio.Future[bytes] | None = None
        if database is not None:
            self._ping = SharedQuery(database.reader().ping)
            self._depths = SharedQuery(partial(self._measure, database))

    def router(
        self, application: Any | None, console: Any | None = None, more: Sequence[Mount] = ()
    ) -> Router:
        routes: list[Route | Mount] = [
            Route("/healthz", self._health),
            Route("/readyz", self._ready),
            Route("/metrics", self._send_metrics),
            *more,
        ]
        if console is not None:
            routes += [Route("/console", console), Mount("/console", console)]
            routes.append(Route("/", _to_console))
        if application is not None:
            routes.append(Mount("/", application))
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
        others = None if self._others is None else await self._others()
        return self._metrics.render(others or ())

    def _measure(self, database: Database) -> None:
        found = {INBOX: queries.open_messages(database), **queries.open_deliveries(database)}
        self._queues |= found.keys()  # queues that are empty now are set to 0
        for name in self._queues:
            self._show_queue(name, found.get(name, {}))

    def _show_queue(self, name: str, depths: dict[QueueState, Depth]) -> None:
        oldest = min((depth.oldest for depth in depths.values() if depth.count), default=None)
        age = 0.0 if oldest is None else max(0, self._now() - oldest) / 1000
        counts = {
            state.value: depths[state].count if state in depths else 0 for state in queries.OPEN
        }
        self._metrics.show_queue(name, counts, age)
