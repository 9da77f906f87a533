"""Waiting until a stored message is applied, by this node or by another one."""

import asyncio

from bridge.intake.receive.completion import CompletionWaiter
from bridge.queue.claims import MessageOutcome
from bridge.queue.states import QueueEvent, QueueState


class States:
    def __init__(self, *states: QueueState) -> None:
        self.states = list(states)

    async def __call__(self, message_id: int) -> QueueState:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


async def test_applied_by_this_node() -> None:
    """The order processor notifies, and the database is not polled."""
    waiting = CompletionWaiter(States(QueueState.QUEUED))
    future = waiting.wait(7, 30.0)
    await asyncio.sleep(0.01)
    waiting.notify(
        [MessageOutcome(8, QueueEvent.ACCEPTED), MessageOutcome(7, QueueEvent.POSTPONED)]
    )
    await asyncio.sleep(0.01)
    assert not future.done()
    waiting.notify([MessageOutcome(7, QueueEvent.ACCEPTED)])
    assert await future is QueueState.DONE
    assert not waiting._waiters


async def test_applied_by_another_node() -> None:
    """The database is polled every quarter of a second."""
    waiting = CompletionWaiter(States(QueueState.QUEUED, QueueState.CLAIMED, QueueState.DONE))
    assert await waiting.wait(7, 30.0) is QueueState.DONE


async def test_time_limit() -> None:
    """After the time limit the present state is returned."""
    waiting = CompletionWaiter(States(QueueState.QUEUED))
    assert await waiting.wait(7, 0.05) is QueueState.QUEUED
