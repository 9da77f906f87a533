"""The checks of the demo can fail."""

import asyncio
from pathlib import Path

import pytest

from bridge.demo.narration import (
    Interrupted,
    SamplesMissing,
    ServiceEnded,
    TooLate,
    Unexpected,
    expect,
    run_until_end,
    until,
)
from bridge.demo.script import CHANGED, NEW, REFUSED, SampleMessage


def test_a_difference_ends_the_demo() -> None:
    """A difference ends the demo with expected and actual value."""
    expect("the same", 1, 1)
    with pytest.raises(Unexpected, match="ACK: expected 'AA', found 'AE'"):
        expect("ACK", "AA", "AE")


def test_a_missing_result_ends_the_demo() -> None:
    """A missing result ends the demo with the last value."""

    async def look() -> int:
        return 3

    async def wait() -> None:
        await until("four", look, lambda found: found == 4, within=0.1)

    with pytest.raises(TooLate, match="four: not within 0 s; at the end: 3"):
        asyncio.run(wait())


@pytest.mark.parametrize("ended_by", ["user", "service", "none"])
def test_end_of_the_demo(ended_by: str) -> None:
    """The user and the service can end the work in progress. Otherwise its result counts."""
    cancelled = []

    async def work() -> str:
        try:
            await asyncio.sleep(0 if ended_by == "none" else 30)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "done"

    async def play() -> str:
        stop, ended = asyncio.Event(), asyncio.get_running_loop().create_future()
        if ended_by == "user":
            asyncio.get_running_loop().call_later(0.01, stop.set)
        if ended_by == "service":
            asyncio.get_running_loop().call_later(0.01, ended.set_result, 7)
        return await run_until_end(work(), stop, ended)

    if ended_by == "none":
        assert asyncio.run(play()) == "done"
        return
    with pytest.raises(Interrupted if ended_by == "user" else ServiceEnded):
        asyncio.run(play())
    assert cancelled == [True]


def test_missing_samples_are_named(tmp_path: Path) -> None:
    """An installed package has no samples, and the error names their folder."""
    with pytest.raises(SamplesMissing, match=r"no .*none\.hl7: .* part of the checkout"):
        SampleMessage("orders/none.hl7", "RIS A", "").read()


def test_each_sample_of_the_script_exists() -> None:
    assert all(sample.read() for sample in (*NEW, *CHANGED, *REFUSED))
