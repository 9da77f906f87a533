"""How long a slow disk can block a loop that commits."""

import pytest

from bridge.store.errors import Busy
from bridge.store.locks import FairLock, WriteLock
from bridge.store.short_work import ShortWork

MAX_BLOCKED = 0.1
"""Share of the loop's time."""


class Disk:
    """A clock that advances by the duration of a commit."""

    def __init__(self, takes: float) -> None:
        self.takes = takes
        self.now = 1000.0
        self.blocked = 0.0

    def commit(self) -> None:
        self.now += self.takes
        self.blocked += self.takes


def short_work_on(disk: Disk) -> ShortWork:
    return ShortWork(WriteLock(FairLock(), 1.0), timer=lambda: disk.now, cpu_time=lambda: 0.0)


def commit(short_work: ShortWork, disk: Disk) -> bool:
    """Commit on the loop if allowed, and return whether it did."""
    try:
        short_work.run(disk.commit)
    except Busy:
        return False
    return True


@pytest.mark.parametrize("takes", [0.008, 0.02, 0.3, 2.0])
def test_a_slow_disk_blocks_the_loop_little(takes: float) -> None:
    """Any slow disk blocks the loop for a small share of its time, at any rate of commits."""
    disk = Disk(takes)
    short_work = short_work_on(disk)
    end = disk.now + 600
    while disk.now < end:
        commit(short_work, disk)
        disk.now += 0.01
    assert disk.blocked < 600 * MAX_BLOCKED


def test_a_stalled_disk_blocks_the_loop_once() -> None:
    """One stall blocks the loop once, until stalls are usual."""
    disk = Disk(0.0002)
    short_work = short_work_on(disk)
    assert all(commit(short_work, disk) for _ in range(100))
    disk.takes = 1.0
    assert commit(short_work, disk)
    assert not commit(short_work, disk)


def test_a_slow_disk_is_recognized_by_one_commit() -> None:
    disk = Disk(0.008)
    short_work = short_work_on(disk)
    while commit(short_work, disk):
        pass
    disk.now += 60
    assert commit(short_work, disk)
    assert not commit(short_work, disk)


def test_an_occasional_slow_commit() -> None:
    """A single commit of ten milliseconds does not count as a slow disk."""
    disk = Disk(0.0005)
    short_work = short_work_on(disk)
    for number in range(500):
        disk.takes = 0.01 if number % 50 == 20 else 0.0005
        assert commit(short_work, disk)
