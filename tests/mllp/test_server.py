"""The server: frames and replies, the window, failures and closes; in memory."""

from twisted.internet.task import Clock

from mllp import Frame, TruncatedFrame
from mllp.contract import Peer, ReplyCallback, ServerLimits
from mllp.errors import FramingError
from mllp.testing import MemoryCaller, MemoryServer, deliver_all
from tests.mllp.server_fixture import Counter, Desk, echo, server_for


class TestFramesAndReplies:
    """Frames and replies."""

    def test_one(self, clock: Clock) -> None:
        """A frame gets its reply."""
        assert MemoryServer(echo, clock=clock).connect().exchange(b"ONE") == [b"one"]

    def test_many_at_once_with_noise_between(self, clock: Clock, counter: Counter) -> None:
        """Every frame is answered, and noise is counted."""
        caller = MemoryServer(echo, clock=clock, observer=counter).connect()

        caller.write(b"\r\n\x0bONE\x1c\r\0\0\0\x0bTWO\x1c\r")

        assert caller.frames == [b"one", b"two"]
        assert counter.seen == [("opened", 1), ("noise", 2), ("noise", 3)]

    def test_a_commit_block_is_not_answered(self, clock: Clock, counter: Counter) -> None:
        """Peers with MLLP release 2 send one for each reply: it counts as noise."""
        caller = MemoryServer(echo, clock=clock, observer=counter).connect()

        caller.write(b"\x0b\x06\x1c\r")
        caller.send(b"\x06", b"ONE", b"\x15")

        assert caller.frames == [b"one"]
        assert counter.seen == [("opened", 1), *[("noise", 1)] * 3]

    def test_frames_that_arrive_together_are_handed_over_together(
        self, clock: Clock, desk: Desk
    ) -> None:
        """Frames are handed over without waiting for earlier replies: they share a commit."""
        server_for(desk, clock).connect().send(b"1", b"2", b"3")

        assert desk.payloads == [b"1", b"2", b"3"]

    def test_replies_keep_the_order_of_the_frames(self, clock: Clock, desk: Desk) -> None:
        """In whatever order they become ready."""
        caller = server_for(desk, clock).connect()
        caller.send(b"1", b"2", b"3")

        desk.answer(2, b"C")
        desk.answer(1, b"B")
        deliver_all(clock)
        assert caller.received == b""
        desk.answer(0, b"A")
        deliver_all(clock)

        assert caller.frames == [b"A", b"B", b"C"]

    def test_no_reply_and_two_replies(self, clock: Clock, desk: Desk) -> None:
        """A handler may answer nothing, or twice."""
        caller = server_for(desk, clock).connect()
        caller.send(b"1", b"2")

        desk.answer(0)
        desk.answer(1, b"CA", b"AA")
        deliver_all(clock)

        assert caller.frames == [b"CA", b"AA"]

    def test_a_truncated_frame_is_the_handlers_to_refuse(self, clock: Clock, desk: Desk) -> None:
        """It marks the frame as truncated."""
        server_for(desk, clock).connect().write(b"\x0bONE\x0bTWO\x1c\r")

        assert desk.frames == [Frame(b"ONE\x0bTWO", truncated=True)]

    def test_a_frame_out_of_turn(self, clock: Clock, desk: Desk) -> None:
        """A later message can be sent while the connection is open."""
        caller = server_for(desk, clock).connect()
        caller.send(b"1")
        desk.answer(0, b"CA")
        deliver_all(clock)

        assert desk.peers[0].send(b"AA")
        deliver_all(clock)
        assert caller.frames == [b"CA", b"AA"]

        caller.close()
        assert not desk.peers[0].send(b"AA")
        deliver_all(clock)

    def test_a_thousand_small_frames_in_one_packet(self, clock: Clock) -> None:
        """A handler that answers at once does not recurse."""
        caller = MemoryServer(echo, ServerLimits(window=2), clock=clock).connect()

        caller.send(*[b"X"] * 5000)

        assert len(caller.frames) == 5000


class TestWindow:
    """Back-pressure: beyond the window nothing is read."""

    def test_reading_pauses_and_goes_on(self, clock: Clock, desk: Desk) -> None:
        """Further frames wait and are handed over in order."""
        caller = server_for(desk, clock, window=2).connect()
        caller.send(b"1", b"2", b"3")
        assert desk.payloads == [b"1", b"2"]
        assert caller.transport.other is not None
        assert not caller.transport.other.reading

        desk.answer(0, b"A")
        deliver_all(clock)

        assert desk.payloads == [b"1", b"2", b"3"]
        desk.answer(1, b"B")
        desk.answer(2, b"C")
        deliver_all(clock)
        assert caller.frames == [b"A", b"B", b"C"]
        assert caller.transport.other.reading

    def test_a_peer_that_takes_no_replies_is_not_read(
        self, clock: Clock, desk: Desk, counter: Counter
    ) -> None:
        """It is closed after the write timeout."""
        caller = server_for(desk, clock, counter, write_timeout=60).connect()
        server_end = caller.transport.other
        assert server_end is not None
        server_end.stall()
        caller.send(b"1")
        assert not desk.frames

        server_end.flow()
        deliver_all(clock)
        assert desk.payloads == [b"1"]

        server_end.stall()
        clock.advance(61)
        assert caller.closed
        assert counter.seen == [("opened", 1), ("dropped", 1), ("closed", 1)]


class TestFailures:
    """A failed frame blocks later replies."""

    def test_a_failure_closes_without_a_reply(
        self, clock: Clock, desk: Desk, counter: Counter
    ) -> None:
        """Earlier frames are answered, later ones are not."""
        caller = server_for(desk, clock, counter).connect()
        caller.send(b"1", b"2", b"3")

        desk.answers[1].errback(ValueError("SECRET"))
        desk.answer(2, b"C")
        deliver_all(clock)
        assert not caller.closed
        desk.answer(0, b"A")
        deliver_all(clock)
        caller.close()

        assert caller.frames == [b"A"]
        assert counter.seen == [
            ("opened", 1),
            ("failed", "ValueError"),
            ("dropped", 2),
            ("closed", 1),
        ]

    def test_a_handler_that_raises(self, clock: Clock, counter: Counter) -> None:
        """An exception counts as a failure."""

        def broken(arrived: Frame, peer: Peer, reply: ReplyCallback) -> None:
            raise KeyError(arrived.payload)

        caller = MemoryServer(broken, clock=clock, observer=counter).connect()
        caller.send(b"1")
        caller.close()

        assert caller.received == b""
        assert ("failed", "KeyError") in counter.seen

    def test_the_peer_goes_while_frames_are_in_hand(
        self, clock: Clock, desk: Desk, counter: Counter
    ) -> None:
        """The handler may finish; its replies are dropped and counted."""
        caller = server_for(desk, clock, counter).connect()
        caller.send(b"1", b"2")

        caller.reset()
        desk.answer(0, b"A")
        desk.answer(1, b"B")

        assert counter.seen == [("opened", 1), ("dropped", 2), ("closed", 1)]


class TestEnds:
    """Closing connections: replies are still sent."""

    def test_half_close(self, clock: Clock, desk: Desk) -> None:
        """A sender that half-closes gets its replies, then the close."""
        caller = server_for(desk, clock).connect()
        caller.send(b"1", b"2")
        caller.end_writing()
        assert not caller.closed

        desk.answer(0, b"A")
        desk.answer(1, b"B")
        deliver_all(clock)

        assert caller.frames == [b"A", b"B"]
        assert caller.closed

    def test_half_close_with_more_than_a_window(self, clock: Clock, desk: Desk) -> None:
        """Waiting frames are handed over also after the end of the stream."""
        caller = server_for(desk, clock, window=1).connect()
        caller.send(b"1", b"2", b"3")
        caller.end_writing()

        for number in range(3):
            desk.answer(number, b"%d" % number)
            deliver_all(clock)

        assert caller.frames == [b"0", b"1", b"2"]
        assert caller.closed

    def test_an_end_inside_a_frame(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """The partial frame is only reported to the observer."""
        caller = server_for(desk, clock, counter).connect()
        caller.write(b"\x0bHALF")
        caller.close()

        assert not desk.frames
        assert counter.seen == [("opened", 1), ("frame refused", TruncatedFrame), ("closed", 1)]

    def test_a_cut_inside_a_frame(self, clock: Clock, desk: Desk, counter: Counter) -> None:
        """The same after a reset."""
        caller = server_for(desk, clock, counter).connect()
        caller.write(b"\x0bHALF")
        caller.reset()

        assert counter.seen == [("opened", 1), ("frame refused", TruncatedFrame), ("closed", 1)]


def test_what_was_broken_off_is_told_and_not_answered(clock: Clock) -> None:
    """The sender gets no answer; the handler of abandoned frames gets the head."""
    told: list[tuple[str, bytes]] = []

    def note(error: FramingError, head: bytes) -> bytes:
        told.append((type(error).__name__, head))
        return b"NAK"

    server = MemoryServer(echo, clock=clock, on_unframed=note)
    closed, reset = server.connect(), server.connect()
    closed.write(b"\x0bHALF")
    closed.close()
    reset.write(b"\x0bTORN")
    reset.reset()
    assert told == [("TruncatedFrame", b"HALF"), ("TruncatedFrame", b"TORN")]
    assert (closed.frames, reset.frames) == ([], [])


def test_every_connection_has_a_number_and_an_address(clock: Clock, desk: Desk) -> None:
    """Numbers are never used twice."""
    server = server_for(desk, clock)
    first: MemoryCaller = server.connect()
    first.send(b"1")
    first.close()
    server.connect().send(b"2")

    assert [peer.connection_id for peer in desk.peers] == [1, 2]
    assert desk.peers[0].host == "192.0.2.7"
    assert desk.peers[0].port == 49152
