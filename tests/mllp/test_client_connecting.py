"""The client without a connection: nothing was sent; in memory."""

from twisted.internet.defer import CancelledError

from mllp import NotConnected
from mllp.exchange import ClientState
from mllp.testing import deliver_all
from tests.mllp.client_fixture import Bench, Full, Outcome


class TestNotConnected:
    """Nothing was sent: sending again cannot duplicate."""

    def test_refused(self, bench: Bench) -> None:
        """All queued payloads fail in order, with the cause."""
        bench.endpoint.refusing = True

        outcome = bench.send(b"1")

        assert isinstance(outcome.error, NotConnected)
        assert outcome.error.cause == "ConnectionRefusedError"

    def test_one_failure_withdraws_the_next(self, bench: Bench) -> None:
        """A callback may cancel a later payload; the others still fail."""
        bench.endpoint.mute = True
        first, second = bench.client.send(b"1"), bench.client.send(b"2")
        withdrawn, third = Outcome(second), bench.send(b"3")
        first.addErrback(lambda _: second.cancel())

        bench.clock.advance(10)

        assert isinstance(withdrawn.error, CancelledError)
        assert isinstance(third.error, NotConnected)

    def test_no_answer_to_connecting(self, bench: Bench) -> None:
        """Ends with the connect time-out."""
        bench.endpoint.mute = True
        first, second = bench.send(b"1"), bench.send(b"2")
        assert first.pending

        bench.clock.advance(10)

        assert isinstance(first.error, NotConnected)
        assert isinstance(second.error, NotConnected)

    def test_backoff(self, bench: Bench) -> None:
        """It waits between attempts, and payloads sent meanwhile wait too."""
        bench.endpoint.refusing = True
        bench.send(b"1")
        waits = bench.send(b"2")
        bench.clock.advance(1.9)
        assert bench.endpoint.attempts == 1
        bench.clock.advance(0.1)
        assert bench.endpoint.attempts == 2
        assert isinstance(waits.error, NotConnected)

        bench.endpoint.refusing = False
        recovered = bench.send(b"3")
        bench.clock.advance(4)
        bench.reply(b"AA 3")

        assert recovered.value == b"AA 3"
        assert bench.counter.seen == [1, 2, "connected"]

    def test_a_good_reply_makes_the_backoff_short_again(self, bench: Bench) -> None:
        """A good reply resets the count of failures."""
        bench.endpoint.refusing = True
        bench.send(b"1")
        bench.clock.advance(2)
        bench.endpoint.refusing = False
        bench.send(b"2")
        deliver_all(bench.clock)
        bench.reply(b"AA 2")
        bench.send(b"3")
        bench.clock.advance(30)
        bench.send(b"4")

        bench.clock.advance(2)

        assert bench.receivers[-1].frames == [b"4"]
        bench.reply(b"AA 4")

    def test_no_attempt_without_a_payload(self, bench: Bench) -> None:
        """It does not connect without a payload."""
        bench.endpoint.refusing = True
        bench.send(b"1")

        bench.clock.advance(1000)

        assert bench.endpoint.attempts == 1

    def test_hung_up_while_idle(self, bench: Bench) -> None:
        """The close is noticed before sending: the next payload uses a new connection."""
        bench.send(b"1")
        bench.reply(b"AA 1")
        bench.receivers[0].close()
        deliver_all(bench.clock)
        assert bench.client.state is ClientState.DISCONNECTED

        outcome = bench.send(b"2")
        bench.reply(b"AA 2")

        assert outcome.value == b"AA 2"
        assert len(bench.receivers) == 2

    def test_hung_up_at_the_moment_of_sending(self, bench: Bench) -> None:
        """A close that is under way is noticed before the payload leaves."""
        bench.send(b"1")
        bench.reply(b"AA 1")
        bench.receivers[0].close()  # not settled: the client does not know

        outcome = bench.send(b"2")
        bench.reply(b"AA 2")

        assert bench.receivers[0].frames == [b"1"]
        assert outcome.value == b"AA 2"

    def test_a_peer_that_hangs_up_after_every_reply(self, bench: Bench) -> None:
        """The close may follow the reply: after the first one the client waits for it."""
        outcomes = [bench.send(b"1"), bench.send(b"2"), bench.send(b"3")]
        bench.receivers[0].send(b"AA 1")
        bench.receivers[0].close()
        deliver_all(bench.clock)
        for number in (2, 3):
            bench.reply(b"AA %d" % number)
            bench.clock.advance(0.01)
            bench.receivers[-1].close()
            deliver_all(bench.clock)

        assert [one.value for one in outcomes] == [b"AA 1", b"AA 2", b"AA 3"]
        assert [one.frames for one in bench.receivers] == [[b"1"], [b"2"], [b"3"]]

    def test_closed_at_accept(self, bench: Bench) -> None:
        """A close at accept counts as a failed attempt, so that the client backs off."""
        bench.endpoint.accept = Full

        outcome = bench.send(b"1")

        assert isinstance(outcome.error, NotConnected)
        assert bench.client.state is ClientState.BACKING_OFF
        assert bench.receivers[0].frames == []
        assert bench.counter.seen == ["connected", "disconnected", 1]

    def test_withdrawn_while_waiting(self, bench: Bench) -> None:
        """A cancelled payload is not sent."""
        first, second, third = bench.send(b"1"), bench.client.send(b"2"), bench.send(b"3")
        Outcome(second)
        second.cancel()
        bench.reply(b"AA 1")
        bench.reply(b"AA 3")

        assert bench.receivers[0].frames == [b"1", b"3"]
        assert (first.value, third.value) == (b"AA 1", b"AA 3")

    def test_withdrawn_at_the_last_moment(self, bench: Bench) -> None:
        """The connection stays, and is ready for the next."""
        reply = bench.client.send(b"1")
        Outcome(reply)
        reply.cancel()
        deliver_all(bench.clock)
        assert bench.client.state is ClientState.READY

        outcome = bench.send(b"2")
        bench.reply(b"AA 2")

        assert outcome.value == b"AA 2"
