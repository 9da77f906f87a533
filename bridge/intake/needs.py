"""
What the handler needs of those around it: somewhere to store, and word of what was applied.

Interfaces, and how several answers of the second are one.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from bridge.queue.arrivals import Arrival, Receipt
from bridge.queue.states import State

APPLIED = frozenset({State.DONE, State.IGNORED})


class Inbox(Protocol):
    """What the handler needs of the durable ledger."""

    def submit(self, arrival: Arrival, settle: Callable[[Receipt | BaseException], object]) -> None:
        """Store one message; calls `settle` after the commit."""

    def accept_many(self, arrivals: Sequence[Arrival]) -> "asyncio.Future[Sequence[Receipt]]":
        """Store all or none."""

    def acknowledged(self, message_id: int) -> None:
        """Note that a message's acknowledgment went to the connection it was owed to."""


class Outcomes(Protocol):
    """What the handler needs to wait for the report service (`acknowledge = "applied"`)."""

    def wait(self, message_id: int, limit: float) -> "asyncio.Future[State]":
        """Resolve when the message is finished, or with its state after `limit` seconds."""


def all_applied(waiting: "Iterable[asyncio.Future[State]]") -> "asyncio.Future[State]":
    """Give the state of all: the first that was not applied, if there is any."""

    async def last() -> State:
        states = await asyncio.gather(*waiting)
        return next((each for each in states if each not in APPLIED), states[0])

    return asyncio.ensure_future(last())
