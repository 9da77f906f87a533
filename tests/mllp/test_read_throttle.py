"""Large frames are read no faster than others can bear; small ones as fast as they come."""

import pytest
from twisted.internet.task import Clock

from mllp.contract import LARGE_FRAME_RATE, MIN_PAUSE_SECONDS, ReadThrottle
from tests.mllp.server_fixture import Desk, server_for

MEBIBYTE = 2**20
REST = MEBIBYTE / LARGE_FRAME_RATE  # seconds


def test_what_was_read_by_all_is_rested_for() -> None:
    """Rests of those who read together add up; a pause between them is no credit."""
    throttle = ReadThrottle(rate=1000)
    assert throttle.pause_after(100, 50.0) == pytest.approx(0.1)
    assert throttle.pause_after(100, 50.0) == pytest.approx(0.2)
    assert throttle.pause_after(100, 50.15) == pytest.approx(0.15)
    assert throttle.pause_after(100, 90.0) == pytest.approx(0.1)


def test_a_rest_too_short_is_put_off() -> None:
    """Until it is worth its timer."""
    throttle = ReadThrottle(rate=1.0)
    size = MIN_PAUSE_SECONDS * 0.6
    assert throttle.pause_after(size, 10.0) == 0.0  # type: ignore[arg-type]  # bytes, but at one a second
    assert throttle.pause_after(size, 10.0) == pytest.approx(2 * size)  # type: ignore[arg-type]  # as above


def test_a_large_frame_gives_way(clock: Clock, desk: Desk) -> None:
    """What follows of it is read after a while; others are read at once."""
    server = server_for(desk, clock)
    large, other = server.connect(), server.connect()
    large.write(b"\x0b" + b"x" * MEBIBYTE)
    large.write(b"\x1c\r")
    other.send(b"1")
    assert desk.payloads == [b"1"]

    clock.advance(REST * 1.1)

    assert desk.payloads == [b"1", b"x" * MEBIBYTE]


def test_the_rest_is_no_delay_of_the_senders(clock: Clock, desk: Desk) -> None:
    """The time that a frame may take does not run meanwhile, and runs on afterwards."""
    caller = server_for(desk, clock, frame_timeout=REST).connect()
    caller.write(b"\x0b" + b"x" * MEBIBYTE)
    clock.advance(REST * 1.5)
    caller.write(b"\x1c\r")
    assert desk.payloads == [b"x" * MEBIBYTE]
    desk.answer(0, b"A")

    caller.write(b"\x0b" + b"x" * MEBIBYTE)
    clock.advance(REST * 1.9)
    assert caller.frames == [b"A"]
    clock.advance(REST)
    assert caller.frames == [b"A", b"FrameTimedOut xxxx"]


def test_a_connection_that_ends_meanwhile(clock: Clock, desk: Desk) -> None:
    """Leaves nothing to be called."""
    caller = server_for(desk, clock).connect()
    caller.write(b"\x0b" + b"x" * MEBIBYTE)
    caller.reset()
    clock.advance(60)
    assert not clock.getDelayedCalls()


def test_twice_as_fast_where_nobody_else_sends() -> None:
    """Seen once a second; after a pause nobody knows who will come, so it begins anew."""
    throttle = ReadThrottle(rate=1000)
    assert throttle.pause_after(100, 50.0) == pytest.approx(0.1)
    assert throttle.pause_after(100, 51.0) == pytest.approx(0.05)
    throttle.ordinary_frames += 1
    assert throttle.pause_after(100, 51.9) == pytest.approx(0.05)
    assert throttle.pause_after(100, 52.0) == pytest.approx(0.1)
    assert throttle.pause_after(100, 53.0) == pytest.approx(0.05)
    assert throttle.pause_after(100, 60.0) == pytest.approx(0.1)
