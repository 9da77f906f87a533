"""What a failure means for a stored message; and a place to wait for what became of one.

Decides and remembers; the database is asked by whoever is handed in.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.queue.claims import ClaimedMessage, MessageOutcome
from bridge.queue.states import QueueEvent, QueueState, next_state

PATIENCE = 12
"""Attempts whose outcome nobody knows, before a person has to look."""

FORGOTTEN_FOR = 5_000
"""Milliseconds until what could not be remembered is tried again."""

UNFINISHED = frozenset({QueueState.QUEUED, QueueState.CLAIMED})

LOOK_EVERY = 0.25  # seconds; another node may have applied it


def failed(claimed: ClaimedMessage, failure: EngineFailure, now: int) -> MessageOutcome:
    """
    Decide what follows a call that came to nothing.

    Transient: again, for ever. Ambiguous: again, but not for ever, for the message itself
    may be what breaks the service. Permanent: a person.
    """
    wait = failure.retry_after
    return _outcome(
        claimed,
        failure.failure,
        failure.code,
        failure.call,
        None if wait is None else now + round(wait * 1000),
    )


def unremembered(claimed: ClaimedMessage, now: int) -> MessageOutcome:
    """Decide what follows when the service has it and the index cannot be told."""
    return _outcome(claimed, FailureKind.AMBIGUOUS, "not_remembered", retry_at=now + FORGOTTEN_FOR)


def unread(claimed: ClaimedMessage) -> MessageOutcome:
    """Decide what follows when nobody could read it: it may be what ends whoever reads it."""
    return _outcome(claimed, FailureKind.AMBIGUOUS, "not_read")


def _outcome(
    claimed: ClaimedMessage,
    failure: FailureKind,
    code: str,
    detail: str = "",
    retry_at: int | None = None,
) -> MessageOutcome:
    doubts = claimed.ambiguous_attempts + (failure is FailureKind.AMBIGUOUS)
    gives_up = failure is FailureKind.PERMANENT or doubts >= PATIENCE
    event = QueueEvent.GIVEN_UP if gives_up else QueueEvent.POSTPONED
    # Whoever replays what was given up gives it new patience.
    return MessageOutcome(
        claimed.message_id,
        event,
        failure,
        code,
        detail,
        retry_at,
        ambiguous_attempts=0 if gives_up else doubts,
    )


class Waiting:
    """Who waits for which message to be finished."""

    def __init__(self, state_of: Callable[[int], Awaitable[QueueState]]) -> None:
        """Take a way to ask what state a stored message is in."""
        self._state_of = state_of
        self._waiters: defaultdict[int, set[asyncio.Future[QueueState]]] = defaultdict(set)
        self._tasks: set[asyncio.Task[QueueState]] = set()

    def wait(self, message_id: int, limit: float) -> "asyncio.Future[QueueState]":
        """Give the message's state as soon as it is finished, or after `limit` seconds."""
        task = asyncio.ensure_future(self._wait(message_id, limit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def tell(self, outcomes: Sequence[MessageOutcome]) -> None:
        """Tell what this node has made of messages, before it is written down."""
        for outcome in outcomes:
            for waiter in self._waiters.get(outcome.message_id, ()):
                if outcome.event is not QueueEvent.POSTPONED and not waiter.done():
                    waiter.set_result(next_state(QueueState.CLAIMED, outcome.event))

    async def _wait(self, message_id: int, limit: float) -> QueueState:
        loop = asyncio.get_running_loop()
        until = loop.time() + limit
        told: asyncio.Future[QueueState] = loop.create_future()
        self._waiters[message_id].add(told)
        try:
            while True:
                state = await self._state_of(message_id)
                left = until - loop.time()
                if state not in UNFINISHED or left <= 0:
                    return state
                await asyncio.wait([told], timeout=min(left, LOOK_EVERY))
                if told.done():
                    return told.result()
        finally:
            self._waiters[message_id].discard(told)
            if not self._waiters[message_id]:
                del self._waiters[message_id]
