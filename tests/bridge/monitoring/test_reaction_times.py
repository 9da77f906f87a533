"""What nodes promise in seconds follows from how often they look, whatever the machine."""

from bridge.queue.failover import GRACE_SECONDS
from bridge.runtime.schedule import Job


def test_a_dead_nodes_work_is_taken_over_within_ten_seconds() -> None:
    """It is missed at one look, and dead at the first one after it was away for long enough."""
    assert GRACE_SECONDS + 2 * Job.FAILOVER.every < 10


def test_an_activation_is_followed_within_two_seconds() -> None:
    """Each node looks once in that time."""
    assert Job.LISTENER_ACTIVATIONS.every < 2
    assert Job.DESTINATION_ACTIVATIONS.every < 2
