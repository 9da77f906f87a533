"""The memory of unfinished and unanswered frames: who waits, who is refused, who never notices."""

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from mllp import FrameMemoryExhausted, TooMuchNoise
from mllp.contract import ServerLimits
from mllp.memory_budget import RESERVE, FrameBudget
from mllp.server import MLLPServerFactory
from mllp.session import MOST_NOISE
from mllp.testing import MemoryCaller, connect_protocols, deliver_all
from tests.mllp.server_fixture import Counter, Desk, farewell

LIMIT = 8 * RESERVE
PIECE = b"x" * RESERVE


class ServiceHarness:
    """A server whose budget is small, and callers from several addresses."""

    def __init__(self, clock: Clock, desk: Desk, counter: Counter, **limits: float) -> None:
        self.clock = clock
        self.budget = FrameBudget(LIMIT)
        self.factory = MLLPServerFactory(
            desk,
            ServerLimits(max_frame=6 * RESERVE, **limits),  # type: ignore[arg-type]  # as in desk
            clock=clock,
            observer=counter,
            on_unframed=farewell,
            budget=self.budget,
        )

    def call(self, host: str = "192.0.2.1") -> MemoryCaller:
        """Connect from an address."""
        caller = MemoryCaller(self.clock)
        address: Any = IPv4Address("TCP", host, 1)
        connect_protocols(self.clock, self.factory.buildProtocol(address), caller)
        deliver_all(self.clock)
        return caller

    def begin(self, host: str, pieces: int) -> MemoryCaller:
        """Send the beginning of a frame."""
        caller = self.call(host)
        caller.write(b"\x0bMSH|")
        self.add(caller, pieces)
        return caller

    def add(self, caller: MemoryCaller, pieces: int) -> None:
        """Go on with it, as sockets do: some at a time."""
        for _ in range(pieces):
            caller.write(PIECE)
            self.clock.advance(0.1)


@pytest.fixture
def ward(clock: Clock, desk: Desk, counter: Counter) -> Iterator[ServiceHarness]:
    """A server with a budget; at the end its frames have timed out, and all memory is back."""
    ward = ServiceHarness(clock, desk, counter)
    yield ward
    for _ in range(60):
        clock.advance(1)
        for each in desk.answers:
            if not each.called:
                each.callback([b"A"])
    assert (ward.budget.used, ward.budget.waiting) == (0, 0)


def test_ordinary_messages_never_wait(ward: ServiceHarness, desk: Desk) -> None:
    """However much others hold; not even from the address that holds it."""
    crowd = [ward.begin(f"192.0.2.{number % 2}", 5) for number in range(20)]
    assert ward.budget.waiting

    for host in ("192.0.2.1", "192.0.2.99"):
        ward.call(host).send(b"ORDER" * 1000)

    assert len(desk.payloads) == 2
    assert len(crowd) == 20


def test_the_limit_holds(ward: ServiceHarness) -> None:
    """Beyond it are only the last read of each connection and one frame that may go on."""
    for number in range(30):
        ward.begin(f"192.0.2.{number}", 5)

    assert ward.budget.used <= LIMIT + 6 * RESERVE


def test_a_source_uses_its_share(ward: ServiceHarness, desk: Desk) -> None:
    """Frames of another address are read as ever."""
    for _ in range(9):
        ward.begin("192.0.2.1", 5)

    other = ward.begin("192.0.2.2", 3)
    other.write(b"\x1c\r")

    assert len(desk.frames) == 1


def test_who_waits_goes_on(ward: ServiceHarness, desk: Desk) -> None:
    """As soon as others are answered, in the order of their coming; all are taken in the end."""
    callers = [ward.begin("192.0.2.1", 2) for _ in range(8)]
    assert ward.budget.waiting
    for caller in callers:
        caller.write(b"\x1c\r")
    answered = 0
    while answered < len(desk.answers):
        desk.answer(answered, b"A")
        answered += 1
        ward.clock.advance(0.1)

    assert answered == 8
    assert [each.frames for each in callers] == [[b"A"]] * 8
    assert (ward.budget.used, ward.budget.waiting) == (0, 0)


def test_waiting_ends_with_the_time_limit_of_the_frame(
    ward: ServiceHarness, counter: Counter
) -> None:
    """A frame that found no memory is refused, and all memory comes back."""
    callers = [ward.begin("192.0.2.1", 4) for _ in range(6)]
    for caller in callers[:2]:
        caller.write(b"\x1c\r")
    waiting = ward.budget.waiting
    for _ in range(30):
        ward.clock.advance(1)

    assert waiting >= 4
    assert counter.seen.count(("frame refused", FrameMemoryExhausted)) == 4
    assert [each.closed for each in callers] == [False] * 2 + [True] * 4


def test_several_sources_use_all(ward: ServiceHarness, desk: Desk, counter: Counter) -> None:
    """Then a source that uses little gets the memory of the largest frame of the heaviest."""
    for host in ("192.0.2.1", "192.0.2.2"):
        for _ in range(4):
            ward.begin(host, 5)
    assert ward.budget.used > LIMIT

    honest = ward.begin("192.0.2.3", 2)
    honest.write(b"\x1c\r")

    assert len(desk.frames) == 1
    assert ("frame refused", FrameMemoryExhausted) in counter.seen


def test_unanswered_frames_count(ward: ServiceHarness, desk: Desk) -> None:
    """A sender that sends large frames faster than they are answered is read no further."""
    callers = [ward.call() for _ in range(6)]
    for caller in callers:
        for _ in range(5):
            caller.send(PIECE)
            ward.clock.advance(0.1)
    assert len(desk.frames) < 30
    assert ward.budget.used <= LIMIT + 6 * RESERVE

    while any(not each.called for each in desk.answers):
        for each in desk.answers:
            if not each.called:
                each.callback([b"A"])
        ward.clock.advance(0.1)

    assert len(desk.frames) == 30
    assert ward.budget.used == 0


def test_a_connection_that_ends(ward: ServiceHarness, desk: Desk) -> None:
    """Returns the memory of its open frame at once, of a frame in hand when that is answered."""
    ward.begin("192.0.2.1", 4).reset()
    assert ward.budget.used == 0

    caller = ward.begin("192.0.2.1", 4)
    caller.write(b"\x1c\r")
    caller.reset()
    assert ward.budget.used > 0
    desk.answer(0, b"A")

    assert ward.budget.used == 0


def test_a_refused_frame_keeps_no_memory(ward: ServiceHarness, desk: Desk) -> None:
    """Nor does a reply that is owed before its refusal keep it."""
    caller = ward.call()
    caller.send(b"1")
    caller.write(b"\x0bMSH|")
    ward.add(caller, 7)  # longer than a frame may be
    deliver_all(ward.clock)

    assert ward.budget.used == 0
    desk.answer(0, b"A")
    ward.clock.advance(3)
    assert caller.frames == [b"A", b"FrameTooLarge MSH|"]


def test_endless_noise(ward: ServiceHarness, counter: Counter, desk: Desk) -> None:
    """The connection is closed after a mebibyte; less of it between frames is borne."""
    caller = ward.call()
    for _ in range(3):
        caller.write(b"x" * (MOST_NOISE // 2))
        caller.send(b"1")
    desk.answer(0, b"A")
    assert not caller.closed

    other = ward.call()
    other.write(b"x" * (MOST_NOISE + 1))
    ward.clock.advance(3)

    assert other.closed
    assert ("frame refused", TooMuchNoise) in counter.seen
