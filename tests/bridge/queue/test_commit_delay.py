"""A group commit waits for more arrivals only if commits are slow."""

from bridge.queue.ledger.ledger import CommitDelay


def test_no_wait_on_a_fast_disk() -> None:
    """The ledger does not wait if a commit takes less than a millisecond."""
    delay = CommitDelay()
    delay.committed(0.0005, size=5, waiting=5)
    assert delay.seconds(1) == 0


def test_wait_on_a_slow_disk() -> None:
    """The ledger waits for as many arrivals as before, at most a share of a commit."""
    delay = CommitDelay()
    delay.committed(0.005, size=25, waiting=25)
    assert 0 < delay.seconds(25) <= 0.4 * 0.005
    assert delay.seconds(50) == 0


def test_no_wait_for_a_single_sender() -> None:
    """The ledger does not wait for a single sender, which waits for its reply."""
    delay = CommitDelay()
    delay.committed(0.005, size=1, waiting=0)
    assert delay.seconds(1) == 0


def test_one_slow_commit_is_forgotten() -> None:
    """An occasional checkpoint does not count as a slow disk."""
    delay = CommitDelay()
    delay.committed(0.0002, 1, 9)
    delay.committed(0.02, 1, 9)
    for _ in range(20):
        delay.committed(0.0002, 1, 9)
    assert delay.seconds(1) == 0
