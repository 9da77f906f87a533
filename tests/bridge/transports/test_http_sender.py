"""HTTP sender: what a receiver of results can cost with its response."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from bridge.delivery.destination_settings import make_sender
from bridge.transports import NoAcknowledgment
from bridge.transports.http_sender import HttpReceiver, HttpSender
from config import Settings
from config.sections import DestinationSettings
from mllp.errors import LossReason, NotConnected, ReplyLost
from tests.acceptance.orders import order
from tests.acceptance.wire import ack
from tests.mllp.certificates import Certificates

pytestmark = pytest.mark.anyio

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 %d OK\r\nContent-Type: application/hl7-v2\r\n%s\r\n"
ENDLESS = b"Transfer-Encoding: chunked\r\n"


@asynccontextmanager
async def receiver(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A receiver that reads one request, and lets `answer` write; yields its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def post(port: int, *, seconds: float = 60.0, matches: bool = True) -> bytes:
    sender = HttpSender(
        HttpReceiver(f"http://127.0.0.1:{port}/", connect_timeout=30.0, reply_timeout=seconds),
        matches=lambda *_: matches,
    )
    return await sender.send(order(1)).asFuture(asyncio.get_running_loop())


def replying(*pieces: bytes, status: int = 200, headers: bytes = b"") -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD % (status, headers))
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return answer


async def test_a_reply_in_pieces() -> None:
    """A response without a length ends with its connection."""
    reply = ack(order(1))
    async with receiver(replying(reply[:10], reply[10:11], reply[11:])) as port:
        assert await post(port) == reply


async def test_a_response_without_an_acknowledgment() -> None:
    async with receiver(replying(b"thanks", status=503)) as port:
        with pytest.raises(NoAcknowledgment) as failure:
            await post(port)
    assert failure.value.status == 503


@pytest.mark.parametrize(
    "pieces", [[b"1\r\nM\r\n"] * 40_000, [b"10000\r\n" + bytes(2**16) + b"\r\n"] * 300],
    ids=["tiny", "large"],
)  # fmt: skip
async def test_a_reply_that_does_not_end(pieces: list[bytes]) -> None:
    """A reply in too many pieces, or one that is too large, is no reply."""
    async with receiver(replying(*pieces, headers=ENDLESS)) as port:
        with pytest.raises(ReplyLost) as failure:
            await post(port)
    assert failure.value.reason is LossReason.GARBAGE


@pytest.mark.parametrize(
    ("status", "matches", "reason"),
    [(300, True, LossReason.GARBAGE), (200, False, LossReason.MISMATCH)],
)
async def test_a_reply_that_does_not_count(status: int, matches: bool, reason: LossReason) -> None:
    """An AA with a status that contradicts it, or of another message, is no acknowledgment."""
    async with receiver(replying(ack(order(1)), status=status)) as port:
        with pytest.raises(ReplyLost) as failure:
            await post(port, matches=matches)
    assert failure.value.reason is reason


async def test_a_connection_that_closes_within_the_reply() -> None:
    """A part of a reply is no reply, even if it contains an AA."""
    async with receiver(replying(ack(order(1)), headers=b"Content-Length: 9999\r\n")) as port:
        with pytest.raises(ReplyLost) as failure:
            await post(port)
    assert failure.value.reason is LossReason.CLOSED


async def test_a_connection_that_closes_without_a_reply() -> None:
    """After the connection is made, the state at the receiver is unknown."""

    async def close(writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with receiver(close) as port:
        with pytest.raises(ReplyLost) as failure:
            await post(port)
    assert failure.value.reason is LossReason.CLOSED


async def test_no_connection() -> None:
    """Nothing was sent: the message can be repeated."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    with pytest.raises(NotConnected) as failure:
        await post(port)
    assert failure.value.cause == "ConnectionRefusedError"


async def test_no_response_within_the_time_limit() -> None:
    """The receiver may have the message: its state is unknown."""
    ended = asyncio.Event()

    async def wait(_: asyncio.StreamWriter) -> None:
        await ended.wait()

    async with receiver(wait) as port:
        with pytest.raises(ReplyLost) as failure:
            await post(port, seconds=0.2)
        ended.set()
    assert failure.value.reason is LossReason.TIMEOUT


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    ("ca", "server_name", "expected"),
    [
        ("ca", None, ""),
        ("ca", "ris.example", ""),
        ("ca", "other.example", "another name"),
        ("untrusted_ca", None, "unknown authority"),
    ],
)
async def test_the_certificate_of_the_receiver(
    certificates: Certificates, ca: str, server_name: str | None, expected: str
) -> None:
    """The receiver must prove its name by an authority of `ca`; else nothing is sent."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.certificate, certificates.key)
    reply = ack(order(1))
    async with receiver(replying(reply), context) as port:
        tls = {"ca": getattr(certificates, ca), "server_name": server_name}
        destination = DestinationSettings.model_validate(
            {"name": "web", "address": f"https://127.0.0.1:{port}/in", "mapping": "oru", "tls": tls}
        )
        sender = make_sender(Settings(home=certificates.folder), destination, None)
        sending = sender.send(order(1)).asFuture(asyncio.get_running_loop())
        if not expected:
            assert await sending == reply
            return
        with pytest.raises(NotConnected, match=expected) as failure:
            await sending
    assert failure.value.is_tls
