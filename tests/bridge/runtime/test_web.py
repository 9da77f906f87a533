"""The socket that the web application is served on."""

import asyncio
import socket

import pytest

from bridge.runtime.web import bind
from config.quantities import Address

pytestmark = pytest.mark.anyio


async def test_no_answer_is_held_back() -> None:
    """An answer in two parts goes out at once: nobody waits for the first to be acknowledged."""
    seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = writer.get_extra_info("socket")
        seen.set_result(line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listening = bind(Address("127.0.0.1:0"))
    async with await asyncio.start_server(look, sock=listening):
        _, writer = await asyncio.open_connection(*listening.getsockname())
        assert await seen == 1
        writer.close()
