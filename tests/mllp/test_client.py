"""The sending side: exchanges, lost replies, what comes unasked, the end; in memory."""

from mllp import LossReason, NotConnected, ReplyLost, Unframeable
from mllp.client import MLLPClient
from mllp.exchange import State
from mllp.testing import MemoryServer, answering, settle
from tests.mllp.bench import Bench, Outcome


class TestExchange:
    """One out, one back."""

    def test_the_reply_comes_back(self, bench: Bench) -> None:
        """And the connection stays."""
        outcome = bench.send(b"1")
        assert outcome.pending

        bench.reply(b"AA 1")

        assert outcome.value == b"AA 1"
        assert bench.client.state is State.READY

    def test_one_in_flight(self, bench: Bench) -> None:
        """The next is not sent before the reply is in; then it is, on the same connection."""
        first, second = bench.send(b"1"), bench.send(b"2")
        assert bench.receivers[0].frames == [b"1"]
        assert bench.client.waiting == 1

        bench.reply(b"AA 1")
        assert bench.receivers[0].frames == [b"1", b"2"]
        bench.reply(b"AA 2")

        assert (first.value, second.value) == (b"AA 1", b"AA 2")
        assert len(bench.receivers) == 1

    def test_padding_around_the_reply(self, bench: Bench) -> None:
        """Is counted and tolerated."""
        outcome = bench.send(b"1")

        bench.write(b"\0\0\x0bAA 1\x1c\r\r\n")

        assert outcome.value == b"AA 1"
        assert ("noise", 2) in bench.counter.seen
        assert bench.client.state is State.READY

    def test_a_reply_drop_by_drop(self, bench: Bench) -> None:
        """Arrives whole."""
        outcome = bench.send(b"1")
        for byte in b"\x0bAA 1\x1c\r":
            bench.write(bytes([byte]))

        assert outcome.value == b"AA 1"

    def test_a_commit_block_is_not_the_reply(self, bench: Bench) -> None:
        """MLLP release 2: it says that the payload is kept; the reply follows."""
        outcome = bench.send(b"1")
        bench.reply(b"\x06")
        assert outcome.pending

        bench.reply(b"AA 1")

        assert outcome.value == b"AA 1"

    def test_a_negative_commit_block(self, bench: Bench) -> None:
        """It was not kept: nothing is known to have happened, and it must be sent again."""
        outcome = bench.send(b"1")

        bench.reply(b"\x15")

        assert isinstance(outcome.error, ReplyLost)
        assert outcome.error.reason is LossReason.GARBAGE

    def test_sending_from_the_callback(self, bench: Bench) -> None:
        """A sender may send its next from the reply of its last."""
        later: list[Outcome] = []
        first = bench.client.send(b"1")
        first.addCallback(lambda _: later.append(Outcome(bench.client.send(b"2"))))
        settle(bench.clock)
        bench.reply(b"AA 1")
        bench.reply(b"AA 2")

        assert later[0].value == b"AA 2"

    def test_what_cannot_be_framed(self, bench: Bench) -> None:
        """Is refused at once, and disturbs nobody."""
        outcome = bench.send(b"A\x1c\rB")

        assert isinstance(outcome.error, Unframeable)
        assert not bench.receivers


class TestReplyLost:
    """Sent, and nobody knows: the connection is closed, so that a late reply meets nobody."""

    def lost(self, bench: Bench, outcome: Outcome, reason: LossReason) -> None:
        """Check that it is lost for this reason, and the connection gone."""
        settle(bench.clock)
        assert isinstance(outcome.error, ReplyLost)
        assert outcome.error.reason is reason
        assert bench.receivers[-1].closed
        assert bench.client.state is State.BACKING_OFF

    def test_silence(self, bench: Bench) -> None:
        """The reply time-out."""
        outcome = bench.send(b"1")
        bench.clock.advance(29)
        assert outcome.pending

        bench.clock.advance(1)

        self.lost(bench, outcome, LossReason.TIMEOUT)

    def test_half_a_reply(self, bench: Bench) -> None:
        """Is no reply, however long it goes on."""
        outcome = bench.send(b"1")
        bench.write(b"\x0bAA")
        bench.clock.advance(20)
        bench.write(b" 1")

        bench.clock.advance(10)

        self.lost(bench, outcome, LossReason.TIMEOUT)

    def test_a_close(self, bench: Bench) -> None:
        """In good order, but without a reply."""
        outcome = bench.send(b"1")
        bench.receivers[0].close()

        self.lost(bench, outcome, LossReason.CLOSED)

    def test_a_cut(self, bench: Bench) -> None:
        """In the middle of the reply."""
        outcome = bench.send(b"1")
        bench.write(b"\x0bAA")
        bench.receivers[0].reset()

        self.lost(bench, outcome, LossReason.CLOSED)

    def test_anothers_reply(self, bench: Bench) -> None:
        """A reply that does not match is never credited to what is in flight."""
        outcome = bench.send(b"1")
        bench.reply(b"AA 7")

        self.lost(bench, outcome, LossReason.MISMATCH)

    def test_a_reply_that_nobody_can_read(self, bench: Bench) -> None:
        """A matcher that stumbles over it has not matched it."""
        outcome = bench.send(b"1")
        bench.reply(b"UNREADABLE")

        self.lost(bench, outcome, LossReason.GARBAGE)

    def test_a_truncated_reply(self, bench: Bench) -> None:
        """Two replies run together are none."""
        outcome = bench.send(b"1")
        bench.write(b"\x0bAA\x0bAA 1\x1c\r")

        self.lost(bench, outcome, LossReason.GARBAGE)

    def test_what_comes_behind_it(self, bench: Bench) -> None:
        """Is not looked at, not even in the same packet."""
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
        """What the old connection still delivers is not looked at."""
        first, second = bench.send(b"1"), bench.send(b"2")
        old = bench.receivers[0]
        bench.clock.advance(30)
        old.send(b"AA 2")
        settle(bench.clock)
        assert isinstance(first.error, ReplyLost)
        assert second.pending

        bench.clock.advance(2)
        assert bench.receivers[1].frames == [b"2"]
        bench.reply(b"AA 2")

        assert second.value == b"AA 2"

    def test_cancelled_in_flight(self, bench: Bench) -> None:
        """Who gives up costs the connection, for the same reason."""
        reply = bench.client.send(b"1")
        Outcome(reply)
        settle(bench.clock)

        reply.cancel()
        settle(bench.clock)

        assert bench.receivers[0].closed
        assert bench.client.state is State.BACKING_OFF


class TestNothingInFlight:
    """What comes unasked."""

    def test_a_frame_too_many(self, bench: Bench) -> None:
        """Closes the connection, before it can be taken for the next reply."""
        first = bench.send(b"1")
        bench.receivers[0].send(b"AA 1", b"AA 2")
        settle(bench.clock)
        assert first.value == b"AA 1"
        assert "unexpected" in bench.counter.seen
        assert bench.receivers[0].closed

        second = bench.send(b"2")
        assert second.pending
        bench.reply(b"AA 2")

        assert second.value == b"AA 2"

    def test_garbage(self, bench: Bench) -> None:
        """As well, if it is no end of noise but an endless frame."""
        bench.send(b"1")
        bench.reply(b"AA 1")

        bench.write(b"\x0b" + b"A" * 2000)

        assert bench.receivers[0].closed
        assert bench.client.state is State.DISCONNECTED


class TestClose:
    """The end."""

    def test_with_a_payload_in_flight(self, bench: Bench) -> None:
        """Its outcome is unknown, and what waited was not sent."""
        first, second = bench.send(b"1"), bench.send(b"2")

        bench.client.close()
        settle(bench.clock)

        assert isinstance(first.error, ReplyLost)
        assert isinstance(second.error, NotConnected)
        assert bench.receivers[0].closed

    def test_while_connecting(self, bench: Bench) -> None:
        """The attempt is given up."""
        bench.endpoint.mute = True
        outcome = bench.send(b"1")

        bench.client.close()

        assert isinstance(outcome.error, NotConnected)

    def test_afterwards(self, bench: Bench) -> None:
        """Nothing is sent any more."""
        bench.client.close()

        assert isinstance(bench.send(b"1").error, NotConnected)


def test_the_real_client_and_the_real_server() -> None:
    """They understand each other."""
    server = MemoryServer(answering(lambda payload: [b"AA " + payload]))
    client = MLLPClient(server.endpoint, clock=server.clock, backoff=lambda _: 1.0)
    outcomes = [Outcome(client.send(b"%d" % number)) for number in range(20)]
    settle(server.clock)

    assert [one.value for one in outcomes] == [b"AA %d" % number for number in range(20)]
    client.close()
    settle(server.clock)
    assert server.factory.connections == 0
    assert not server.clock.getDelayedCalls()
