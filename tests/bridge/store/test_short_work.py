"""Short work runs on the loop as long as the disk is fast."""

import pytest

from bridge.store.errors import Busy
from bridge.store.locks import FairLock, WriteLock
from bridge.store.short_work import ShortWork


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
def short_work(disk: Disk) -> ShortWork:
    """By that disk."""
    return ShortWork(WriteLock(FairLock(), 1.0), lambda: disk.now, lambda: disk.computed)


def done(short_work: ShortWork, disk: Disk, seconds: float, times: int) -> int:
    """Rest so long, so many times; how often it was done."""
    count = 0
    for _ in range(times):
        try:
            short_work.run(lambda: disk.rest(seconds))
        except Busy:
            disk.now += 0.001
        else:
            count += 1
    return count


def test_a_quick_disk_is_waited_for(short_work: ShortWork, disk: Disk) -> None:
    """As it takes no longer than to hand it over; one that is slow once is not slow."""
    assert done(short_work, disk, 0.0005, 50) == 50
    assert done(short_work, disk, 0.1, 1) == 1
    assert done(short_work, disk, 0.0005, 50) == 50


def test_a_slow_disk_is_left_to_threads(short_work: ShortWork, disk: Disk) -> None:
    """But for a try now and then, by which it is noticed that it is quick again."""
    assert done(short_work, disk, 0.003, 100) < 20
    assert 1 <= done(short_work, disk, 0.003, 1000) < 100
    disk.now += 1.0
    assert done(short_work, disk, 0.0005, 50) == 50


def test_what_computes_is_not_slow(short_work: ShortWork, disk: Disk) -> None:
    """A thread would compute as long, and the others would wait for the interpreter."""
    for _ in range(50):
        short_work.run(lambda: disk.compute(0.01))


def test_what_fails_is_told(short_work: ShortWork, disk: Disk) -> None:
    """And the turn is free for the next."""
    with pytest.raises(ZeroDivisionError):
        short_work.run(lambda: 1 // 0)
    assert done(short_work, disk, 0.0, 1) == 1
