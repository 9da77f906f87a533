"""
The durable queue: states and retry policy, free of any framework.

The shells are imported by name: `ledger` and `worker` for what comes in, `outbox` for what
goes out, `browse` and `retention` for those who look after them.
"""

from bridge.queue.errors import IllegalTransition, NoSuchRow, QueueError
from bridge.queue.states import TRANSITIONS, Acknowledgment, Event, Policy, State, after

__all__ = [
    "TRANSITIONS",
    "Acknowledgment",
    "Event",
    "IllegalTransition",
    "NoSuchRow",
    "Policy",
    "QueueError",
    "State",
    "after",
]
