"""Requests to an application in this process, and errors of the application."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import Request as Received
from starlette.responses import JSONResponse, StreamingResponse

from bridge.engine_client.client import EngineClient, InProcess
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from tests.eventually import PATIENCE

BASE = "https://reports.example:8443"
Send = Callable[[Any], Awaitable[None]]


def client_of(application: Any) -> EngineClient:
    return EngineClient(InProcess(application, BASE), "T")


async def mirror(scope: Any, receive: Any, send: Send) -> None:
    received = Received(scope, receive)
    request = {
        "method": received.method,
        "base": str(received.base_url),
        "path": scope["path"],
        "raw": scope["raw_path"].decode(),
        "query": received.query_params.multi_items(),
        "token": received.headers["x-access-token"],
        "body": (await received.body()).decode(),
    }
    await JSONResponse(request, 201)(scope, receive, send)


async def test_the_application_receives_the_request() -> None:
    """The application gets the same request as from a web server."""
    query = {"q": ["1", "2&3"], "on": True}
    call = client_of(mirror).administer("POST", "/orders/a b/é", body={}, query=query)
    assert await call == (
        201,
        {
            "method": "POST",
            "base": f"{BASE}/",
            "path": "/api/admin/orders/a b/é",
            "raw": "/api/admin/orders/a%20b/%C3%A9",
            "query": [["q", "1"], ["q", "2&3"], ["on", "true"]],
            "token": "T",
            "body": "{}",
        },
    )


async def test_a_streamed_response() -> None:
    """The parts are joined; the application receives the disconnect after the last part."""
    received = []

    async def parts(scope: Any, receive: Any, send: Send) -> None:
        async def each() -> Any:
            yield b"[1,"
            yield b"2]"

        await StreamingResponse(each())(scope, receive, send)
        received.append((await receive())["type"])
        received.append((await receive())["type"])
        received.append((await receive())["type"])

    assert await client_of(parts).administer("GET", "/") == (200, [1, 2])
    assert received[-1] == "http.disconnect"


async def test_the_disconnect_follows_the_response() -> None:
    """An application that waits for the disconnect receives none while it responds."""
    early = []

    async def waiting(_scope: Any, receive: Any, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        disconnect = asyncio.create_task(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for more in (True, False):
            await asyncio.sleep(0)
            early.append(disconnect.done())
            await send({"type": "http.response.body", "body": b"1", "more_body": more})
        assert (await disconnect)["type"] == "http.disconnect"

    assert await client_of(waiting).administer("GET", "/") == (200, 11)
    assert early == [False, False]


@pytest.mark.parametrize("begun", [False, True])
async def test_errors_of_the_application(begun: bool) -> None:
    """Status 500 before the response has started, else an ambiguous failure."""

    async def faulty(_scope: Any, _receive: Any, send: Send) -> None:
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"SECRET", "more_body": True})
        raise ValueError("SECRET")

    call = client_of(faulty).administer("GET", "/")
    if begun:
        with pytest.raises(EngineFailure) as raised:
            await call
        assert (raised.value.failure, raised.value.code) == (FailureKind.AMBIGUOUS, "no_answer")
    else:
        assert await call == (500, None)


async def test_cancellation() -> None:
    """Cancelling the caller cancels the application."""
    ended = asyncio.Event()

    async def slow(_scope: Any, _receive: Any, _send: Send) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    asking = asyncio.create_task(client_of(slow).administer("GET", "/"))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking], timeout=PATIENCE)
    assert ended.is_set()
