"""Partners with one fault each, as servers and senders of the test's own loop."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from mllp.framing import Frame, FrameReader, frame

Reply = Callable[[bytes], bytes]
"""Returns what is sent after a message, frames included."""
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def control_id(message: bytes) -> bytes:
    """Return MSH-10, empty for a text that is no message."""
    return message.split(b"|")[9] if message.startswith(b"MSH|") else b""


def ack(message: bytes, code: str = "AA", named: bytes | None = None) -> bytes:
    """Return the frame of an acknowledgment."""
    number = control_id(message) if named is None else named
    text = b"MSH|^~\\&|HIS|H|||20260302||ACK|1|T|2.5.1\rMSA|%s|%s\r"
    return frame(text % (code.encode(), number))


async def messages(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the messages of a connection until it ends."""
    frames = FrameReader()
    while data := await reader.read(65_536):
        frames.receive(data)
        while (event := frames.next_event()) is not None:
            if isinstance(event, Frame):
                yield event.payload


def replying(reply: Reply) -> Serve:
    """Return a receiver that sends `reply` after each message."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for message in messages(reader):
            writer.write(reply(message))

    return serve


@asynccontextmanager
async def receiver(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Run a receiver; yield its port. Its errors are those of a connection that ended."""

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(guarded, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def connected(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to a port, and close the connection at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
