"""A demo that checks nothing would always succeed: its checks can fail."""

import asyncio
from pathlib import Path

import pytest

from bridge.demo.checks import (
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


def test_a_difference_ends_the_story() -> None:
    """What was expected and what was found are both told."""
    expect("the same", 1, 1)
    with pytest.raises(Unexpected, match="ACK: expected 'AA', found 'AE'"):
        expect("ACK", "AA", "AE")


def test_what_does_not_come_ends_the_story() -> None:
    """The last thing that was found is told."""

    async def look() -> int:
        return 3

    async def wait() -> None:
        await until("four", look, lambda found: found == 4, within=0.1)

    with pytest.raises(TooLate, match="four: not within 0 s; at the end: 3"):
        asyncio.run(wait())


@pytest.mark.parametrize("who", ["user", "service", "nobody"])
def test_who_ends_it(who: str) -> None:
    """The user and the service can end the work under way; else its result counts."""
    cancelled = []

    async def work() -> str:
        try:
            await asyncio.sleep(0 if who == "nobody" else 30)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "done"

    async def play() -> str:
        stop, ended = asyncio.Event(), asyncio.get_running_loop().create_future()
        if who == "user":
            asyncio.get_running_loop().call_later(0.01, stop.set)
        if who == "service":
            asyncio.get_running_loop().call_later(0.01, ended.set_result, 7)
        return await run_until_end(work(), stop, ended)

    if who == "nobody":
        assert asyncio.run(play()) == "done"
        return
    with pytest.raises(Interrupted if who == "user" else ServiceEnded):
        asyncio.run(play())
    assert cancelled == [True]


def test_samples_that_are_missing_are_named(tmp_path: Path) -> None:
    """An installed package has none, and says where they are."""
    with pytest.raises(SamplesMissing, match=r"no .*none\.hl7: .* part of the checkout"):
        SampleMessage("orders/none.hl7", "RIS A", "").read()


def test_every_sample_of_the_script_is_there() -> None:
    """The script and the sample folder agree."""
    assert all(sample.read() for sample in (*NEW, *CHANGED, *REFUSED))
