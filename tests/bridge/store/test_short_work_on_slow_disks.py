"""How long a disk that has become slow can block a loop that commits."""

import pytest

from bridge.store.errors import Busy
from bridge.store.locks import FairLock, WriteLock
from bridge.store.short_work import ShortWork

MOST_HELD_UP = 0.1
"""Of a loop's time."""


class Disk:
    """A clock that a commit moves on by what this disk takes."""

    def __init__(self, takes: float) -> None:
        self.takes = takes
        self.now = 1000.0
        self.held_up = 0.0

    def commit(self) -> None:
        """Keep the caller waiting."""
        self.now += self.takes
        self.held_up += self.takes


def short_work_on(disk: Disk) -> ShortWork:
    """Give who commits to it, and computes nothing."""
    return ShortWork(WriteLock(FairLock(), 1.0), timer=lambda: disk.now, cpu_time=lambda: 0.0)


def commit(short_work: ShortWork, disk: Disk) -> bool:
    """Commit here if that is to be; tell whether it was."""
    try:
        short_work.run(disk.commit)
    except Busy:
        return False
    return True


@pytest.mark.parametrize("takes", [0.008, 0.02, 0.3, 2.0])
def test_a_slow_disk_holds_the_loop_up_for_little_of_its_time(takes: float) -> None:
    """However slow it is, and however often there is something to commit."""
    disk = Disk(takes)
    short_work = short_work_on(disk)
    end = disk.now + 600
    while disk.now < end:
        commit(short_work, disk)
        disk.now += 0.01
    assert disk.held_up < 600 * MOST_HELD_UP


def test_a_disk_that_stands_still_holds_the_loop_up_once() -> None:
    """Not until that has become what is usual."""
    disk = Disk(0.0002)
    short_work = short_work_on(disk)
    assert all(commit(short_work, disk) for _ in range(100))
    disk.takes = 1.0
    assert commit(short_work, disk)
    assert not commit(short_work, disk)


def test_a_disk_that_is_slow_as_ever_is_known_by_one_commit() -> None:
    """What was slow before need not be shown several times again."""
    disk = Disk(0.008)
    short_work = short_work_on(disk)
    while commit(short_work, disk):
        pass
    disk.now += 60
    assert commit(short_work, disk)
    assert not commit(short_work, disk)


def test_a_checkpoint_now_and_then_makes_no_disk_slow() -> None:
    """One commit in many may take ten milliseconds."""
    disk = Disk(0.0005)
    short_work = short_work_on(disk)
    for number in range(500):
        disk.takes = 0.01 if number % 50 == 20 else 0.0005
        assert commit(short_work, disk)
