"""Requests to an application in this process, and errors of the application."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import Request as Received
from starlette.responses import JSONResponse, StreamingResponse

from bridge.engine_client import EngineFailure
from bridge.engine_client.callers import InProcessCaller
from bridge.engine_client.transport import EngineRequest
from bridge.errors import FailureKind
from tests.eventually import PATIENCE

BASE = "https://reports.example:8443"
Send = Callable[[Any], Awaitable[None]]


async def mirror(scope: Any, receive: Any, send: Send) -> None:
    received = Received(scope, receive)
    request = {
        "method": received.method,
        "base": str(received.base_url),
        "path": scope["path"],
        "raw": scope["raw_path"].decode(),
        "query": received.query_params.multi_items(),
        "headers": dict(received.headers),
        "body": (await received.body()).decode(),
    }
    await JSONResponse(request, 201, {"X-Seen": "yes"})(scope, receive, send)


async def test_the_application_receives_the_request() -> None:
    """The application gets the same request as from a web server."""
    query = {"q": ["1", "2&3"], "on": True}
    sent = EngineRequest("POST", "/orders/a b/é", {"Authorization": "Bearer t"}, b"{}", query)
    response = await InProcessCaller(mirror, BASE).send(sent)
    assert (response.status, response.headers["x-seen"]) == (201, "yes")
    assert response.json() == {
        "method": "POST",
        "base": f"{BASE}/",
        "path": "/orders/a b/é",
        "raw": "/orders/a%20b/%C3%A9",
        "query": [["q", "1"], ["q", "2&3"], ["on", "true"]],
        "headers": {
            "host": "reports.example:8443",
            "authorization": "Bearer t",
            "content-length": "2",
        },
        "body": "{}",
    }


async def test_absolute_addresses() -> None:
    """An address of this application is requested; an address of another service is refused."""
    caller = InProcessCaller(mirror, BASE)
    response = await caller.send(EngineRequest("GET", f"{BASE}/r/1?x=1", {}, query={"y": 2}))
    assert response.json()["path"] == "/r/1"
    assert response.json()["query"] == [["x", "1"], ["y", "2"]]
    with pytest.raises(EngineFailure) as raised:
        await caller.send(EngineRequest("GET", "https://other.example/r/1", {}))
    assert raised.value.failure is FailureKind.PERMANENT


async def test_a_streamed_response() -> None:
    """The parts are joined; the application receives the disconnect after the last part."""
    received = []

    async def parts(scope: Any, receive: Any, send: Send) -> None:
        async def each() -> Any:
            yield b"one "
            yield b"two"

        await StreamingResponse(each())(scope, receive, send)
        received.append((await receive())["type"])
        received.append((await receive())["type"])

    response = await InProcessCaller(parts, BASE).send(EngineRequest("GET", "/", {}))
    assert response.content == b"one two"
    assert received[-1] == "http.disconnect"


async def test_the_disconnect_follows_the_response() -> None:
    """An application that waits for the disconnect receives none while it responds."""
    early = []

    async def waiting(_scope: Any, receive: Any, send: Send) -> None:
        await receive()
        disconnect = asyncio.create_task(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for more in (True, False):
            await asyncio.sleep(0)
            early.append(disconnect.done())
            await send({"type": "http.response.body", "body": b"x", "more_body": more})
        assert (await disconnect)["type"] == "http.disconnect"

    response = await InProcessCaller(waiting, BASE).send(EngineRequest("GET", "/", {}))
    assert (response.content, early) == (b"xx", [False, False])


@pytest.mark.parametrize("begun", [False, True])
async def test_errors_of_the_application(begun: bool) -> None:
    """Status 500 before the response has started, else an ambiguous failure."""

    async def faulty(_scope: Any, _receive: Any, send: Send) -> None:
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"SECRET", "more_body": True})
        raise ValueError("SECRET")

    call = InProcessCaller(faulty, BASE).send(EngineRequest("GET", "/x", {}))
    if begun:
        with pytest.raises(EngineFailure) as raised:
            await call
        assert (raised.value.failure, raised.value.code) == (FailureKind.AMBIGUOUS, "no_answer")
    else:
        response = await call
        assert (response.status, response.content) == (500, b"")


async def test_cancellation() -> None:
    """Cancelling the caller cancels the application."""
    ended = asyncio.Event()

    async def slow(_scope: Any, _receive: Any, _send: Send) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    asking = asyncio.create_task(InProcessCaller(slow, BASE).send(EngineRequest("GET", "/", {})))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking], timeout=PATIENCE)
    assert ended.is_set()
