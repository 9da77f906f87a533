"""Slow, silent and lost HTTP clients lose their connections, over real sockets."""

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from bridge.logs import ALLOWED_FIELDS
from tests.bridge.web.http_server import (
    GET,
    PATIENT,
    POST,
    QUICK,
    ended,
    served,
    status,
)
from tests.eventually import eventually_async

LARGE = 6 * 2**20


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "idle"),
        (b"G", "slow_head"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-A: b", "slow_head"),
        (POST % b"read" + b"Content-Length: 9\r\n\r\nhalf", "slow_body"),
        (POST % b"read" + b"Transfer-Encoding: chunked\r\n\r\n", "slow_body"),
        (POST % b"read" + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhalf", "slow_body"),
        (POST % b"read" + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\nX: y", "slow_body"),
        (GET % b"", "idle"),
        (GET % b"" + b"GET / HT", "slow_head"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", ""),
    ],
)
async def test_unfinished_requests_are_closed(sent: bytes, reason: str) -> None:
    """An unfinished request is closed at its time limit, wherever it stopped."""
    async with served(QUICK) as to:
        reader, _ = await to.connect(sent)
        response = await ended(reader)
        assert bool(response) is bool(sent)
        if reason:
            await eventually_async(lambda: to.closed[reason] == 1)
        if reason.startswith("slow"):
            assert b"HTTP/1.1 408 " in response


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", b"a"),
        (POST % b"read" + b"Content-Length: 999999\r\n\r\n", b"a"),
        (POST % b"read" + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (b"", b"\r\n"),
    ],
)
async def test_slowloris(head: bytes, piece: bytes) -> None:
    """Slowloris: single bytes do not extend the time limit."""
    async with served(QUICK) as to:
        reader, writer = await to.connect(head)

        async def drip() -> None:
            while not writer.is_closing():
                writer.write(piece)
                await asyncio.sleep(0.02)

        dripping = asyncio.ensure_future(drip())
        await ended(reader)
        dripping.cancel()
        await eventually_async(lambda: bool(to.closed))


async def test_an_upload_with_progress_is_read() -> None:
    """An upload that makes progress may take longer than `body`."""
    async with served(replace(QUICK, body_rate=1)) as to:
        reader, writer = await to.connect(POST % b"read" + b"Content-Length: 40\r\n\r\n")
        for _ in range(40):
            writer.write(b"x")
            await asyncio.sleep(0.02)
        assert await status(reader) == 200


async def test_a_large_body_may_be_read_slowly() -> None:
    """Time limits are checked between the pieces; the body still counts as a body."""
    async with served(replace(PATIENT, silent=0.2, head=0.2)) as to:
        reader, _ = await to.connect(POST % b"steps" + b"Content-Length: %d\r\n\r\n" % LARGE)
        await eventually_async(lambda: to.application.scopes)
        to.writers[0].write(bytes(LARGE))
        response = asyncio.ensure_future(status(reader))
        while not response.done():
            await ended((await to.connect())[0])  # the time limits have been checked
            to.application.steps.release()
        assert response.result() == 200


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    """The server closes a connection that does not read its response, to release the memory."""
    async with served(QUICK) as to:
        _, writer = await to.connect(GET % b"large")
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # is one that reads
        await eventually_async(lambda: to.closed["unread_response"] == 1)


async def test_closed_connections_are_logged_by_reason() -> None:
    """Each reason has one line with its count."""
    with capture_logs() as lines:
        async with served(QUICK) as to:
            await asyncio.gather(*[ended((await to.connect())[0]) for _ in range(3)])
    assert [(line["event"], line["reason"]) for line in lines] == [
        ("http connections closed", "idle")
    ]
    assert 1 <= lines[0]["count"] <= 3
    assert lines[0].keys() - ALLOWED_FIELDS == {"log_level"}


async def test_a_client_that_is_gone_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """A client closes its connection before the response to a body that is not read."""
    async with served(PATIENT) as to:
        head = POST % b"empty" + b"Content-Length: %d\r\n\r\n" % LARGE
        _, writer = await to.connect(head + bytes(256 * 2**10))
        await eventually_async(lambda: to.application.scopes)
        await writer.drain()
        writer.transport.abort()
        await asyncio.sleep(0)  # the socket is closed in the next iteration of the event loop
        to.application.released.set()
        assert await to.status(GET % b"") == 200
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
