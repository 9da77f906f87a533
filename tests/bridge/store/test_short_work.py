"""The loop runs short work itself while the disk is fast."""

import pytest

from bridge.store.errors import Busy
from bridge.store.locks import FairLock, WriteLock
from bridge.store.short_work import ShortWork


class Disk:
    """A clock that advances while work waits for the disk or computes."""

    def __init__(self) -> None:
        self.now = self.computed = 0.0

    def rest(self, seconds: float) -> None:
        self.now += seconds

    def compute(self, seconds: float) -> None:
        self.now += seconds
        self.computed += seconds


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def short_work(disk: Disk) -> ShortWork:
    return ShortWork(WriteLock(FairLock(), 1.0), lambda: disk.now, lambda: disk.computed)


def run_times(short_work: ShortWork, disk: Disk, seconds: float, times: int) -> int:
    """Wait for the disk so often, and return how often the loop did it."""
    count = 0
    for _ in range(times):
        try:
            short_work.run(lambda: disk.rest(seconds))
        except Busy:
            disk.now += 0.001
        else:
            count += 1
    return count


def test_a_fast_disk(short_work: ShortWork, disk: Disk) -> None:
    """Waiting for a fast disk costs no more than a thread. One slow access does not count."""
    assert run_times(short_work, disk, 0.0005, 50) == 50
    assert run_times(short_work, disk, 0.1, 1) == 1
    assert run_times(short_work, disk, 0.0005, 50) == 50


def test_a_slow_disk_is_left_to_threads(short_work: ShortWork, disk: Disk) -> None:
    """Threads use a slow disk. The loop tries now and then, and notices when it is fast again."""
    assert run_times(short_work, disk, 0.003, 100) < 20
    assert 1 <= run_times(short_work, disk, 0.003, 1000) < 100
    disk.now += 1.0
    assert run_times(short_work, disk, 0.0005, 50) == 50


def test_computing_does_not_count(short_work: ShortWork, disk: Disk) -> None:
    """Computing does not count as slow, because a thread would hold the interpreter as long."""
    for _ in range(50):
        short_work.run(lambda: disk.compute(0.01))


def test_an_error_is_raised(short_work: ShortWork, disk: Disk) -> None:
    with pytest.raises(ZeroDivisionError):
        short_work.run(lambda: 1 // 0)
    assert run_times(short_work, disk, 0.0, 1) == 1
