"""Sent acknowledgments are recorded with the claim, and otherwise in the background."""

import asyncio
import threading

import pytest

from bridge.queue import queries
from bridge.queue.inbox import Inbox
from bridge.queue.ledger.acknowledgment_notes import AcknowledgmentNotes
from bridge.queue.ledger.arrivals import Arrival
from bridge.queue.ledger.ledger import Ledger
from bridge.queue.states import AcknowledgmentState
from bridge.store.database import Database
from tests.bridge.queue.conftest import Intake, accept
from tests.bridge.queue.samples import NOW, arrival
from tests.eventually import PATIENCE

PENDING, DELIVERED = AcknowledgmentState.PENDING, AcknowledgmentState.DELIVERED
NOT_OWED = AcknowledgmentState.NOT_OWED


def states(store: Database) -> list[AcknowledgmentState]:
    """Return the acknowledgment states, the oldest message first."""
    return [row.acknowledgment for row in queries.messages(store, queries.Filter())][::-1]


@pytest.fixture
def notes(store: Database) -> AcknowledgmentNotes:
    """Notes that are not written: their thread is not started."""
    return AcknowledgmentNotes(store)


def stored(intake: Intake, *arrivals: Arrival) -> list[int]:
    return [receipt.message_id for receipt in intake.enqueue(*arrivals)]


def test_a_claim_records_acknowledgments(
    store: Database, intake: Intake, notes: AcknowledgmentNotes
) -> None:
    """A claim records the acknowledgments of its messages only, and removes their notes."""
    first, second = stored(intake, arrival("A"), arrival("B"))
    notes.add(first)
    notes.add(second)
    (claimed,) = Inbox(store, "node-1", acknowledgments=notes).claim(NOW, 1)
    assert claimed.message_id == first
    assert states(store) == [DELIVERED, PENDING]
    assert not notes.contains_all([first])
    assert notes.contains_all([second])


@pytest.mark.parametrize("acknowledgments", [[], [0], [1]])
def test_one_unsent_acknowledgment_leaves_the_batch_to_the_notes(
    store: Database, intake: Intake, notes: AcknowledgmentNotes, acknowledgments: list[int]
) -> None:
    """A claim records acknowledgments only if each of its messages has one."""
    ids = stored(intake, arrival(patient="A"), arrival(patient="B"))
    for each in acknowledgments:
        notes.add(ids[each])
    assert len(Inbox(store, "node-1", acknowledgments=notes).claim(NOW, 10)) == 2
    assert states(store) == [PENDING, PENDING]
    assert all(notes.contains_all([ids[each]]) for each in acknowledgments)


def test_acknowledgments_that_are_not_required(
    store: Database, intake: Intake, notes: AcknowledgmentNotes
) -> None:
    """A message without a required acknowledgment keeps its state, also if a note exists."""
    (number,) = stored(intake, arrival("A", acknowledgment=NOT_OWED))
    notes.add(number)
    assert Inbox(store, "node-1", acknowledgments=notes).claim(NOW, 1)
    assert states(store) == [NOT_OWED]


def test_settle_and_claim_records_acknowledgments(
    store: Database, intake: Intake, notes: AcknowledgmentNotes
) -> None:
    """A worker settles a batch and claims the next in one transaction."""
    inbox = Inbox(store, "node-1", acknowledgments=notes)
    (number,) = stored(intake, arrival("A"))
    notes.add(number)
    _, batch = inbox.settle_and_claim([], NOW, 10)
    assert [each.message_id for each in batch.messages] == [number]
    assert states(store) == [DELIVERED]
    assert not notes.contains_all([number])


def test_a_rolled_back_claim_keeps_the_notes(
    store: Database, intake: Intake, notes: AcknowledgmentNotes
) -> None:
    """After the rollback the note is still pending."""
    (number,) = stored(intake, arrival("A"))
    notes.add(number)
    inbox = Inbox(store, "node-1", acknowledgments=notes)

    def claim_and_fail() -> None:
        with store.write() as connection:
            inbox._claim_and_read(connection, NOW, 10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        claim_and_fail()
    assert states(store) == [PENDING]
    assert notes.contains_all([number])


def test_stop_writes_the_remaining_notes(store: Database) -> None:
    """The stop writes all notes, however early."""

    async def scenario() -> None:
        for patient in "ABC":
            ledger = Ledger(store)
            ledger.start(asyncio.get_running_loop())
            receipt = await accept(ledger, arrival(patient))
            unowed = await accept(ledger, arrival(acknowledgment=NOT_OWED))
            ledger.acknowledged(receipt.message_id)
            ledger.acknowledged(unowed.message_id)
            await ledger.stop()

    asyncio.run(scenario())
    assert states(store) == [DELIVERED, NOT_OWED] * 3


def test_a_stop_is_never_missed(store: Database) -> None:
    """The thread ends at each time of the stop, also just before it waits for notes."""
    for number in range(300):
        notes = AcknowledgmentNotes(
            store, interval=number * 1e-6
        )  # ends at about the time of the stop
        notes.start()
        notes.add(0)
        stopping = threading.Thread(target=notes.stop, daemon=True)
        stopping.start()
        stopping.join(PATIENCE)
        assert not stopping.is_alive()
