"""Whose turn it is, where several lanes are about one patient."""

import asyncio

import pytest

from bridge.intake.patients.turns import Turns
from bridge.intake.process.jobs import Job
from bridge.intake.process.planning import Occasion
from bridge.queue.claims import ClaimedMessage
from mappings.inbound.events import OrderAction, OrderEvent

pytestmark = pytest.mark.anyio


def job(number: int, *mrns: str, accession: str = "") -> Job:
    """A message about patients, and an order of its own where none is named."""
    order = accession or f"A{number}"
    events = [OrderEvent(OrderAction.CHANGE, "S", "", mrn, order, {}, {}, "ORC") for mrn in mrns]
    claimed = ClaimedMessage(number, b"", "ris", "orders", "1", (), 1, 0, 0, "ORM^O01")
    return Job(claimed, Occasion(number, None), events)


def numbers(jobs: list[Job]) -> list[int]:
    """Which messages these are."""
    return [each.claimed.message_id for each in jobs]


def test_of_two_in_a_batch_the_older_goes_first() -> None:
    """The younger is read again; whoever is about others is not held up."""
    turns = Turns()
    now, later = turns.take([job(3, "M2"), job(2, "M1", "M2"), job(1, "M3")], turns.begin())
    assert (numbers(now), numbers(later)) == ([1, 2], [3])


def test_another_patient_for_an_order_waits_for_the_first() -> None:
    """A message that names another patient for an order is read again after the one before it."""
    turns = Turns()
    jobs = [job(1, "M1", accession="A1"), job(2, "M2", accession="A1"), job(3, "M3")]
    now, later = turns.take(jobs, turns.begin())
    assert (numbers(now), numbers(later)) == ([1, 3], [2])


async def test_a_patient_in_hand_is_waited_for() -> None:
    """Another batch about her waits until the first lets her go."""
    turns = Turns()
    first, second = turns.begin(), turns.begin()
    now, _ = turns.take([job(1, "M1")], first)
    held, later = turns.take([job(2, "M1")], second)
    turns.end(held, second)
    assert (numbers(held), numbers(later)) == ([], [2])
    waiting = asyncio.create_task(turns.wait(later))
    await asyncio.sleep(0)
    assert not waiting.done()
    turns.end(now, first)
    await waiting


def test_what_was_read_before_she_was_let_go_is_read_again() -> None:
    """What such a message knows of its orders may have changed; what is read after is as it is."""
    turns = Turns()
    first, second = turns.begin(), turns.begin()
    now, _ = turns.take([job(1, "M1")], first)
    turns.end(now, first)
    held, later = turns.take([job(2, "M1")], second)
    turns.end(held, second)
    assert numbers(later) == [2]
    assert numbers(turns.take([job(2, "M1")], turns.begin())[0]) == [2]
