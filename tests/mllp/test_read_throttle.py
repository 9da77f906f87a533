"""The server throttles the reading of large frames. It reads small frames without a delay."""

import pytest
from twisted.internet.task import Clock

from mllp.limits import LARGE_FRAME_RATE, MIN_PAUSE_SECONDS, ReadThrottle
from tests.mllp.server_fixture import ManualHandler, server_for

MEBIBYTE = 2**20
PAUSE = MEBIBYTE / LARGE_FRAME_RATE  # seconds


def test_pauses_add_up() -> None:
    """Pauses of concurrent readers add up. Idle time gives no credit."""
    throttle = ReadThrottle(rate=1000)
    assert throttle.pause_after(100, 50.0) == pytest.approx(0.1)
    assert throttle.pause_after(100, 50.0) == pytest.approx(0.2)
    assert throttle.pause_after(100, 50.15) == pytest.approx(0.15)
    assert throttle.pause_after(100, 90.0) == pytest.approx(0.1)


def test_a_short_pause_is_postponed() -> None:
    """A pause shorter than the minimum is added to the next one."""
    throttle = ReadThrottle(rate=1.0)
    size = MIN_PAUSE_SECONDS * 0.6
    assert throttle.pause_after(size, 10.0) == 0.0  # type: ignore[arg-type]  # bytes, but at one a second
    assert throttle.pause_after(size, 10.0) == pytest.approx(2 * size)  # type: ignore[arg-type]  # as above


def test_a_large_frame_gives_way(clock: Clock, handler: ManualHandler) -> None:
    """The rest of a large frame is read after a pause. Other connections are read at once."""
    server = server_for(handler, clock)
    large, other = server.connect(), server.connect()
    large.write(b"\x0b" + b"x" * MEBIBYTE)
    large.write(b"\x1c\r")
    other.send(b"1")
    assert handler.payloads == [b"1"]

    clock.advance(PAUSE * 1.1)

    assert handler.payloads == [b"1", b"x" * MEBIBYTE]


def test_a_pause_stops_the_frame_timeout(clock: Clock, handler: ManualHandler) -> None:
    """The frame time-out stops during a pause, and continues afterwards."""
    caller = server_for(handler, clock, frame_timeout=PAUSE).connect()
    caller.write(b"\x0b" + b"x" * MEBIBYTE)
    clock.advance(PAUSE * 1.5)
    caller.write(b"\x1c\r")
    assert handler.payloads == [b"x" * MEBIBYTE]
    handler.reply(0, b"A")

    caller.write(b"\x0b" + b"x" * MEBIBYTE)
    clock.advance(PAUSE * 1.9)
    assert caller.frames == [b"A"]
    clock.advance(PAUSE)
    assert caller.frames == [b"A", b"FrameTimedOut xxxx"]


def test_a_close_during_a_pause(clock: Clock, handler: ManualHandler) -> None:
    """A connection that closes during a pause leaves no pending call."""
    caller = server_for(handler, clock).connect()
    caller.write(b"\x0b" + b"x" * MEBIBYTE)
    caller.reset()
    clock.advance(60)
    assert not clock.getDelayedCalls()


def test_double_rate_without_other_senders() -> None:
    """Without other senders the rate doubles, checked once a second. Idle time resets it."""
    throttle = ReadThrottle(rate=1000)
    assert throttle.pause_after(100, 50.0) == pytest.approx(0.1)
    assert throttle.pause_after(100, 51.0) == pytest.approx(0.05)
    throttle.ordinary_frames += 1
    assert throttle.pause_after(100, 51.9) == pytest.approx(0.05)
    assert throttle.pause_after(100, 52.0) == pytest.approx(0.1)
    assert throttle.pause_after(100, 53.0) == pytest.approx(0.05)
    assert throttle.pause_after(100, 60.0) == pytest.approx(0.1)
