"""A call ends at the deadline with an ambiguous failure."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from bridge.contract import OrderKey
from bridge.engine_client.client import EngineClient, InProcess
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind

ORDER = OrderKey("SITE1", "M-1", "A-1")
BASE = "http://here.test"


async def test_a_long_poll_extends_the_deadline() -> None:
    """The read time-out and the deadline exceed the wait that the call requests."""
    requests = []

    async def respond_slowly(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        await asyncio.sleep(0.1)
        return httpx.Response(200, json={"changes": [], "cursor": 7})

    http = httpx.AsyncClient(transport=httpx.MockTransport(respond_slowly), base_url=BASE)
    client = EngineClient(http, "token", deadline=0.05)
    assert (await client.changes(7, wait=1)).cursor == 7
    assert requests[0].extensions["timeout"]["read"] > 1
    with pytest.raises(EngineFailure):
        await client.changes(7)


async def test_a_call_to_an_engine_that_hangs_ends() -> None:
    """The failure is ambiguous, so that the call is retried; the running request is cancelled."""
    cancelled = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def application(
        scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        await hang()

    async def respond(request: httpx.Request) -> httpx.Response:
        await hang()
        raise AssertionError

    remote = httpx.AsyncClient(transport=httpx.MockTransport(respond), base_url=BASE)
    for http in (remote, InProcess(application, BASE)):
        client = EngineClient(http, "token", deadline=0.05)
        for call in (
            lambda: client.delete(ORDER),  # noqa: B023
            lambda: client.administer("GET", "/sites", "SITE1"),  # noqa: B023
            lambda: client.signed_in_user("", unattended=True),  # noqa: B023
        ):
            cancelled.clear()
            with pytest.raises(EngineFailure) as failure:
                await call()
            assert failure.value.failure is FailureKind.AMBIGUOUS
            assert failure.value.code == "no_answer"
            assert cancelled.is_set()
