"""The test doubles behave like the real endpoints."""

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from mllp import Frame, LossReason, NotConnected, ReplyLost
from mllp.testing import (
    MemoryClient,
    MemoryEndpoint,
    MemoryPeer,
    MemoryServer,
    RawConnection,
    answering,
)


def result(deferred: Deferred[bytes]) -> object:
    """Return its result, or None."""
    found: list[object] = []
    deferred.addBoth(lambda value: found.append(getattr(value, "value", value)))
    return found[0] if found else None


class TestMemoryClient:
    """A client with scripted answers."""

    def test_it_replies(self) -> None:
        """And keeps what was sent."""
        client = MemoryClient(lambda payload: b"AA " + payload)

        assert result(client.send(b"1")) == b"AA 1"
        assert client.sent == [b"1"]

    def test_it_fails(self) -> None:
        """With what its answer raises."""

        def silence(payload: bytes) -> bytes:
            raise ReplyLost(LossReason.TIMEOUT)

        assert isinstance(result(MemoryClient(silence).send(b"1")), ReplyLost)

    def test_it_waits(self) -> None:
        """Without an answer the test fires the reply."""
        client = MemoryClient(lambda _: None)
        reply = client.send(b"1")
        assert not reply.called

        client.pending[0].callback(b"AA")

        assert result(reply) == b"AA"

    def test_closed(self) -> None:
        """It takes no more."""
        client = MemoryClient(lambda _: b"AA")
        client.close()

        assert isinstance(result(client.send(b"1")), NotConnected)
        assert client.sent == []


def test_a_handler_without_a_server() -> None:
    """`answering` makes one, `MemoryPeer` calls it."""
    peer = MemoryPeer()
    found: list[object] = []
    answering(lambda payload: [payload * 2])(Frame(b"A"), peer, found.append)

    assert found == [[b"AA"]]
    assert peer.send(b"later")
    peer.gone = True
    assert not peer.send(b"too late")
    assert peer.sent == [b"later"]


def test_both_ends_see_a_close() -> None:
    """In either direction, once."""
    server = MemoryServer(answering(lambda payload: [payload]))
    caller = server.connect()
    assert caller.exchange(b"A") == [b"A"]
    assert server.factory.connections == 1

    caller.close()

    assert caller.closed
    assert server.factory.connections == 0
    assert not server.clock.getDelayedCalls()


@pytest.mark.parametrize("attribute", ["refusing", "mute"])
def test_an_endpoint_that_leads_nowhere(attribute: str) -> None:
    """It refuses, or says nothing."""
    endpoint = MemoryEndpoint(Clock(), RawConnection)
    setattr(endpoint, attribute, True)
    errors: list[object] = []

    attempt = endpoint.connect(None)
    attempt.addErrback(errors.append)

    assert bool(errors) is (attribute == "refusing")
    assert endpoint.attempts == 1
