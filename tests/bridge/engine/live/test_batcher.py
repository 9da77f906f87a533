"""Gathering: who comes while others are worked on goes with the next party."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from bridge.engine.live.batcher import Batcher


class RefusedError(Exception):
    """An item's own error."""


class Counter:
    """Doubles numbers, slowly; remembers who came together; 13 is refused and 99 spoils all."""

    def __init__(self) -> None:
        self.parties: list[list[int]] = []

    async def together(self, numbers: Sequence[int]) -> list[int | Exception]:
        """Work on one party."""
        self.parties.append(list(numbers))
        await asyncio.sleep(0.01)
        if 99 in numbers:
            raise RefusedError
        return [RefusedError() if number == 13 else 2 * number for number in numbers]


def gathered(counter: Counter, numbers: Sequence[int], most: int = 4, lanes: int = 1) -> list[int]:
    """Give numbers all at once; a refusal is -1."""

    async def giving() -> list[int]:
        batcher = Batcher[int, int](counter.together, most, lanes)
        answers = await asyncio.gather(
            *(batcher.submit(number) for number in numbers), return_exceptions=True
        )
        return [answer if isinstance(answer, int) else -1 for answer in answers]

    return asyncio.run(giving())


def test_what_comes_in_one_turn_goes_together_and_no_party_is_too_large() -> None:
    """Each gets its own answer."""
    counter = Counter()
    assert gathered(counter, range(10)) == [2 * number for number in range(10)]
    assert counter.parties == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_refused_item_spoils_nothing_for_the_others() -> None:
    """Its error is its own."""
    assert gathered(Counter(), [1, 13, 2]) == [2, -1, 4]


def test_a_spoiled_party_is_told_and_the_next_one_goes_on() -> None:
    """The error of the whole is everybody's, once."""
    assert gathered(Counter(), [1, 99, 2, 3, 5]) == [-1, -1, -1, -1, 10]


def test_lanes_run_side_by_side() -> None:
    """A second party does not wait for the first."""

    async def giving() -> None:
        gate = asyncio.Event()

        async def together(numbers: Sequence[int]) -> Sequence[int]:
            if numbers[0] == 0:
                await gate.wait()
            return numbers

        batcher = Batcher[int, int](together, 1, lanes=2)
        held = asyncio.create_task(batcher.submit(0))
        assert await asyncio.wait_for(batcher.submit(1), 30) == 1
        gate.set()
        assert await held == 0

    asyncio.run(giving())


def test_whoever_is_gone_is_passed_over() -> None:
    """An answer that nobody waits for any more is nobody's trouble."""

    async def giving() -> None:
        batcher = Batcher[int, int](Counter().together, 4)
        gone, stays = (asyncio.create_task(batcher.submit(number)) for number in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        assert await stays == 4
        with pytest.raises(asyncio.CancelledError):
            await gone

    asyncio.run(giving())


def test_a_party_that_is_cancelled_keeps_nobody_waiting() -> None:
    """Those whose work was cancelled are cancelled too, and the next party begins."""

    async def whole() -> None:
        begun = asyncio.Event()
        running: list[asyncio.Task[Any] | None] = []

        async def together(items: Sequence[int]) -> list[int]:
            running.append(asyncio.current_task())
            if len(running) == 1:
                begun.set()
                await asyncio.Event().wait()
            return list(items)

        batcher = Batcher[int, int](together, 8)
        given = asyncio.ensure_future(batcher.submit(1))
        await begun.wait()
        later = asyncio.ensure_future(batcher.submit(2))
        (party,) = running
        assert party is not None
        party.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given
        assert await later == 2

    asyncio.run(whole())
