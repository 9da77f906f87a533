"""
Errors of the queue.

* QueueError
  * IllegalTransition    the current state does not allow the event
  * LeaseEnded           the claim may belong to another worker
  * LogClosed            the message log is not running
  * NoSuchRow            no message or delivery has this id
  * StateChanged         the row is no longer in the state for which it was selected
"""

from bridge.errors import BridgeError


class QueueError(BridgeError):
    """The queue rejected a request and changed nothing."""


class IllegalTransition(QueueError):
    """The current state does not allow the event."""

    def __init__(self, state: str, event: str) -> None:
        self.state = state
        self.event = event
        super().__init__(f"a row in state {state} cannot be {event}")


class StateChanged(QueueError):
    """The row left the state for which it was selected."""

    def __init__(self, state: str) -> None:
        self.state = state
        super().__init__(f"its state is now {state}")


class LeaseEnded(QueueError):
    """The lease of a claim has ended: another worker may act on the message."""

    def __init__(self) -> None:
        super().__init__("lease ended")


class LogClosed(QueueError):
    """The message log has not been started, or has been stopped. Nothing was stored."""

    def __init__(self) -> None:
        super().__init__("the message log is not running")


class NoSuchRow(QueueError):
    """No message or delivery has this id."""

    def __init__(self, kind: str, row_id: int) -> None:
        self.row_id = row_id
        super().__init__(f"there is no {kind} {row_id}")
