"""Documented reaction times of nodes follow from the periods of their jobs."""

from bridge.runtime.schedule import Job
from bridge.store.postgresql.dedicated_connections import GRACE_SECONDS


def test_failover_within_ten_seconds() -> None:
    """One run misses the lock; the first run after the grace time requeues the claims."""
    assert GRACE_SECONDS + 2 * Job.FAILOVER.every < 10


def test_an_activation_is_followed_within_two_seconds() -> None:
    """Each node looks for activations once in that time."""
    assert Job.LISTENER_ACTIVATIONS.every < 2
    assert Job.DESTINATION_ACTIVATIONS.every < 2
