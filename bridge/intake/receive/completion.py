"""Waiting until stored messages are applied, for listeners with `acknowledge = "applied"`."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from bridge.queue.claims import MessageOutcome
from bridge.queue.states import QueueEvent, QueueState, next_state

APPLIED = frozenset({QueueState.DONE, QueueState.IGNORED})
UNFINISHED = frozenset({QueueState.QUEUED, QueueState.CLAIMED})

POLL_SECONDS = 0.25
"""Interval at which the database is read: another node may have applied the message."""


class Completions(Protocol):
    """Waits for messages that this process or its service process applies."""

    def wait(self, message_id: int, limit: float) -> "asyncio.Future[QueueState]":
        """Resolve when the message is finished, or with its state after `limit` seconds."""


class CompletionWaiter:
    """Resolves futures when messages are finished, on this node or on another one."""

    def __init__(self, state_of: Callable[[int], Awaitable[QueueState]]) -> None:
        """`state_of` reads the state of a stored message."""
        self._state_of = state_of
        self._waiters: defaultdict[int, set[asyncio.Future[QueueState]]] = defaultdict(set)
        self._tasks: set[asyncio.Task[QueueState]] = set()

    def wait(self, message_id: int, limit: float) -> "asyncio.Future[QueueState]":
        """Resolve when the message is finished, or with its state after `limit` seconds."""
        task = asyncio.ensure_future(self._wait(message_id, limit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def notify(self, outcomes: Sequence[MessageOutcome]) -> None:
        """Resolve the futures of messages that this node has applied."""
        for outcome in outcomes:
            for waiter in self._waiters.get(outcome.message_id, ()):
                if outcome.event is not QueueEvent.POSTPONED and not waiter.done():
                    waiter.set_result(next_state(QueueState.CLAIMED, outcome.event))

    async def _wait(self, message_id: int, limit: float) -> QueueState:
        loop = asyncio.get_running_loop()
        until = loop.time() + limit
        notified: asyncio.Future[QueueState] = loop.create_future()
        self._waiters[message_id].add(notified)
        try:
            while True:
                state = await self._state_of(message_id)
                remaining = until - loop.time()
                if state not in UNFINISHED or remaining <= 0:
                    return state
                await asyncio.wait([notified], timeout=min(remaining, POLL_SECONDS))
                if notified.done():
                    return notified.result()
        finally:
            self._waiters[message_id].discard(notified)
            if not self._waiters[message_id]:
                del self._waiters[message_id]


def all_applied(waiting: "Iterable[asyncio.Future[QueueState]]") -> "asyncio.Future[QueueState]":
    """Resolve with the first state that is not applied, or else with the first state."""

    async def combine() -> QueueState:
        states = await asyncio.gather(*waiting)
        return next((state for state in states if state not in APPLIED), states[0])

    return asyncio.ensure_future(combine())
