"""The socket, the probes and the error bodies of the web server."""

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import Metric
from starlette.responses import PlainTextResponse

from bridge.metrics import Metrics
from bridge.runtime.web_server import ANSWER_SECONDS, Probes, Readiness
from bridge.store.database import Database
from bridge.store.options import DatabaseOptions
from bridge.web.protocol import MAX_HEADERS
from bridge.web.server import WebServer, bind
from config.quantities import Address


async def test_no_response_is_delayed() -> None:
    """The second part of a response does not wait for an acknowledgment of the first."""
    nodelay: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = writer.get_extra_info("socket")
        nodelay.set_result(line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listening = bind(Address("127.0.0.1:0"))
    async with await asyncio.start_server(look, sock=listening):
        _, writer = await asyncio.open_connection(*listening.getsockname())
        assert await nodelay == 1
        writer.close()


async def test_an_unreachable_database_delays_no_probe() -> None:
    """The process is not ready, and its metrics respond in time."""
    ready = Readiness()
    await ready.begin()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"postgresql+psycopg://nobody@127.0.0.1:{silent.getsockname()[1]}/none"
        database = Database(address)
        probes = Probes(Metrics(), ready, database, lambda: 0).router(None)
        transport = httpx.ASGITransport(app=probes)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            took, responses = 2 * ANSWER_SECONDS, list[httpx.Response]()
            for _ in range(10):  # the fastest counts, because the machine may be busy
                requests = [client.get(path) for path in ("/readyz", "/readyz", "/metrics")]
                began = time.monotonic()
                responses = list(await asyncio.gather(*requests))
                took = min(took, time.monotonic() - began)
                if took < 2 * ANSWER_SECONDS:
                    break
    database.dispose()

    assert [response.status_code for response in responses] == [503, 503, 200]
    assert took < 2 * ANSWER_SECONDS


async def test_depths_of_queues_are_hidden_while_they_are_unknown(tmp_path: Path) -> None:
    """While the database does not respond, `/metrics` has no depth rather than an old one."""
    metrics = Metrics()
    metrics.show_queue("inbox", {"queued": 0}, 0.0)
    database = Database(f"sqlite:///{tmp_path / 'none' / 'bridge.db'}")
    probes = Probes(metrics, Readiness(), database, lambda: 0).router(None)
    transport = httpx.ASGITransport(app=probes)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            response = await client.get("/metrics")
    finally:
        database.dispose()

    assert response.status_code == 200
    assert "bridge_queue_depth{" not in response.text


class Collections:
    count = 0

    def collect(self) -> list[Metric]:
        self.count += 1
        return []


async def test_requests_that_arrive_together_share_the_metrics(tmp_path: Path) -> None:
    """A flood of `/metrics` costs the event loop no page for each request."""
    metrics, seen = Metrics(), Collections()
    metrics.registry.register(seen)
    database = Database(f"sqlite:///{tmp_path / 'none' / 'bridge.db'}")
    transport = httpx.ASGITransport(
        app=Probes(metrics, Readiness(), database, lambda: 0).router(None)
    )
    before = seen.count
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            responses = await asyncio.gather(*[client.get("/metrics") for _ in range(20)])
            assert seen.count == before + 1
            assert (await client.get("/metrics")).text == responses[0].text
    finally:
        database.dispose()

    assert {(response.status_code, response.text) for response in responses} == {
        (200, responses[0].text)
    }
    assert seen.count == before + 2


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_an_exhausted_pool_does_not_affect_readiness(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The process is ready while all connections of the pool are in use."""
    url = f"sqlite:///{tmp_path / 'bridge.db'}"
    if store == "postgresql":
        url = request.getfixturevalue("postgres_url")
    database = Database(url, DatabaseOptions(size=1, overflow=0, timeout=2 * ANSWER_SECONDS))
    ready = Readiness()
    await ready.begin()
    probes = Probes(Metrics(), ready, database, lambda: 0).router(None)
    transport = httpx.ASGITransport(app=probes)
    try:
        with database.read():
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                assert (await client.get("/readyz")).status_code == 200
                assert (await client.get("/readyz")).status_code == 200
    finally:
        database.dispose()


async def test_the_root_of_a_console_node_redirects_to_the_console() -> None:
    """On a node without the engine, `/` leads to the console."""
    console = PlainTextResponse("console")  # an ASGI application
    probes = Probes(Metrics(), Readiness(), None, lambda: 0).router(None, console)
    transport = httpx.ASGITransport(app=probes)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        response = await client.get("/")
        assert (response.status_code, response.headers["location"]) == (303, "/console")
        assert (await client.get("/console")).text == "console"


_LONG = b"GET / HTTP/1.1\r\nX-Long: "  # all of it is read: unread bytes reset the connection


async def _nothing(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]
) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"\x0bMSH|^~\\&|RIS\x1c\r\n\r\n", 400, "malformed_http"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "malformed_http"),
        (b"GET /\r\n\r\n", 400, "malformed_http"),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400, "malformed_http"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "malformed_http"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", 400, "malformed_http"),
        (_LONG.ljust(MAX_HEADERS + 1, b"x"), 431, "headers_too_large"),
    ],
)
async def test_malformed_requests_get_a_problem_body(sent: bytes, status: int, code: str) -> None:
    """Errors before the application have the same body as its own."""
    server = WebServer(_nothing, Address("127.0.0.1:0"))
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        head, _, body = (await asyncio.wait_for(reader.read(), 30)).partition(b"\r\n\r\n")
        writer.close()
    finally:
        await server.stop()
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"application/problem+json" in head
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["message"] == problem["detail"]
