"""The in-memory endpoints behave like the real ones."""

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from mllp import Frame, LossReason, NotConnected, ReplyLost
from mllp.contract import as_deferred
from mllp.testing import (
    MemoryClient,
    MemoryEndpoint,
    MemoryPeer,
    MemoryServer,
    RawConnection,
    answering,
)
from tests.mllp.server_fixture import ManualHandler


def result(deferred: Deferred[bytes]) -> object:
    """Return the result of a Deferred, or None."""
    results: list[object] = []
    deferred.addBoth(lambda value: results.append(getattr(value, "value", value)))
    return results[0] if results else None


class TestMemoryClient:
    def test_it_replies(self) -> None:
        """The client records each payload, and returns the scripted reply."""
        client = MemoryClient(lambda payload: b"AA " + payload)

        assert result(client.send(b"1")) == b"AA 1"
        assert client.sent == [b"1"]

    def test_it_fails(self) -> None:
        """The client fails with the error that the script raises."""

        def fail(payload: bytes) -> bytes:
            raise ReplyLost(LossReason.TIMEOUT)

        assert isinstance(result(MemoryClient(fail).send(b"1")), ReplyLost)

    def test_it_waits(self) -> None:
        """Without a script the test fires the reply."""
        client = MemoryClient(lambda _: None)
        reply = client.send(b"1")
        assert not reply.called

        client.pending[0].callback(b"AA")

        assert result(reply) == b"AA"

    def test_closed(self) -> None:
        """A closed client refuses payloads."""
        client = MemoryClient(lambda _: b"AA")
        client.close()

        assert isinstance(result(client.send(b"1")), NotConnected)
        assert client.sent == []


def test_a_handler_without_a_server() -> None:
    """`answering` creates a handler, and `MemoryPeer` calls it."""
    peer = MemoryPeer()
    replies: list[object] = []
    answering(lambda payload: [payload * 2])(Frame(b"A"), peer, replies.append)

    assert replies == [[b"AA"]]
    assert peer.send(b"later")
    peer.gone = True
    assert not peer.send(b"too late")
    assert peer.sent == [b"later"]


def test_replies_as_a_deferred() -> None:
    """`as_deferred` fires with the replies or with the failure."""
    handler, results = ManualHandler(), list[object]()
    as_deferred(handler, Frame(b"ONE"), MemoryPeer()).addCallback(results.append)
    as_deferred(handler, Frame(b"TWO"), MemoryPeer()).addErrback(
        lambda failure: results.append(failure.type)
    )
    handler.reply(0, b"one")
    handler.replies[1].errback(KeyError())
    assert results == [(b"one",), KeyError]


def test_both_ends_see_a_close() -> None:
    """Each end reports a close once, in either direction."""
    server = MemoryServer(answering(lambda payload: [payload]))
    caller = server.connect()
    assert caller.exchange(b"A") == [b"A"]
    assert server.factory.connections == 1

    caller.close()

    assert caller.closed
    assert server.factory.connections == 0
    assert not server.clock.getDelayedCalls()


@pytest.mark.parametrize("attribute", ["refusing", "mute"])
def test_an_endpoint_without_a_server(attribute: str) -> None:
    """The endpoint refuses the connection or does not respond."""
    endpoint = MemoryEndpoint(Clock(), RawConnection)
    setattr(endpoint, attribute, True)
    errors: list[object] = []

    attempt = endpoint.connect(None)
    attempt.addErrback(errors.append)

    assert bool(errors) is (attribute == "refusing")
    assert endpoint.attempts == 1
