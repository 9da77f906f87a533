"""The client without a connection sends nothing; in memory."""

from twisted.internet.defer import CancelledError

from mllp import NotConnected, ReplyLost
from mllp.exchange import ClientState
from mllp.testing import deliver_all
from tests.mllp.client_fixture import ClientHarness, ClosingReceiver, Outcome


class TestNotConnected:
    """No payload was sent, so sending it again cannot duplicate it."""

    def test_refused(self, harness: ClientHarness) -> None:
        """All queued payloads fail in order, with the cause."""
        harness.endpoint.refusing = True

        outcome = harness.send(b"1")

        assert isinstance(outcome.error, NotConnected)
        assert outcome.error.cause == "ConnectionRefusedError"

    def test_cancelling_from_a_failure(self, harness: ClientHarness) -> None:
        """A callback may cancel a later payload. The others still fail."""
        harness.endpoint.mute = True
        first, second = harness.client.send(b"1"), harness.client.send(b"2")
        withdrawn, third = Outcome(second), harness.send(b"3")
        first.addErrback(lambda _: second.cancel())

        harness.clock.advance(10)

        assert isinstance(withdrawn.error, CancelledError)
        assert isinstance(third.error, NotConnected)

    def test_connect_timeout(self, harness: ClientHarness) -> None:
        """The connection attempt ends after the connect time-out."""
        harness.endpoint.mute = True
        first, second = harness.send(b"1"), harness.send(b"2")
        assert first.pending

        harness.clock.advance(10)

        assert isinstance(first.error, NotConnected)
        assert isinstance(second.error, NotConnected)

    def test_backoff(self, harness: ClientHarness) -> None:
        """The client waits between attempts. Payloads sent meanwhile wait too."""
        harness.endpoint.refusing = True
        harness.send(b"1")
        waits = harness.send(b"2")
        harness.clock.advance(1.9)
        assert harness.endpoint.attempts == 1
        harness.clock.advance(0.1)
        assert harness.endpoint.attempts == 2
        assert isinstance(waits.error, NotConnected)

        harness.endpoint.refusing = False
        recovered = harness.send(b"3")
        harness.clock.advance(4)
        harness.reply(b"AA 3")

        assert recovered.value == b"AA 3"
        assert harness.observer.events == [1, 2, "connected"]

    def test_a_reply_resets_the_backoff(self, harness: ClientHarness) -> None:
        """A valid reply resets the count of failures."""
        harness.endpoint.refusing = True
        harness.send(b"1")
        harness.clock.advance(2)
        harness.endpoint.refusing = False
        harness.send(b"2")
        deliver_all(harness.clock)
        harness.reply(b"AA 2")
        harness.send(b"3")
        harness.clock.advance(30)
        harness.send(b"4")

        harness.clock.advance(2)

        assert harness.receivers[-1].frames == [b"4"]
        harness.reply(b"AA 4")

    def test_no_attempt_without_a_payload(self, harness: ClientHarness) -> None:
        harness.endpoint.refusing = True
        harness.send(b"1")

        harness.clock.advance(1000)

        assert harness.endpoint.attempts == 1

    def test_closed_while_idle(self, harness: ClientHarness) -> None:
        """The client notices the close before it sends, and uses a new connection."""
        harness.send(b"1")
        harness.reply(b"AA 1")
        harness.receivers[0].close()
        deliver_all(harness.clock)
        assert harness.client.state is ClientState.DISCONNECTED

        outcome = harness.send(b"2")
        harness.reply(b"AA 2")

        assert outcome.value == b"AA 2"
        assert len(harness.receivers) == 2

    def test_closed_while_sending(self, harness: ClientHarness) -> None:
        """The client notices a close in transit before the payload leaves."""
        harness.send(b"1")
        harness.reply(b"AA 1")
        harness.receivers[0].close()  # the close is in transit: the client does not know of it

        outcome = harness.send(b"2")
        harness.reply(b"AA 2")

        assert harness.receivers[0].frames == [b"1"]
        assert outcome.value == b"AA 2"

    def test_a_receiver_that_closes_after_each_reply(self, harness: ClientHarness) -> None:
        """After the first such close the client waits for it before it sends again."""
        outcomes = [harness.send(b"1"), harness.send(b"2"), harness.send(b"3")]
        harness.receivers[0].send(b"AA 1")
        harness.receivers[0].close()
        deliver_all(harness.clock)
        for number in (2, 3):
            harness.reply(b"AA %d" % number)
            harness.clock.advance(0.01)
            harness.receivers[-1].close()
            deliver_all(harness.clock)

        assert [one.value for one in outcomes] == [b"AA 1", b"AA 2", b"AA 3"]
        assert [one.frames for one in harness.receivers] == [[b"1"], [b"2"], [b"3"]]

    def test_a_receiver_that_closes_with_a_payload_in_flight(self, harness: ClientHarness) -> None:
        """After such a close the client waits for the next one, so that no other reply is lost."""
        for payload in (b"1", b"2"):
            harness.send(payload)
            harness.reply(b"AA " + payload)
        lost = harness.send(b"3")
        harness.receivers[0].close()
        deliver_all(harness.clock)
        assert isinstance(lost.error, ReplyLost)

        harness.clock.advance(2)
        fourth, fifth = harness.send(b"4"), harness.send(b"5")
        harness.reply(b"AA 4")
        harness.clock.advance(0.01)
        harness.receivers[1].close()
        deliver_all(harness.clock)
        harness.reply(b"AA 5")

        assert [one.frames for one in harness.receivers[1:]] == [[b"4"], [b"5"]]
        assert (fourth.value, fifth.value) == (b"AA 4", b"AA 5")

    def test_closed_at_accept(self, harness: ClientHarness) -> None:
        """A close at accept counts as a failed attempt, so the client backs off."""
        harness.endpoint.accept = ClosingReceiver

        outcome = harness.send(b"1")

        assert isinstance(outcome.error, NotConnected)
        assert harness.client.state is ClientState.BACKING_OFF
        assert harness.receivers[0].frames == []
        assert harness.observer.events == ["connected", "disconnected", 1]

    def test_cancelled_while_waiting(self, harness: ClientHarness) -> None:
        """The client does not send a cancelled payload."""
        first, second, third = harness.send(b"1"), harness.client.send(b"2"), harness.send(b"3")
        Outcome(second)
        second.cancel()
        harness.reply(b"AA 1")
        harness.reply(b"AA 3")

        assert harness.receivers[0].frames == [b"1", b"3"]
        assert (first.value, third.value) == (b"AA 1", b"AA 3")

    def test_cancelled_before_sending(self, harness: ClientHarness) -> None:
        """After the cancellation the connection stays open and sends the next payload."""
        reply = harness.client.send(b"1")
        Outcome(reply)
        reply.cancel()
        deliver_all(harness.clock)
        assert harness.client.state is ClientState.READY

        outcome = harness.send(b"2")
        harness.reply(b"AA 2")

        assert outcome.value == b"AA 2"
