"""HL7 over HTTP: limits on memory, connections and time."""

from collections.abc import Sequence
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from typing_extensions import override

from bridge.transports.http_resource import HttpListenerRules, MessageResource
from bridge.transports.http_server import MessageSite
from mllp.contract import Peer, ReplyCallback, ServerLimits, ServerObserver
from mllp.errors import FramingError
from mllp.framing import Frame
from mllp.memory_budget import RESERVE, FrameBudget

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/hl7-v2\r\n"
SECRET = b"Basic abc"
PIECE = b"x" * RESERVE


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


class SiteHarness:
    def __init__(self, authorization: bytes | None = None) -> None:
        self.clock, self.recorder, self.budget = (
            Clock(),
            RefusalRecorder(),
            FrameBudget(8 * RESERVE),
        )
        self.frames: list[Frame] = []
        self.replies: list[Deferred[Sequence[bytes]]] = []
        self.site = MessageSite(
            MessageResource(
                self.handle, HttpListenerRules(authorization=authorization), self.recorder
            ),
            ServerLimits(max_frame=6 * RESERVE, max_connections=4, max_connections_per_source=3),
            clock=self.clock,
            observer=self.recorder,
            refuse=lambda _error, _head: b"",
            budget=self.budget,
        )
        self.open: list[tuple[object, StringTransport]] = []

    def handle(self, frame: Frame, _peer: Peer, reply: ReplyCallback) -> None:
        self.frames.append(frame)
        self.replies.append(Deferred())
        self.replies[-1].addCallbacks(reply, reply)

    def call(self, host: str = "192.0.2.1") -> "tuple[object, StringTransport]":
        address: Any = IPv4Address("TCP", host, 1)
        channel = self.site.buildProtocol(address)
        transport = StringTransport(peerAddress=address)
        channel.makeConnection(transport)
        self.open.append((channel, transport))
        return channel, transport

    def begin(self, host: str, pieces: int, size: int = 5 * RESERVE) -> StringTransport:
        """Start a request with a body."""
        channel, transport = self.call(host)
        send(channel, HEAD + b"content-length: %d\r\n\r\n" % size)
        for _ in range(pieces):
            send(channel, PIECE)
        return transport


def send(channel: object, data: bytes) -> None:
    """Deliver bytes to a channel."""
    channel.dataReceived(data)  # type: ignore[attr-defined]  # Twisted's have no types


@pytest.fixture
def site() -> SiteHarness:
    return SiteHarness()


def test_a_refused_request_is_answered_before_its_body() -> None:
    """The response precedes the body, which is not stored. With the header it is accepted."""
    site = SiteHarness(SECRET)
    for head in (b"content-length: 9000000", b"transfer-encoding: chunked"):
        channel, transport = site.call()
        send(channel, HEAD + head + b"\r\n\r\n")
        assert transport.value().startswith(b"HTTP/1.1 401 ")
        send(channel, b"10000\r\n" + PIECE)
        assert site.budget.used == 0
        site.clock.advance(60)
        assert transport.disconnecting

    channel, transport = site.call("192.0.2.2")
    send(channel, HEAD + b"authorization: " + SECRET + b"\r\ncontent-length: 3\r\n\r\nMSH")
    assert [each.payload for each in site.frames] == [b"MSH"]
    site.replies[0].callback([b"MSH|^~\\&|A"])
    assert transport.value().startswith(b"HTTP/1.1 200 ")
    assert b"server:" not in transport.value().lower()


@pytest.mark.parametrize("began", [b"POST", HEAD, HEAD + b"content-length: 9\r\n\r\nMSH"])
def test_unfinished_requests(site: SiteHarness, began: bytes) -> None:
    """An unfinished request ends at the frame time-out."""
    channel, transport = site.call()
    send(channel, began)
    site.clock.advance(9)
    assert not transport.disconnecting
    site.clock.advance(2)
    site.clock.advance(0)

    assert transport.disconnecting
    assert site.recorder.refusals == ["FrameTimedOut"]


def test_bodies_share_the_memory_of_frames(site: SiteHarness) -> None:
    """When one address has used its share, its other senders wait, then get 503."""
    first = [site.begin("192.0.2.1", 4) for _ in range(3)]
    assert [each.producerState for each in first].count("paused") == 1

    other = site.begin("192.0.2.2", 3, size=3 * RESERVE)
    assert [len(each.payload) for each in site.frames] == [3 * RESERVE]
    site.replies[0].callback([b"MSH|^~\\&|\rMSA|AA|1\r"])
    assert other.value().startswith(b"HTTP/1.1 200 ")

    site.clock.advance(11)
    site.clock.advance(0)
    assert "FrameMemoryExhausted" in site.recorder.refusals
    assert b"HTTP/1.1 503 " in b"".join(each.value() for each in first)


def test_a_body_is_refused_once(site: SiteHarness) -> None:
    """A body that waits for memory gets one 503, and its connection is aborted."""
    for _ in range(2):
        site.begin("192.0.2.1", 4)
    waiting = site.begin("192.0.2.1", 5, size=6 * RESERVE)
    assert waiting.producerState == "paused"

    site.begin("192.0.2.2", 3, size=3 * RESERVE)
    assert waiting.value().count(b"HTTP/1.1 503 ") == 1
    assert site.recorder.refusals == ["FrameMemoryExhausted"]

    site.clock.advance(11)
    site.clock.advance(0)
    assert waiting.value().count(b"HTTP/1.1 503 ") == 1
    assert waiting.disconnected
    assert site.recorder.refusals.count("FrameMemoryExhausted") == 1


def test_connections(site: SiteHarness) -> None:
    """An idle connection is closed for another address. One with a request in progress is not."""
    site.begin("192.0.2.1", 1, size=RESERVE)
    connections = [site.call("192.0.2.1")[1] for _ in range(2)]
    third = site.call("192.0.2.2")[1]
    assert site.call("192.0.2.1")[1].disconnecting
    assert site.recorder.refused_connections == 1

    channel, transport = site.call("192.0.2.3")
    send(channel, HEAD + b"content-length: 3\r\n\r\nMSH")

    assert len(site.frames) == 2
    assert [each.disconnecting for each in connections].count(True) == 1
    assert not third.disconnecting
    assert not transport.disconnecting


def test_memory_of_a_body_in_progress(site: SiteHarness) -> None:
    """The memory is used until the response, also if the sender is gone."""
    transport = site.begin("192.0.2.1", 3, size=3 * RESERVE)
    channel = site.open[-1][0]
    assert site.budget.used == 2 * RESERVE
    assert transport.value() == b""
    channel.connectionLost(Failure(ConnectionError()))  # type: ignore[attr-defined]
    assert site.budget.used == 2 * RESERVE
    site.replies[0].callback([b"MSA"])

    assert site.budget.used == 0


def test_forms_are_not_parsed(site: SiteHarness) -> None:
    """With two content types the body is still a message: parsing a form would take minutes."""
    channel, _ = site.call()
    form = b"content-type: multipart/form-data; boundary=x\r\n"
    send(channel, HEAD.replace(b"content-type", form + b"content-type"))
    send(channel, b"content-length: 7\r\n\r\n--x\r\n\r\n")
    assert [each.payload for each in site.frames] == [b"--x\r\n\r\n"]


def test_requests_in_one_packet_take_turns(site: SiteHarness) -> None:
    """The next request waits for another iteration of the event loop."""
    channel, transport = site.call()
    send(channel, b"GET /unknown HTTP/1.1\r\nhost: x\r\n\r\n" * 5)
    assert transport.value().count(b"HTTP/1.1 404 ") == 1
    site.clock.advance(0)
    assert transport.value().count(b"HTTP/1.1 404 ") == 5


def test_packets_of_many_connections_take_turns(site: SiteHarness) -> None:
    """One iteration of the event loop handles few requests, for any number of packets."""
    called = [site.call(f"192.0.2.{at}") for at in range(4)]
    for channel, _ in called:
        send(channel, b"GET /unknown HTTP/1.1\r\nhost: x\r\n\r\n" * 3)
    later = site.clock.getDelayedCalls()
    now = [each for each in later if not each.getTime()]  # type: ignore[misc]  # zope interface
    assert len(now) == 1
    site.clock.advance(0)
    assert [each.value().count(b"HTTP/1.1 404 ") for _, each in called] == [3] * 4


def test_a_client_that_does_not_read_gets_no_further_responses(site: SiteHarness) -> None:
    """The next request waits until the client has read the responses before it."""
    channel, transport = site.call()
    channel.pauseProducing()  # type: ignore[attr-defined]  # as the transport does
    send(channel, b"GET /unknown HTTP/1.1\r\nhost: x\r\n\r\n" * 3)
    site.clock.advance(0)
    assert transport.value().count(b"HTTP/1.1 404 ") == 1
    channel.resumeProducing()  # type: ignore[attr-defined]
    site.clock.advance(0)
    assert transport.value().count(b"HTTP/1.1 404 ") == 3


def test_requests_of_a_lost_connection_are_not_handled(site: SiteHarness) -> None:
    """The next request in the packet is dropped with its connection."""
    channel, _ = site.call()
    send(channel, (HEAD + b"content-length: 3\r\n\r\nMSH") * 3)
    site.replies[0].callback([b"MSA"])
    channel.connectionLost(Failure(ConnectionError()))  # type: ignore[attr-defined]
    site.clock.advance(0)
    assert len(site.frames) == 1


def test_tiny_chunks_are_bounded(site: SiteHarness) -> None:
    """Each chunk costs the time of many bytes, so a body of tiny chunks is refused."""
    channel, transport = site.call()
    send(channel, HEAD + b"transfer-encoding: chunked\r\n\r\n")
    send(channel, b"1\r\nx\r\n" * 10_000)
    assert transport.value().startswith(b"HTTP/1.1 400 ")
    assert transport.disconnecting


def test_a_chunk_for_each_segment_is_accepted(site: SiteHarness) -> None:
    """Some senders write one segment at a time."""
    channel, _ = site.call()
    send(channel, HEAD + b"transfer-encoding: chunked\r\n\r\n")
    for _ in range(1000):
        send(channel, b"3c\r\n" + b"x" * 60 + b"\r\n")
    send(channel, b"0\r\n\r\n")
    assert [len(each.payload) for each in site.frames] == [60_000]


def test_headers_that_are_not_utf_8(site: SiteHarness) -> None:
    """A header of other bytes is an unknown value, and the sender gets a response."""
    channel, transport = site.call()
    kind = b"content-type: text/plain; charset=\xff\r\ncontent-length: 3\r\n\r\nMSH"
    send(channel, b"POST / HTTP/1.1\r\nhost: x\r\n" + kind)
    assert [each.payload for each in site.frames] == [b"MSH"]

    other, transport = site.call()
    send(
        other, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: \xff/x\r\ncontent-length: 3\r\n\r\nMSH"
    )
    assert transport.value().startswith(b"HTTP/1.1 415 ")
