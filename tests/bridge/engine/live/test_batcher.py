"""Batches: items that are submitted while a batch runs form the next one."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from bridge.engine.live.database_executor import Batcher
from tests.eventually import PATIENCE


class RefusedError(Exception):
    """The error of one item."""


class Counter:
    """Doubles numbers and records the batches; 13 is refused, 99 fails all items of its batch."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    async def together(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(numbers))
        await asyncio.sleep(0.01)  # as a transaction takes some time
        if 99 in numbers:
            raise RefusedError
        return [RefusedError() if number == 13 else 2 * number for number in numbers]


def submitted(
    counter: Counter, numbers: Sequence[int], most: int = 4, concurrency: int = 1
) -> list[int]:
    """Submit numbers at once; the result of a refusal is -1."""

    async def submit_all() -> list[int]:
        batcher = Batcher[int, int](counter.together, most, concurrency)
        results = await asyncio.gather(
            *(batcher.submit(number) for number in numbers), return_exceptions=True
        )
        return [result if isinstance(result, int) else -1 for result in results]

    return asyncio.run(submit_all())


def test_items_of_one_turn_form_batches_of_limited_size() -> None:
    counter = Counter()
    assert submitted(counter, range(10)) == [2 * number for number in range(10)]
    assert counter.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_refused_item_does_not_affect_others() -> None:
    assert submitted(Counter(), [1, 13, 2]) == [2, -1, 4]


def test_the_error_of_a_batch_is_that_of_its_items() -> None:
    """The next batch is processed."""
    assert submitted(Counter(), [1, 99, 2, 3, 5]) == [-1, -1, -1, -1, 10]


def test_batches_run_concurrently() -> None:
    """A second batch does not wait for the first."""

    async def submit_all() -> None:
        gate = asyncio.Event()

        async def together(numbers: Sequence[int]) -> Sequence[int]:
            if numbers[0] == 0:
                await gate.wait()
            return numbers

        batcher = Batcher[int, int](together, 1, concurrency=2)
        held = asyncio.create_task(batcher.submit(0))
        assert await asyncio.wait_for(batcher.submit(1), PATIENCE) == 1
        gate.set()
        assert await held == 0

    asyncio.run(submit_all())


def test_a_cancelled_caller_does_not_affect_others() -> None:
    """The result of a cancelled item is dropped."""

    async def submit_all() -> None:
        batcher = Batcher[int, int](Counter().together, 4)
        cancelled, stays = (asyncio.create_task(batcher.submit(number)) for number in (1, 2))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert await stays == 4
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(submit_all())


def test_a_cancelled_batch_cancels_its_items() -> None:
    """The next batch is processed."""

    async def submit_all() -> None:
        begun = asyncio.Event()
        running: list[asyncio.Task[Any] | None] = []

        async def together(items: Sequence[int]) -> list[int]:
            running.append(asyncio.current_task())
            if len(running) == 1:
                begun.set()
                await asyncio.Event().wait()
            return list(items)

        batcher = Batcher[int, int](together, 8)
        submitted = asyncio.ensure_future(batcher.submit(1))
        await begun.wait()
        later = asyncio.ensure_future(batcher.submit(2))
        (batch,) = running
        assert batch is not None
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitted
        assert await later == 2

    asyncio.run(submit_all())
