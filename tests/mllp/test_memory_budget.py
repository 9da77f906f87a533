"""The memory budget of frames, and the pauses of large ones."""

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from mllp import FrameMemoryExhausted, TooMuchNoise
from mllp.contract import ServerLimits
from mllp.limits import (
    LARGE_FRAME_RATE,
    MIN_PAUSE_SECONDS,
    RESERVE,
    FrameBudget,
    MemoryAccount,
    ReadThrottle,
)
from mllp.server import MAX_NOISE, MLLPServerFactory
from mllp.testing import MemoryCaller, connect_protocols, deliver_all
from tests.mllp.server_fixture import ManualHandler, RecordingObserver, refusal_reply, server_for

LIMIT = 8 * RESERVE
PIECE = b"x" * RESERVE


class ServiceHarness:
    def __init__(
        self, clock: Clock, handler: ManualHandler, observer: RecordingObserver, **limits: float
    ) -> None:
        self.clock = clock
        self.budget = FrameBudget(LIMIT)
        self.factory = MLLPServerFactory(
            handler,
            ServerLimits(max_frame=6 * RESERVE, **limits),  # type: ignore[arg-type]  # as in server_for
            clock=clock,
            observer=observer,
            on_unframed=refusal_reply,
            budget=self.budget,
        )

    def call(self, host: str = "192.0.2.1") -> MemoryCaller:
        caller = MemoryCaller(self.clock)
        address: Any = IPv4Address("TCP", host, 1)
        connect_protocols(self.clock, self.factory.buildProtocol(address), caller)
        deliver_all(self.clock)
        return caller

    def begin(self, host: str, pieces: int) -> MemoryCaller:
        caller = self.call(host)
        caller.write(b"\x0bMSH|")
        self.add(caller, pieces)
        return caller

    def add(self, caller: MemoryCaller, pieces: int) -> None:
        for _ in range(pieces):
            caller.write(PIECE)
            self.clock.advance(0.1)


@pytest.fixture
def harness(
    clock: Clock, handler: ManualHandler, observer: RecordingObserver
) -> Iterator[ServiceHarness]:
    """A server with a budget. At the end all frames have timed out, and all memory is released."""
    harness = ServiceHarness(clock, handler, observer)
    yield harness
    for _ in range(60):
        clock.advance(1)
        for reply in handler.replies:
            if not reply.called:
                reply.callback([b"A"])
    assert (harness.budget.used, harness.budget.waiting) == (0, 0)


def test_ordinary_messages_never_wait(harness: ServiceHarness, handler: ManualHandler) -> None:
    """Small messages are read while others hold the budget, also from the same address."""
    connections = [harness.begin(f"192.0.2.{number % 2}", 5) for number in range(20)]
    assert harness.budget.waiting

    for host in ("192.0.2.1", "192.0.2.99"):
        harness.call(host).send(b"ORDER" * 1000)

    assert len(handler.payloads) == 2
    assert len(connections) == 20


def test_the_limit_holds(harness: ServiceHarness) -> None:
    """The budget exceeds the limit only by the last read of each connection and one frame."""
    for number in range(30):
        harness.begin(f"192.0.2.{number}", 5)

    assert harness.budget.used <= LIMIT + 6 * RESERVE


def test_a_source_uses_its_share(harness: ServiceHarness, handler: ManualHandler) -> None:
    """A source that uses its share does not delay frames of another address."""
    for _ in range(9):
        harness.begin("192.0.2.1", 5)

    other = harness.begin("192.0.2.2", 3)
    other.write(b"\x1c\r")

    assert len(handler.frames) == 1


def test_waiting_frames_continue(harness: ServiceHarness, handler: ManualHandler) -> None:
    """Waiting frames continue in order of arrival when others are answered. All are handled."""
    callers = [harness.begin("192.0.2.1", 2) for _ in range(8)]
    assert harness.budget.waiting
    for caller in callers:
        caller.write(b"\x1c\r")
    answered = 0
    while answered < len(handler.replies):
        handler.reply(answered, b"A")
        answered += 1
        harness.clock.advance(0.1)

    assert answered == 8
    assert [item.frames for item in callers] == [[b"A"]] * 8
    assert (harness.budget.used, harness.budget.waiting) == (0, 0)


def test_a_waiting_frame_times_out(harness: ServiceHarness, observer: RecordingObserver) -> None:
    """A frame that gets no memory times out and is refused. All memory is released."""
    callers = [harness.begin("192.0.2.1", 4) for _ in range(6)]
    for caller in callers[:2]:
        caller.write(b"\x1c\r")
    waiting = harness.budget.waiting
    for _ in range(30):
        harness.clock.advance(1)

    assert waiting >= 4
    assert observer.events.count(("frame refused", FrameMemoryExhausted)) == 4
    assert [item.closed for item in callers] == [False] * 2 + [True] * 4


def test_a_pause_of_the_listener_does_not_end_the_time_limit(
    harness: ServiceHarness, observer: RecordingObserver
) -> None:
    """A frame that waits for memory times out also after its listener was paused and resumed."""
    callers = [harness.begin("192.0.2.1", 4) for _ in range(6)]
    for caller in callers[:2]:
        caller.write(b"\x1c\r")
    harness.factory.pause()
    harness.factory.resume()
    for _ in range(30):
        harness.clock.advance(1)

    assert observer.events.count(("frame refused", FrameMemoryExhausted)) == 4


def accounts(budget: FrameBudget, number: int) -> tuple[list[MemoryAccount], list[int]]:
    """Open accounts of different sources; return them, and a list of those that are resumed."""
    resumed: list[int] = []

    def account(place: int) -> MemoryAccount:
        return budget.account(str(place), resume=lambda: resumed.append(place), refuse=lambda: None)

    return [account(place) for place in range(number)], resumed


def test_the_connection_beyond_the_limit_is_replaced() -> None:
    """When the connection that continues beyond the limit has ended, another one continues."""
    (*holders, first, second), resumed = accounts(FrameBudget(4 * RESERVE), 4)
    assert all(holder.report(3 * RESERVE, 0) for holder in holders)
    assert first.report(2 * RESERVE, 0)  # beyond the limit
    assert not second.report(2 * RESERVE, 0)

    first.close()

    assert resumed == [3]


def test_released_memory_is_given_once() -> None:
    """As many connections are resumed as the released memory has room for their next reads."""
    (*holders, first, second, third), resumed = accounts(FrameBudget(6 * RESERVE), 5)
    assert all(holder.report(4 * RESERVE, 0) for holder in holders)
    assert first.report(RESERVE + 1, 0)  # beyond the limit
    assert not any(item.report(RESERVE + 1, 0) for item in (second, third))

    holders[0].report(3 * RESERVE, 0)

    assert resumed == [3]


def test_several_sources_use_the_budget(
    harness: ServiceHarness, handler: ManualHandler, observer: RecordingObserver
) -> None:
    """A source with little use gets the memory of the largest frame of the heaviest source."""
    for host in ("192.0.2.1", "192.0.2.2"):
        for _ in range(4):
            harness.begin(host, 5)
    assert harness.budget.used > LIMIT

    other = harness.begin("192.0.2.3", 2)
    other.write(b"\x1c\r")

    assert len(handler.frames) == 1
    assert ("frame refused", FrameMemoryExhausted) in observer.events


def test_unanswered_frames_count(harness: ServiceHarness, handler: ManualHandler) -> None:
    """The server stops reading a sender of large frames whose replies are pending."""
    callers = [harness.call() for _ in range(6)]
    for caller in callers:
        for _ in range(5):
            caller.send(PIECE)
            harness.clock.advance(0.1)
    assert len(handler.frames) < 30
    assert harness.budget.used <= LIMIT + 6 * RESERVE

    while any(not item.called for item in handler.replies):
        for reply in handler.replies:
            if not reply.called:
                reply.callback([b"A"])
        harness.clock.advance(0.1)

    assert len(handler.frames) == 30
    assert harness.budget.used == 0


def test_a_closed_connection(harness: ServiceHarness, handler: ManualHandler) -> None:
    """A closed connection releases its open frame at once, and an unanswered frame on reply."""
    harness.begin("192.0.2.1", 4).reset()
    assert harness.budget.used == 0

    caller = harness.begin("192.0.2.1", 4)
    caller.write(b"\x1c\r")
    caller.reset()
    assert harness.budget.used > 0
    handler.reply(0, b"A")

    assert harness.budget.used == 0


def test_a_refused_frame_keeps_no_memory(harness: ServiceHarness, handler: ManualHandler) -> None:
    """A refused frame releases its memory, also while an earlier reply is pending."""
    caller = harness.call()
    caller.send(b"1")
    caller.write(b"\x0bMSH|")
    harness.add(caller, 7)  # longer than max_frame
    deliver_all(harness.clock)

    assert harness.budget.used == 0
    handler.reply(0, b"A")
    harness.clock.advance(3)
    assert caller.frames == [b"A", b"FrameTooLarge MSH|"]


def test_endless_noise(
    harness: ServiceHarness, observer: RecordingObserver, handler: ManualHandler
) -> None:
    """A connection is closed after a mebibyte of noise. Less between frames is allowed."""
    caller = harness.call()
    for _ in range(3):
        caller.write(b"x" * (MAX_NOISE // 2))
        caller.send(b"1")
    assert handler.payloads == [b"1"] * 3
    assert ("frame refused", TooMuchNoise) not in observer.events

    other = harness.call()
    for _ in range(3):
        other.write(b"x" * (MAX_NOISE // 2))
    harness.clock.advance(3)

    assert other.closed
    assert not caller.closed
    assert ("frame refused", TooMuchNoise) in observer.events


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
