"""HTTP sender: what a receiver of results can cost with its response."""

from dataclasses import dataclass
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectError, ConnectionLost
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web._newclient import ResponseNeverReceived
from twisted.web.client import ResponseDone

from bridge.transports.http_sender import HttpSender
from mllp.errors import LossReason, NotConnected, ReplyLost
from tests.acceptance.orders import order
from tests.acceptance.wire import ack


@dataclass
class Receiver:
    """An agent of Twisted, with a response whose body the test delivers."""

    body: Protocol | None = None
    code: int = 200

    def request(self, *_: object) -> Deferred["Receiver"]:
        return succeed(self)

    def deliverBody(self, body: Protocol) -> None:  # noqa: N802  # Twisted's name
        """Keep the collector of the body."""
        self.body = body
        body.makeConnection(StringTransport())

    def send(self, *pieces: bytes) -> None:
        assert self.body is not None
        for each in pieces:
            self.body.dataReceived(each)


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


def sender_to(receiver: object, clock: Clock | None = None, *, matches: bool = True) -> HttpSender:
    agent: Any = receiver
    return HttpSender(
        agent,
        b"http://receiver.test/",
        clock=clock or Clock(),
        reply_timeout=10,
        matches=lambda *_: matches,
    )


def post(receiver: object, clock: Clock | None = None, *, matches: bool = True) -> list[Any]:
    outcome: list[Any] = []
    sender_to(receiver, clock, matches=matches).send(order(1)).addBoth(outcome.append)
    return outcome


def test_a_reply_in_pieces(receiver: Receiver) -> None:
    outcome, reply = post(receiver), ack(order(1))
    receiver.send(reply[:10], reply[10:11], reply[11:])
    assert receiver.body is not None
    receiver.body.connectionLost(Failure(ResponseDone()))
    assert outcome == [reply]


@pytest.mark.parametrize("pieces", [[b"M"] * 10_000, [bytes(2**16)] * 300], ids=["tiny", "large"])
def test_a_reply_that_does_not_end(receiver: Receiver, pieces: list[bytes]) -> None:
    """A reply in too many pieces, or one that is too large, is no reply."""
    outcome = post(receiver)
    receiver.send(*pieces)
    (failure,) = outcome
    assert isinstance(failure.value, ReplyLost)
    assert failure.value.reason is LossReason.GARBAGE


@pytest.mark.parametrize(
    ("code", "matches", "reason"),
    [(300, True, LossReason.GARBAGE), (200, False, LossReason.MISMATCH)],
)
def test_a_reply_that_does_not_count(code: int, matches: bool, reason: LossReason) -> None:
    """An AA with a status that contradicts it, or of another message, is no acknowledgment."""
    receiver = Receiver(code=code)
    outcome = post(receiver, matches=matches)
    receiver.send(ack(order(1)))
    assert receiver.body is not None
    receiver.body.connectionLost(Failure(ResponseDone()))
    (failure,) = outcome
    assert isinstance(failure.value, ReplyLost)
    assert failure.value.reason is reason


def test_a_connection_that_closes_within_the_reply(receiver: Receiver) -> None:
    """A part of a reply is no reply, even if it contains an AA."""
    outcome = post(receiver)
    receiver.send(ack(order(1)))
    assert receiver.body is not None
    receiver.body.connectionLost(Failure(ConnectionLost()))
    (failure,) = outcome
    assert isinstance(failure.value, ReplyLost)
    assert failure.value.reason is LossReason.CLOSED


def test_a_caller_that_cancels_within_the_reply(receiver: Receiver) -> None:
    """The message was sent: the result is unknown."""
    sending = sender_to(receiver).send(order(1))
    receiver.send(ack(order(1)))
    sending.cancel()
    outcome: list[Any] = []
    sending.addErrback(outcome.append)
    (failure,) = outcome
    assert isinstance(failure.value, ReplyLost)
    assert failure.value.reason is LossReason.CLOSED


@dataclass
class FailingAgent:
    """An agent that cannot complete a request."""

    error: Exception

    def request(self, *_: object) -> Deferred[Receiver]:
        return fail(self.error)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectError(), NotConnected),
        (ResponseNeverReceived([Failure(ConnectionLost())]), ReplyLost),
    ],
)
def test_whether_the_receiver_may_have_the_message(
    error: Exception, expected: type[Exception]
) -> None:
    """After the connection is made, the state at the receiver is unknown."""
    (failure,) = post(FailingAgent(error))
    assert type(failure.value) is expected


class SilentAgent:
    """An agent whose receiver never responds."""

    def request(self, *_: object) -> Deferred[Receiver]:
        return Deferred()


def test_no_response_within_the_time_limit() -> None:
    """The receiver may have the message: its state is unknown."""
    clock = Clock()
    outcome = post(SilentAgent(), clock)
    clock.advance(9.9)
    assert outcome == []
    clock.advance(0.2)
    (failure,) = outcome
    assert isinstance(failure.value, ReplyLost)
    assert failure.value.reason is LossReason.TIMEOUT
