"""The reason that a person gives for an action on an order; the audit trail stores it."""

from typing import Final

from bridge.errors import BridgeError

MAX_REASON: Final = 500
"""Characters of a reason."""


class ReasonRequired(BridgeError):
    """The action needs a reason."""

    def __init__(self) -> None:
        super().__init__(f"give a reason of 1 to {MAX_REASON} characters, without patient data")


def required_reason(text: str) -> str:
    """Return a reason without outer spaces. Raises ReasonRequired."""
    reason = text.strip()
    if not 0 < len(reason) <= MAX_REASON:
        raise ReasonRequired
    return reason
