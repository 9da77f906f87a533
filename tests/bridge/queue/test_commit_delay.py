"""A group commit waits for more arrivals only where a commit is slow."""

from bridge.queue.ledger.ledger import CommitDelay


def test_no_wait_on_a_quick_disk() -> None:
    """Commits below a millisecond are not worth a wait."""
    delay = CommitDelay()
    delay.committed(0.0005, size=5, waiting=5)
    assert delay.seconds(1) == 0


def test_a_wait_for_the_other_half_on_a_slow_disk() -> None:
    """Until as many wait as in the last round, at most for a share of a commit's time."""
    delay = CommitDelay()
    delay.committed(0.005, size=25, waiting=25)
    assert 0 < delay.seconds(25) <= 0.4 * 0.005
    assert delay.seconds(50) == 0


def test_no_wait_for_a_single_sender() -> None:
    """A sender that waits for each answer is alone in its batch."""
    delay = CommitDelay()
    delay.committed(0.005, size=1, waiting=0)
    assert delay.seconds(1) == 0


def test_one_slow_commit_is_forgotten() -> None:
    """An occasional checkpoint does not make a disk slow."""
    delay = CommitDelay()
    delay.committed(0.0002, 1, 9)
    delay.committed(0.02, 1, 9)
    for _ in range(20):
        delay.committed(0.0002, 1, 9)
    assert delay.seconds(1) == 0
