"""
`/healthz`, `/readyz` and `/metrics` of a process, before whatever application it serves.

Without a token, and without a word about patients. `/readyz` has a database connection of its own:
where all connections of the pool are in use, the process is ready all the same.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, Router

from bridge.executors import Threads
from bridge.metrics import CONTENT_TYPE, Metrics
from bridge.queue import queries
from bridge.queue.listing_rows import Depth
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.errors import StoreError

INBOX = "inbox"
ANSWER_SECONDS = 1.5
"""Seconds in which the database must have answered: balancers and scrapers wait a little longer."""


class SharedQuery:
    """
    Something that the database is asked, by many at a time and on one thread.

    A server that is cut off says nothing for half a minute: whoever probes is told so before that,
    and those who come meanwhile wait for the same answer.
    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._asked: asyncio.Future[bool] | None = None

    async def answered(self) -> bool:
        """Ask, or wait with those who have asked; tell whether it was answered in time."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.ensure_future(Threads.HEALTH.run(self._attempt))
        asked = self._asked
        await asyncio.wait([asked], timeout=ANSWER_SECONDS)
        return asked.done() and asked.result()

    def _attempt(self) -> bool:
        try:
            self._ask()
        except StoreError:
            return False
        return True


class Readiness:
    """Whether a process takes part: all its parts have started, and none is being stopped."""

    def __init__(self) -> None:
        self._ready = False

    async def begin(self) -> None:
        """Tell that everything has started."""
        self._ready = True

    async def end(self) -> None:
        """Tell that the first thing is about to stop."""
        self._ready = False

    @property
    def status(self) -> str:
        """`ready`, or `unavailable` while starting and stopping."""
        return "ready" if self._ready else "unavailable"


async def _to_console(_: Request) -> Response:
    return RedirectResponse("/console", 303)


class Probes:
    """The three addresses; everything else goes to the application."""

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
        self._touching = self._measuring = None
        if database is not None:
            self._touching = SharedQuery(database.reader().ping)
            self._measuring = SharedQuery(partial(self._measure, database))

    def over(self, application: Any | None, console: Any | None = None) -> Router:
        """Give an ASGI application that answers the probes itself; `/console` is the console's."""
        routes: list[Route | Mount] = [
            Route("/healthz", self._health),
            Route("/readyz", self._ready),
            Route("/metrics", self._show),
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
        if self._touching is not None and status == "ready":
            status = status if await self._touching.answered() else "unavailable"
        return JSONResponse({"status": status}, 200 if status == "ready" else 503)

    async def _show(self, request: Request) -> Response:
        if self._measuring is not None:  # without it, what is counted here is told all the same
            await self._measuring.answered()
        return Response(self._metrics.render(), media_type=CONTENT_TYPE)

    def _measure(self, database: Database) -> None:
        found = {INBOX: queries.open_messages(database), **queries.open_deliveries(database)}
        self._queues |= found.keys()  # one that is empty now must not show what it last held
        for name in self._queues:
            self._show_queue(name, found.get(name, {}))

    def _show_queue(self, name: str, depths: dict[QueueState, Depth]) -> None:
        oldest = min((each.oldest for each in depths.values() if each.count), default=None)
        age = 0.0 if oldest is None else max(0, self._now() - oldest) / 1000
        counts = {each.value: depths[each].count if each in depths else 0 for each in queries.OPEN}
        self._metrics.show_queue(name, counts, age)
