"""HL7 over HTTP: limits on memory, connections and time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from typing_extensions import override

from bridge.transports.http_listener import HttpListener, HttpListenerRules
from mllp.contract import Peer, ReplyCallback, ServerLimits, ServerObserver
from mllp.errors import FramingError
from mllp.framing import Frame
from mllp.limits import RESERVE, FrameBudget
from tests.eventually import eventually_async

pytestmark = pytest.mark.anyio

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/hl7-v2\r\n"
SECRET = b"Basic abc"
PIECE = b"x" * RESERVE
GET = b"GET /unknown HTTP/1.1\r\nhost: x\r\n\r\n"


class RefusalRecorder(ServerObserver):
    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.refused_connections = 0

    @override
    def frame_refused(self, reason: FramingError) -> None:
        self.refusals.append(type(reason).__name__)

    @override
    def connection_refused(self) -> None:
        self.refused_connections += 1


class Line(StringTransport):
    """A connection in memory; `sent` is what the listener has sent."""

    def __init__(self, listener: HttpListener, host: str) -> None:
        address: Any = IPv4Address("TCP", host, 1)
        super().__init__(peerAddress=address)
        self._channel: Any = listener.buildProtocol(address)
        self._channel.makeConnection(self)

    @property
    def sent(self) -> bytes:
        return bytes(self.value())

    @property
    def is_closed(self) -> bool:
        return bool(self.disconnecting or self.disconnected)

    async def send(self, data: bytes) -> None:
        """Deliver bytes to the listener, and let it work."""
        self._channel.dataReceived(data)
        await settle()

    def lose(self) -> None:
        self._channel.connectionLost(Failure(ConnectionError()))

    @override
    def abortConnection(self) -> None:
        super().abortConnection()
        self.disconnected = True
        asyncio.get_running_loop().call_soon(self._channel.connectionLost, connectionDone)

    def pause(self) -> None:
        """The client does not read from now on."""
        self._channel.pauseProducing()

    def read(self) -> None:
        self._channel.resumeProducing()


async def settle() -> None:
    """Let the event loop work until nothing is due."""
    for _ in range(30):
        await asyncio.sleep(0)


class Site:
    def __init__(self, authorization: bytes | None = None, frame_timeout: float = 60.0) -> None:
        self.recorder, self.budget = RefusalRecorder(), FrameBudget(8 * RESERVE)
        self.frames: list[Frame] = []
        self.replies: list[Deferred[Sequence[bytes]]] = []
        self.listener = HttpListener(
            self.handle,
            HttpListenerRules(authorization=authorization),
            ServerLimits(
                max_frame=6 * RESERVE,
                max_connections=4,
                max_connections_per_source=3,
                frame_timeout=frame_timeout,
            ),
            clock=Clock(),
            observer=self.recorder,
            refuse=lambda _error, _head: b"",
            budget=self.budget,
        )

    def handle(self, frame: Frame, _peer: Peer, reply: ReplyCallback) -> None:
        self.frames.append(frame)
        self.replies.append(Deferred())
        self.replies[-1].addCallbacks(reply, reply)

    def call(self, host: str = "192.0.2.1") -> Line:
        return Line(self.listener, host)

    async def begin(self, host: str, pieces: int, size: int = 5 * RESERVE) -> Line:
        line = self.call(host)
        await line.send(HEAD + b"content-length: %d\r\n\r\n" % size)
        for _ in range(pieces):
            await line.send(PIECE)
        return line

    async def reply(self, at: int, reply: bytes) -> None:
        self.replies[at].callback([reply])
        await settle()


@pytest.fixture
def site() -> Site:
    return Site()


async def test_a_refused_request_is_answered_before_its_body() -> None:
    """The response precedes the body, which is not stored. With the header it is accepted."""
    site = Site(SECRET)
    for length in (b"content-length: 9000000", b"transfer-encoding: chunked"):
        line = site.call()
        await line.send(HEAD + length + b"\r\n\r\n")
        assert line.sent.startswith(b"HTTP/1.1 401 ")
        await line.send(b"10000\r\n" + PIECE)
        assert site.budget.used == 0
        assert line.is_closed

    line = site.call("192.0.2.2")
    await line.send(HEAD + b"authorization: " + SECRET + b"\r\ncontent-length: 3\r\n\r\nMSH")
    assert [frame.payload for frame in site.frames] == [b"MSH"]
    await site.reply(0, b"MSH|^~\\&|A")
    assert line.sent.startswith(b"HTTP/1.1 200 ")
    assert b"server:" not in line.sent.lower()


@pytest.mark.parametrize("began", [b"POST", HEAD, HEAD + b"content-length: 9\r\n\r\nMSH"])
async def test_unfinished_requests(began: bytes) -> None:
    """An unfinished request ends at the frame time-out."""
    site = Site(frame_timeout=0.2)
    line = site.call()
    await line.send(began)
    assert not line.is_closed
    await eventually_async(lambda: line.is_closed)
    assert site.recorder.refusals == ["FrameTimedOut"]


async def test_bodies_share_the_memory_of_frames() -> None:
    """When one address has used its share, its other senders wait, then get 503."""
    site = Site(frame_timeout=3.0)
    first = [await site.begin("192.0.2.1", 4) for _ in range(3)]
    assert site.budget.waiting == 1

    other = await site.begin("192.0.2.2", 3, size=3 * RESERVE)
    assert [len(frame.payload) for frame in site.frames] == [3 * RESERVE]
    await site.reply(0, b"MSH|^~\\&|\rMSA|AA|1\r")
    assert other.sent.startswith(b"HTTP/1.1 200 ")

    await eventually_async(lambda: "FrameMemoryExhausted" in site.recorder.refusals)
    assert b"HTTP/1.1 503 " in b"".join(line.sent for line in first)


async def test_a_body_is_refused_once(site: Site) -> None:
    """If another address needs memory, one body gets one 503, and its connection ends."""
    lines = [await site.begin("192.0.2.1", 4) for _ in range(2)]
    lines.append(await site.begin("192.0.2.1", 5, size=6 * RESERVE))
    assert site.budget.waiting == 1

    await site.begin("192.0.2.2", 3, size=3 * RESERVE)
    assert [line.sent.count(b"HTTP/1.1 503 ") for line in lines].count(1) == 1
    assert [line.is_closed for line in lines].count(True) == 1
    assert site.recorder.refusals == ["FrameMemoryExhausted"]


async def test_connections(site: Site) -> None:
    """An idle connection is closed for another address. One with a request in progress is not."""
    busy = await site.begin("192.0.2.1", 1, size=RESERVE)
    idle = [site.call("192.0.2.1") for _ in range(2)]
    third = site.call("192.0.2.2")
    assert site.call("192.0.2.1").is_closed
    assert site.recorder.refused_connections == 1

    line = site.call("192.0.2.3")
    await line.send(HEAD + b"content-length: 3\r\n\r\nMSH")

    assert len(site.frames) == 2
    assert [connection.is_closed for connection in idle].count(True) == 1
    assert not any(connection.is_closed for connection in (busy, third, line))


async def test_memory_of_a_body_in_progress(site: Site) -> None:
    """The memory is used until the response, also if the sender is gone."""
    line = await site.begin("192.0.2.1", 3, size=3 * RESERVE)
    assert site.budget.used == 2 * RESERVE
    assert line.sent == b""
    line.lose()
    await settle()
    assert site.budget.used == 2 * RESERVE
    await site.reply(0, b"MSA")
    assert site.budget.used == 0


async def test_forms_are_not_parsed(site: Site) -> None:
    """With two content types the body is still a message: parsing a form would take minutes."""
    form = b"content-type: multipart/form-data; boundary=x\r\n"
    await site.call().send(
        HEAD.replace(b"content-type", form + b"content-type")
        + b"content-length: 7\r\n\r\n--x\r\n\r\n"
    )
    assert [frame.payload for frame in site.frames] == [b"--x\r\n\r\n"]


async def test_requests_in_one_packet(site: Site) -> None:
    """All requests of a packet get their response, but not more than a few wait."""
    line = site.call()
    await line.send(GET * 5)
    assert line.sent.count(b"HTTP/1.1 404 ") == 5
    await line.send(GET * 1000)
    assert line.sent.count(b"HTTP/1.1 ") < 100
    assert line.is_closed


async def test_a_client_that_does_not_read_gets_no_further_responses(site: Site) -> None:
    """The next request waits until the client has read the responses before it."""
    line = site.call()
    line.pause()
    await line.send(GET * 3)
    assert line.sent == b""
    line.read()
    await settle()
    assert line.sent.count(b"HTTP/1.1 404 ") == 3


async def test_requests_of_a_lost_connection_are_not_handled(site: Site) -> None:
    """The next request in the packet is dropped with its connection."""
    line = site.call()
    await line.send((HEAD + b"content-length: 3\r\n\r\nMSH") * 3)
    line.lose()
    await site.reply(0, b"MSA")
    assert len(site.frames) == 1


async def test_tiny_chunks_are_bounded(site: Site) -> None:
    """Each chunk costs the time of many bytes, so a body of tiny chunks is refused."""
    line = site.call()
    await line.send(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    await line.send(b"1\r\nx\r\n" * 10_000)
    assert line.sent.startswith(b"HTTP/1.1 400 ")
    assert line.is_closed


async def test_a_chunk_for_each_segment_is_accepted(site: Site) -> None:
    """Some senders write one segment at a time."""
    line = site.call()
    await line.send(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    for _ in range(1000):
        await line.send(b"3c\r\n" + b"x" * 60 + b"\r\n")
    await line.send(b"0\r\n\r\n")
    assert [len(frame.payload) for frame in site.frames] == [60_000]


async def test_headers_that_are_not_utf_8(site: Site) -> None:
    """A header of other bytes is an unknown value, and the sender gets a response."""
    kind = b"content-type: text/plain; charset=\xff\r\ncontent-length: 3\r\n\r\nMSH"
    await site.call().send(b"POST / HTTP/1.1\r\nhost: x\r\n" + kind)
    assert [frame.payload for frame in site.frames] == [b"MSH"]

    line = site.call()
    kind = b"content-type: \xff/x\r\ncontent-length: 3\r\n\r\nMSH"
    await line.send(b"POST / HTTP/1.1\r\nhost: x\r\n" + kind)
    assert line.sent.startswith(b"HTTP/1.1 415 ")
