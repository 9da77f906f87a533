"""
What the queue can refuse.

* QueueError
    * IllegalTransition    what was asked does not follow from the state something is in
    * LedgerClosed         the ledger takes nothing now
    * NoSuchRow            there is no message or delivery of that id
    * NotAsChosen          it is no longer in the state for which it was chosen
"""

# ruff: noqa: N818  # named for what happened, as the field does

from bridge.errors import BridgeError


class QueueError(BridgeError):
    """The queue did not do what was asked; nothing changed."""


class IllegalTransition(QueueError):
    """What was asked does not follow from the present state."""

    def __init__(self, state: str, event: str) -> None:
        self.state = state
        self.event = event
        super().__init__(f"what is {state} cannot be {event}")


class StateChanged(QueueError):
    """Somebody else was faster with what was chosen by its state."""

    def __init__(self, state: str) -> None:
        self.state = state
        super().__init__(f"it is {state} by now")


class LedgerClosed(QueueError):
    """The ledger has not been started, or has been stopped: nothing was kept."""

    def __init__(self) -> None:
        super().__init__("the ledger takes nothing now")


class NoSuchRow(QueueError):
    """There is no such message or delivery."""

    def __init__(self, kind: str, row_id: int) -> None:
        self.row_id = row_id
        super().__init__(f"there is no {kind} {row_id}")
