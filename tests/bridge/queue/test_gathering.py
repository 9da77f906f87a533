"""A group commit waits for company only where that pays."""

from bridge.queue.ledger.writer import Gathering


def test_nobody_waits_on_a_fast_disk() -> None:
    """Commits below a millisecond are not worth waiting for."""
    gathering = Gathering()
    gathering.committed(0.0005, size=5, waiting=5)
    assert gathering.patience(1) == 0


def test_a_slow_disk_waits_for_the_other_half() -> None:
    """Until as many are there as were about in the last round, a share of a commit's time."""
    gathering = Gathering()
    gathering.committed(0.005, size=25, waiting=25)
    assert 0 < gathering.patience(25) <= 0.4 * 0.005
    assert gathering.patience(50) == 0


def test_a_lone_sender_never_waits() -> None:
    """One that waits for each answer has no company to wait for."""
    gathering = Gathering()
    gathering.committed(0.005, size=1, waiting=0)
    assert gathering.patience(1) == 0


def test_one_slow_commit_is_forgotten() -> None:
    """A checkpoint now and then does not make the disk a slow one."""
    gathering = Gathering()
    gathering.committed(0.0002, 1, 9)
    gathering.committed(0.02, 1, 9)
    for _ in range(20):
        gathering.committed(0.0002, 1, 9)
    assert gathering.patience(1) == 0


def test_a_quick_disk_is_written_at_once() -> None:
    """But only one that is known to be quick; a checkpoint now and then does not change that."""
    gathering = Gathering()
    assert not gathering.at_once
    gathering.committed(0.0002, 1, 0)
    assert gathering.at_once
    gathering.committed(0.02, 1, 0)
    assert gathering.at_once


def test_a_slow_disk_is_never_written_at_once() -> None:
    """Whoever has arrivals must not wait for it."""
    gathering = Gathering()
    for _ in range(3):
        gathering.committed(0.003, 1, 0)
    assert not gathering.at_once
