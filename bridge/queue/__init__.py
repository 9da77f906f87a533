"""
The durable queue: states and retry policy, free of any framework.

The shells are imported by name: `ledger` and `worker` for what comes in, `outbox` for what
goes out, `browse` and `retention` for those who look after them.
"""

from bridge.queue.errors import IllegalTransition, NoSuchRow, QueueError
from bridge.queue.states import (
    TRANSITIONS,
    AcknowledgmentState,
    QueueEvent,
    QueueState,
    RetryPolicy,
    next_state,
)

__all__ = [
    "TRANSITIONS",
    "AcknowledgmentState",
    "IllegalTransition",
    "NoSuchRow",
    "QueueError",
    "QueueEvent",
    "QueueState",
    "RetryPolicy",
    "next_state",
]
