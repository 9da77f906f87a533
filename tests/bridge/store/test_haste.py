"""Short work is done in the loop's turn as long as it is short."""

import pytest

from bridge.store.errors import Busy
from bridge.store.haste import Haste
from bridge.store.locks import Turns, Turnstile


class Disk:
    """A clock that goes on while work rests, and while it computes."""

    def __init__(self) -> None:
        self.now = self.computed = 0.0

    def rest(self, seconds: float) -> None:
        """Wait for the disk."""
        self.now += seconds

    def compute(self, seconds: float) -> None:
        """Keep the processor busy."""
        self.now += seconds
        self.computed += seconds


@pytest.fixture
def disk() -> Disk:
    """One at which nothing was done yet."""
    return Disk()


@pytest.fixture
def haste(disk: Disk) -> Haste:
    """By that disk."""
    return Haste(Turns(Turnstile(), 1.0), lambda: disk.now, lambda: disk.computed)


def done(haste: Haste, disk: Disk, seconds: float, times: int) -> int:
    """Rest so long, so many times; how often it was done."""
    count = 0
    for _ in range(times):
        try:
            haste.do(lambda: disk.rest(seconds))
        except Busy:
            disk.now += 0.001
        else:
            count += 1
    return count


def test_a_quick_disk_is_waited_for(haste: Haste, disk: Disk) -> None:
    """As it takes no longer than to hand it over; one that is slow once is not slow."""
    assert done(haste, disk, 0.0005, 50) == 50
    assert done(haste, disk, 0.1, 1) == 1
    assert done(haste, disk, 0.0005, 50) == 50


def test_a_slow_disk_is_left_to_threads(haste: Haste, disk: Disk) -> None:
    """But for a try now and then, by which it is noticed that it is quick again."""
    assert done(haste, disk, 0.003, 100) < 20
    assert 1 <= done(haste, disk, 0.003, 1000) < 100
    disk.now += 1.0
    assert done(haste, disk, 0.0005, 50) == 50


def test_what_computes_is_not_slow(haste: Haste, disk: Disk) -> None:
    """A thread would compute as long, and the others would wait for the interpreter."""
    for _ in range(50):
        haste.do(lambda: disk.compute(0.01))


def test_what_fails_is_told(haste: Haste, disk: Disk) -> None:
    """And the turn is free for the next."""
    with pytest.raises(ZeroDivisionError):
        haste.do(lambda: 1 // 0)
    assert done(haste, disk, 0.0, 1) == 1
