"""The client: exchanges, lost replies, unexpected frames, close; in memory."""

from mllp import LossReason, NotConnected, ReplyLost, Unframeable
from mllp.client import MLLPClient
from mllp.exchange import ClientState
from mllp.testing import MemoryServer, answering, deliver_all
from tests.mllp.client_fixture import Bench, Outcome


class TestExchange:
    """One payload, one reply."""

    def test_the_reply_comes_back(self, bench: Bench) -> None:
        """And the connection stays."""
        outcome = bench.send(b"1")
        assert outcome.pending

        bench.reply(b"AA 1")

        assert outcome.value == b"AA 1"
        assert bench.client.state is ClientState.READY

    def test_one_in_flight(self, bench: Bench) -> None:
        """The next payload is sent after the reply, on the same connection."""
        first, second = bench.send(b"1"), bench.send(b"2")
        assert bench.receivers[0].frames == [b"1"]
        assert bench.client.waiting == 1

        bench.reply(b"AA 1")
        assert bench.receivers[0].frames == [b"1", b"2"]
        bench.reply(b"AA 2")

        assert (first.value, second.value) == (b"AA 1", b"AA 2")
        assert len(bench.receivers) == 1

    def test_padding_around_the_reply(self, bench: Bench) -> None:
        """Noise is counted and ignored."""
        outcome = bench.send(b"1")

        bench.write(b"\0\0\x0bAA 1\x1c\r\r\n")

        assert outcome.value == b"AA 1"
        assert ("noise", 2) in bench.counter.seen
        assert bench.client.state is ClientState.READY

    def test_a_reply_drop_by_drop(self, bench: Bench) -> None:
        """A large reply arrives complete."""
        outcome = bench.send(b"1")
        for byte in b"\x0bAA 1\x1c\r":
            bench.write(bytes([byte]))

        assert outcome.value == b"AA 1"

    def test_a_commit_block_is_not_the_reply(self, bench: Bench) -> None:
        """MLLP release 2: a commit ACK means the payload is stored; the reply follows."""
        outcome = bench.send(b"1")
        bench.reply(b"\x06")
        assert outcome.pending

        bench.reply(b"AA 1")

        assert outcome.value == b"AA 1"

    def test_a_negative_commit_block(self, bench: Bench) -> None:
        """A commit NAK means that it was not stored: it must be sent again."""
        outcome = bench.send(b"1")

        bench.reply(b"\x15")

        assert isinstance(outcome.error, ReplyLost)
        assert outcome.error.reason is LossReason.GARBAGE

    def test_sending_from_the_callback(self, bench: Bench) -> None:
        """A callback of a reply may send the next payload."""
        later: list[Outcome] = []
        first = bench.client.send(b"1")
        first.addCallback(lambda _: later.append(Outcome(bench.client.send(b"2"))))
        deliver_all(bench.clock)
        bench.reply(b"AA 1")
        bench.reply(b"AA 2")

        assert later[0].value == b"AA 2"

    def test_what_cannot_be_framed(self, bench: Bench) -> None:
        """It is refused at once, without effect on others."""
        outcome = bench.send(b"A\x1c\rB")

        assert isinstance(outcome.error, Unframeable)
        assert not bench.receivers


class TestReplyLost:
    """The result is unknown: the connection is closed, so that a late reply is ignored."""

    def lost(self, bench: Bench, outcome: Outcome, reason: LossReason) -> None:
        """Check the reason of the loss, and that the connection is closed."""
        deliver_all(bench.clock)
        assert isinstance(outcome.error, ReplyLost)
        assert outcome.error.reason is reason
        assert bench.receivers[-1].closed
        assert bench.client.state is ClientState.BACKING_OFF

    def test_silence(self, bench: Bench) -> None:
        """The reply time-out."""
        outcome = bench.send(b"1")
        bench.clock.advance(29)
        assert outcome.pending

        bench.clock.advance(1)

        self.lost(bench, outcome, LossReason.TIMEOUT)

    def test_half_a_reply(self, bench: Bench) -> None:
        """Noise is not a reply."""
        outcome = bench.send(b"1")
        bench.write(b"\x0bAA")
        bench.clock.advance(20)
        bench.write(b" 1")

        bench.clock.advance(10)

        self.lost(bench, outcome, LossReason.TIMEOUT)

    def test_a_close(self, bench: Bench) -> None:
        """A clean close without a reply."""
        outcome = bench.send(b"1")
        bench.receivers[0].close()

        self.lost(bench, outcome, LossReason.CLOSED)

    def test_a_cut(self, bench: Bench) -> None:
        """A close within the reply."""
        outcome = bench.send(b"1")
        bench.write(b"\x0bAA")
        bench.receivers[0].reset()

        self.lost(bench, outcome, LossReason.CLOSED)

    def test_anothers_reply(self, bench: Bench) -> None:
        """A reply that does not match is not used."""
        outcome = bench.send(b"1")
        bench.reply(b"AA 7")

        self.lost(bench, outcome, LossReason.MISMATCH)

    def test_a_reply_that_nobody_can_read(self, bench: Bench) -> None:
        """An error in the matcher counts as no match."""
        outcome = bench.send(b"1")
        bench.reply(b"UNREADABLE")

        self.lost(bench, outcome, LossReason.GARBAGE)

    def test_a_truncated_reply(self, bench: Bench) -> None:
        """Two joined replies are not a reply."""
        outcome = bench.send(b"1")
        bench.write(b"\x0bAA\x0bAA 1\x1c\r")

        self.lost(bench, outcome, LossReason.GARBAGE)

    def test_what_comes_behind_it(self, bench: Bench) -> None:
        """A second reply is ignored, also in the same packet."""
        outcome = bench.send(b"1")
        bench.write(b"\x0bAA 7\x1c\r\x0bAA 1\x1c\r")

        self.lost(bench, outcome, LossReason.MISMATCH)
        assert "unexpected" not in bench.counter.seen

    def test_an_endless_reply(self, bench: Bench) -> None:
        """Longer than any frame may be."""
        outcome = bench.send(b"1")
        bench.write(b"\x0b" + b"A" * 2000)

        self.lost(bench, outcome, LossReason.GARBAGE)

    def test_a_late_reply_meets_nobody(self, bench: Bench) -> None:
        """Later bytes of the old connection are ignored."""
        first, second = bench.send(b"1"), bench.send(b"2")
        old = bench.receivers[0]
        bench.clock.advance(30)
        old.send(b"AA 2")
        deliver_all(bench.clock)
        assert isinstance(first.error, ReplyLost)
        assert second.pending

        bench.clock.advance(2)
        assert bench.receivers[1].frames == [b"2"]
        bench.reply(b"AA 2")

        assert second.value == b"AA 2"

    def test_cancelled_in_flight(self, bench: Bench) -> None:
        """Cancelling a payload in flight closes the connection, for the same reason."""
        reply = bench.client.send(b"1")
        Outcome(reply)
        deliver_all(bench.clock)

        reply.cancel()
        deliver_all(bench.clock)

        assert bench.receivers[0].closed
        assert bench.client.state is ClientState.BACKING_OFF


class TestNothingInFlight:
    """Unexpected data."""

    def test_a_frame_too_many(self, bench: Bench) -> None:
        """It closes the connection, so that it is not taken for the next reply."""
        first = bench.send(b"1")
        bench.receivers[0].send(b"AA 1", b"AA 2")
        deliver_all(bench.clock)
        assert first.value == b"AA 1"
        assert "unexpected" in bench.counter.seen
        assert bench.receivers[0].closed

        second = bench.send(b"2")
        assert second.pending
        bench.reply(b"AA 2")

        assert second.value == b"AA 2"

    def test_garbage(self, bench: Bench) -> None:
        """The same for an endless frame."""
        bench.send(b"1")
        bench.reply(b"AA 1")

        bench.write(b"\x0b" + b"A" * 2000)

        assert bench.receivers[0].closed
        assert bench.client.state is ClientState.DISCONNECTED


class TestClose:
    """Closing the client."""

    def test_with_a_payload_in_flight(self, bench: Bench) -> None:
        """The payload in flight is lost, and queued ones were not sent."""
        first, second = bench.send(b"1"), bench.send(b"2")

        bench.client.close()
        deliver_all(bench.clock)

        assert isinstance(first.error, ReplyLost)
        assert isinstance(second.error, NotConnected)
        assert bench.receivers[0].closed

    def test_while_connecting(self, bench: Bench) -> None:
        """The attempt is cancelled."""
        bench.endpoint.mute = True
        outcome = bench.send(b"1")

        bench.client.close()

        assert isinstance(outcome.error, NotConnected)

    def test_afterwards(self, bench: Bench) -> None:
        """Nothing is sent any more."""
        bench.client.close()

        assert isinstance(bench.send(b"1").error, NotConnected)


def test_the_real_client_and_the_real_server() -> None:
    """The client works with our server."""
    server = MemoryServer(answering(lambda payload: [b"AA " + payload]))
    client = MLLPClient(server.endpoint, clock=server.clock, backoff=lambda _: 1.0)
    outcomes = [Outcome(client.send(b"%d" % number)) for number in range(20)]
    deliver_all(server.clock)

    assert [one.value for one in outcomes] == [b"AA %d" % number for number in range(20)]
    client.close()
    deliver_all(server.clock)
    assert server.factory.connections == 0
    assert not server.clock.getDelayedCalls()
