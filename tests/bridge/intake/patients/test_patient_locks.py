"""Patient locks: messages of several lanes about one patient."""

import asyncio

from bridge.intake.process.jobs import MessageJob
from bridge.intake.process.order_processor import PatientLocks
from bridge.orders.rules import SourceMessage
from bridge.queue.claims import ClaimedMessage
from mappings.inbound.events import OrderAction, OrderEvent


def job(number: int, *mrns: str, accession: str = "") -> MessageJob:
    """Return a message about patients, by default with its own order."""
    order = accession or f"A{number}"
    events = [OrderEvent(OrderAction.CHANGE, "S", "", mrn, order, {}, {}, "ORC") for mrn in mrns]
    claimed = ClaimedMessage(number, b"", "ris", "orders", "1", (), 1, 0, 0, "ORM^O01")
    return MessageJob(claimed, SourceMessage(number, None), events)


def numbers(jobs: list[MessageJob]) -> list[int]:
    return [each.claimed.message_id for each in jobs]


def test_the_older_of_two_is_first() -> None:
    """The later message is read again. Messages about other patients do not wait."""
    turns = PatientLocks()
    now, later = turns.lock([job(3, "M2"), job(2, "M1", "M2"), job(1, "M3")], turns.begin_read())
    assert (numbers(now), numbers(later)) == ([1, 2], [3])


def test_another_patient_for_an_order_waits_for_the_first() -> None:
    """A message with another patient for an order is read again after the earlier one."""
    turns = PatientLocks()
    jobs = [job(1, "M1", accession="A1"), job(2, "M2", accession="A1"), job(3, "M3")]
    now, later = turns.lock(jobs, turns.begin_read())
    assert (numbers(now), numbers(later)) == ([1, 3], [2])


async def test_a_locked_patient() -> None:
    """A batch about a locked patient waits."""
    turns = PatientLocks()
    first, second = turns.begin_read(), turns.begin_read()
    now, _ = turns.lock([job(1, "M1")], first)
    held, later = turns.lock([job(2, "M1")], second)
    turns.release(held, second)
    assert (numbers(held), numbers(later)) == ([], [2])
    waiting = asyncio.create_task(turns.wait(later))
    await asyncio.sleep(0)
    assert not waiting.done()
    turns.release(now, first)
    await waiting


def test_a_message_read_before_the_release() -> None:
    """A message read before the release is read again. Later ones are current."""
    turns = PatientLocks()
    first, second = turns.begin_read(), turns.begin_read()
    now, _ = turns.lock([job(1, "M1")], first)
    turns.release(now, first)
    held, later = turns.lock([job(2, "M1")], second)
    turns.release(held, second)
    assert numbers(later) == [2]
    assert numbers(turns.lock([job(2, "M1")], turns.begin_read())[0]) == [2]
