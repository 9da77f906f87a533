"""The client: exchanges, lost replies, unexpected frames, close; in memory."""

from twisted.internet.defer import CancelledError

from mllp import LossReason, NotConnected, ReplyLost, Unframeable
from mllp.client import ClientState, MLLPClient
from mllp.testing import MemoryServer, answering, deliver_all
from tests.mllp.client_fixture import ClientHarness, ClosingReceiver, Outcome


class TestExchange:
    def test_a_reply(self, harness: ClientHarness) -> None:
        """The client returns the reply, and the connection stays open."""
        outcome = harness.send(b"1")
        assert outcome.pending

        harness.reply(b"AA 1")

        assert outcome.value == b"AA 1"
        assert harness.client.state is ClientState.READY

    def test_one_in_flight(self, harness: ClientHarness) -> None:
        """The client sends the next payload after the reply, on the same connection."""
        first, second = harness.send(b"1"), harness.send(b"2")
        assert harness.receivers[0].frames == [b"1"]
        assert harness.client.waiting == 1

        harness.reply(b"AA 1")
        assert harness.receivers[0].frames == [b"1", b"2"]
        harness.reply(b"AA 2")

        assert (first.value, second.value) == (b"AA 1", b"AA 2")
        assert len(harness.receivers) == 1

    def test_padding_around_the_reply(self, harness: ClientHarness) -> None:
        """The client counts and ignores bytes around the reply."""
        outcome = harness.send(b"1")

        harness.write(b"\0\0\x0bAA 1\x1c\r\r\n")

        assert outcome.value == b"AA 1"
        assert ("noise", 2) in harness.observer.events
        assert harness.client.state is ClientState.READY

    def test_a_large_reply_in_pieces(self, harness: ClientHarness) -> None:
        """A large reply that arrives in pieces is complete."""
        outcome = harness.send(b"1")
        for byte in b"\x0bAA 1\x1c\r":
            harness.write(bytes([byte]))

        assert outcome.value == b"AA 1"

    def test_a_commit_block_is_not_the_reply(self, harness: ClientHarness) -> None:
        """MLLP release 2: a commit ACK means that the payload is stored. The reply follows."""
        outcome = harness.send(b"1")
        harness.reply(b"\x06")
        assert outcome.pending

        harness.reply(b"AA 1")

        assert outcome.value == b"AA 1"

    def test_a_commit_block_extends_the_time_limit(self, harness: ClientHarness) -> None:
        """The time limit of the reply begins again when the payload is stored."""
        outcome = harness.send(b"1")
        harness.clock.advance(20)
        harness.reply(b"\x06")
        harness.clock.advance(29)
        assert outcome.pending

        harness.reply(b"AA 1")

        assert outcome.value == b"AA 1"

    def test_repeated_commit_blocks(self, harness: ClientHarness) -> None:
        """A second commit block does not extend the time limit of the reply: it is no reply."""
        outcome = harness.send(b"1")
        harness.reply(b"\x06")
        harness.reply(b"\x06")
        assert isinstance(outcome.error, ReplyLost)
        assert outcome.error.reason is LossReason.GARBAGE

    def test_a_negative_commit_block(self, harness: ClientHarness) -> None:
        """A commit NAK means that the payload was not stored, so it must be sent again."""
        server = MemoryServer(answering(lambda _: [b"\x15"]))
        any_reply = MLLPClient(server.endpoint, clock=server.clock, backoff=lambda _: 1.0)
        outcomes = [harness.send(b"1"), Outcome(any_reply.send(b"1"))]

        harness.reply(b"\x15")
        deliver_all(server.clock)

        for outcome in outcomes:
            assert isinstance(outcome.error, ReplyLost)
            assert outcome.error.reason is LossReason.GARBAGE
        any_reply.close()

    def test_sending_from_the_callback(self, harness: ClientHarness) -> None:
        """The callback of a reply may send the next payload."""
        later: list[Outcome] = []
        first = harness.client.send(b"1")
        first.addCallback(lambda _: later.append(Outcome(harness.client.send(b"2"))))
        deliver_all(harness.clock)
        harness.reply(b"AA 1")
        harness.reply(b"AA 2")

        assert later[0].value == b"AA 2"

    def test_an_unframeable_payload(self, harness: ClientHarness) -> None:
        """The client refuses a payload with frame bytes at once, and sends the others."""
        outcome = harness.send(b"A\x1c\rB")

        assert isinstance(outcome.error, Unframeable)
        assert not harness.receivers


class TestReplyLost:
    """After a lost reply the client closes the connection to ignore late replies."""

    def lost(self, harness: ClientHarness, outcome: Outcome, reason: LossReason) -> None:
        deliver_all(harness.clock)
        assert isinstance(outcome.error, ReplyLost)
        assert outcome.error.reason is reason
        assert harness.receivers[-1].closed
        assert harness.client.state is ClientState.BACKING_OFF

    def test_silence(self, harness: ClientHarness) -> None:
        outcome = harness.send(b"1")
        harness.clock.advance(29)
        assert outcome.pending

        harness.clock.advance(1)

        self.lost(harness, outcome, LossReason.TIMEOUT)

    def test_half_a_reply(self, harness: ClientHarness) -> None:
        """A partial reply is lost after the reply time-out, and counts as bytes without an end."""
        outcome = harness.send(b"1")
        harness.write(b"\x0bAA")
        harness.clock.advance(20)
        harness.write(b" 1")

        harness.clock.advance(10)

        self.lost(harness, outcome, LossReason.UNFRAMED)

    def test_a_close(self, harness: ClientHarness) -> None:
        """The receiver closes the connection without a reply."""
        outcome = harness.send(b"1")
        harness.receivers[0].close()

        self.lost(harness, outcome, LossReason.CLOSED)

    def test_a_cut(self, harness: ClientHarness) -> None:
        """The connection closes within the reply."""
        outcome = harness.send(b"1")
        harness.write(b"\x0bAA")
        harness.receivers[0].reset()

        self.lost(harness, outcome, LossReason.UNFRAMED)

    def test_a_reply_to_another_payload(self, harness: ClientHarness) -> None:
        outcome = harness.send(b"1")
        harness.reply(b"AA 7")

        self.lost(harness, outcome, LossReason.MISMATCH)

    def test_an_unreadable_reply(self, harness: ClientHarness) -> None:
        """An error in the matcher counts as no match."""
        outcome = harness.send(b"1")
        harness.reply(b"UNREADABLE")

        self.lost(harness, outcome, LossReason.GARBAGE)

    def test_a_truncated_reply(self, harness: ClientHarness) -> None:
        """Two joined replies do not count as a reply."""
        outcome = harness.send(b"1")
        harness.write(b"\x0bAA\x0bAA 1\x1c\r")

        self.lost(harness, outcome, LossReason.GARBAGE)

    def test_a_second_reply(self, harness: ClientHarness) -> None:
        """The client ignores a second reply, also in the same packet."""
        outcome = harness.send(b"1")
        harness.write(b"\x0bAA 7\x1c\r\x0bAA 1\x1c\r")

        self.lost(harness, outcome, LossReason.MISMATCH)
        assert "unexpected" not in harness.observer.events

    def test_an_endless_reply(self, harness: ClientHarness) -> None:
        """A reply longer than the frame limit is lost."""
        outcome = harness.send(b"1")
        harness.write(b"\x0b" + b"A" * 2000)

        self.lost(harness, outcome, LossReason.GARBAGE)

    def test_a_late_reply(self, harness: ClientHarness) -> None:
        """The client ignores later bytes of the old connection."""
        first, second = harness.send(b"1"), harness.send(b"2")
        old = harness.receivers[0]
        harness.clock.advance(30)
        old.send(b"AA 2")
        deliver_all(harness.clock)
        assert isinstance(first.error, ReplyLost)
        assert second.pending

        harness.clock.advance(2)
        assert harness.receivers[1].frames == [b"2"]
        harness.reply(b"AA 2")

        assert second.value == b"AA 2"

    def test_cancelled_in_flight(self, harness: ClientHarness) -> None:
        """Cancelling a payload in flight closes the connection to ignore the late reply."""
        reply = harness.client.send(b"1")
        Outcome(reply)
        deliver_all(harness.clock)

        reply.cancel()
        deliver_all(harness.clock)

        assert harness.receivers[0].closed
        assert harness.client.state is ClientState.BACKING_OFF


class TestNothingInFlight:
    """The receiver sends data without a payload in flight."""

    def test_an_unexpected_frame(self, harness: ClientHarness) -> None:
        """An unexpected frame closes the connection, so that it is not used as the next reply."""
        first = harness.send(b"1")
        harness.receivers[0].send(b"AA 1", b"AA 2")
        deliver_all(harness.clock)
        assert first.value == b"AA 1"
        assert "unexpected" in harness.observer.events
        assert harness.receivers[0].closed

        second = harness.send(b"2")
        assert second.pending
        harness.reply(b"AA 2")

        assert second.value == b"AA 2"

    def test_an_endless_frame(self, harness: ClientHarness) -> None:
        """An endless frame closes the connection."""
        harness.send(b"1")
        harness.reply(b"AA 1")

        harness.write(b"\x0b" + b"A" * 2000)

        assert harness.receivers[0].closed
        assert harness.client.state is ClientState.DISCONNECTED


class TestClose:
    def test_with_a_payload_in_flight(self, harness: ClientHarness) -> None:
        """The payload in flight is lost. The queued payloads were not sent."""
        first, second = harness.send(b"1"), harness.send(b"2")

        harness.client.close()
        deliver_all(harness.clock)

        assert isinstance(first.error, ReplyLost)
        assert isinstance(second.error, NotConnected)
        assert harness.receivers[0].closed

    def test_while_connecting(self, harness: ClientHarness) -> None:
        """The client cancels the connection attempt."""
        harness.endpoint.mute = True
        outcome = harness.send(b"1")

        harness.client.close()

        assert isinstance(outcome.error, NotConnected)

    def test_afterwards(self, harness: ClientHarness) -> None:
        """A closed client sends nothing."""
        harness.client.close()

        assert isinstance(harness.send(b"1").error, NotConnected)


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
