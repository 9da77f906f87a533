"""The ledger stores each message that it reports as stored, once."""

import asyncio
import dataclasses

import pytest
from sqlalchemy import text

from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from bridge.queue.ledger.arrivals import MessageFlag, Receipt
from bridge.queue.queries import Filter
from bridge.queue.states import AcknowledgmentState, QueueState
from bridge.store.database import Database
from bridge.store.errors import StatementRefused, StoreError
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, count_of, refused
from tests.eventually import PATIENCE, eventually


def test_an_arrival_is_stored_as_it_came(intake: Intake, store: Database) -> None:
    """Payload, acknowledgment and all fields of the arrival are stored."""
    given = arrival("A", flags=MessageFlag.CHARSET_SUSPECT)
    (receipt,) = intake.enqueue(given)
    detail = queries.message(store, receipt.message_id)
    assert (detail.payload, detail.ack) == (given.payload, given.ack)
    assert (receipt.ack, receipt.ack_code) == (given.ack, "AA")
    assert not receipt.duplicate
    assert not receipt.reused
    row = detail.row
    assert (row.listener, row.message_type, row.mapping) == ("ris-orders", "ORM^O01", "orders")
    assert (row.state, row.acknowledgment) == (QueueState.QUEUED, AcknowledgmentState.PENDING)
    assert (row.received_at, row.flags, row.ack_code) == (NOW, MessageFlag.CHARSET_SUSPECT, "AA")


def test_ids_follow_the_order_of_arrival(intake: Intake) -> None:
    """An earlier message has the smaller id, within a batch and across batches."""
    ids = [receipt.message_id for receipt in intake.enqueue(*(arrival() for _ in range(300)))]
    ids += [receipt.message_id for receipt in intake.enqueue(*(arrival() for _ in range(300)))]
    assert ids == sorted(set(ids))


def test_a_retransmit_gets_the_stored_ack(intake: Intake, store: Database) -> None:
    """A retransmit gets the same bytes as the first acknowledgment, and is not stored."""
    (first,) = intake.enqueue(arrival("A"))
    again = arrival("A", ack=b"another", ack_code="AA")
    (second,) = intake.enqueue(again)
    assert (second.message_id, second.ack) == (first.message_id, first.ack)
    assert second.duplicate
    assert count_of(store) == 1
    assert queries.message(store, first.message_id).row.retransmits == 1


def test_a_retransmit_must_be_acknowledged_again(intake: Intake, store: Database) -> None:
    """Each retransmit is counted, and its acknowledgment is pending until it was sent."""
    (first,) = intake.enqueue(arrival("A"))

    def state() -> AcknowledgmentState:
        return queries.message(store, first.message_id).row.acknowledgment

    states = []
    for _ in range(2):
        intake.ledger.acknowledged(first.message_id)
        eventually(lambda: state() is AcknowledgmentState.DELIVERED)
        intake.enqueue(arrival("A"))
        states.append(state())
    assert states == [AcknowledgmentState.PENDING] * 2
    assert queries.message(store, first.message_id).row.retransmits == 2


def test_an_unstorable_row_fails_alone(intake: Intake, store: Database) -> None:
    """An arrival that cannot be stored fails. Others of its batch are stored."""
    poison = dataclasses.replace(arrival("P"), received_at=2**70)
    good = [arrival() for _ in range(20)]
    outcomes = intake.outcomes(*good[:10], poison, *good[10:])
    assert isinstance(outcomes.pop(10), StoreError)
    assert not any(isinstance(outcome, BaseException) for outcome in outcomes)
    assert count_of(store) == 20
    (receipt,) = intake.enqueue(good[3])
    assert receipt.duplicate


def test_a_batch_file_is_stored_completely_or_not(intake: Intake, store: Database) -> None:
    """An arrival that cannot be stored fails its whole batch file, and no other."""
    poison = dataclasses.replace(arrival("P"), received_at=2**70)
    with pytest.raises(StatementRefused):
        intake.enqueue_together(arrival(), poison, arrival())
    assert count_of(store) == 0
    intake.enqueue(arrival())


def test_an_error_has_no_content(intake: Intake) -> None:
    poison = dataclasses.replace(arrival("SECRET"), received_at=2**70)
    (outcome,) = intake.outcomes(poison)
    assert isinstance(outcome, StatementRefused)
    assert outcome.__cause__ is None
    assert "SECRET" not in str(outcome)
    assert str(2**70) not in str(outcome)


def test_nul_and_every_byte(intake: Intake, store: Database) -> None:
    payload = bytes(range(256)) * 3
    (receipt,) = intake.enqueue(dataclasses.replace(arrival(), payload=payload, ack=payload))
    detail = queries.message(store, receipt.message_id)
    assert (detail.payload, detail.ack) == (payload, payload)


def test_no_acknowledgment_required(intake: Intake, store: Database) -> None:
    """A message without a required acknowledgment is not waiting for one."""
    given = arrival("A", acknowledgment=AcknowledgmentState.NOT_OWED)
    (receipt,) = intake.enqueue(given)
    intake.enqueue(given)
    row = queries.message(store, receipt.message_id).row
    assert row.acknowledgment is AcknowledgmentState.NOT_OWED


def test_the_state_is_read_without_the_content(intake: Intake, store: Database) -> None:
    """A waiting sender reads the state often, and its message may be large."""
    (receipt,) = intake.enqueue(arrival())
    with store.write() as connection:
        connection.execute(text("DELETE FROM message_body"))
    assert queries.message_state(store, receipt.message_id) is QueueState.QUEUED
    with pytest.raises(NoSuchRow):
        queries.message_state(store, receipt.message_id + 1)


def test_list_newest_first(intake: Intake, store: Database) -> None:
    """Lists are filtered by state, listener, time and id, the newest first."""
    receipts = intake.enqueue(arrival(), refused(), arrival(received_at=NOW + 5))
    ids = [receipt.message_id for receipt in receipts]

    def found(wanted: Filter) -> list[int]:
        return [row.id for row in queries.messages(store, wanted)]

    assert found(Filter()) == ids[::-1]
    assert found(Filter(limit=1)) == [ids[2]]
    assert found(Filter(before=ids[2])) == [ids[1], ids[0]]
    assert found(Filter(state=QueueState.REFUSED)) == [ids[1]]
    assert found(Filter(since=NOW + 1)) == [ids[2]]
    assert found(Filter(source="another")) == []


@pytest.mark.parametrize("lanes", [(1, 1), (1, 2, 3)])
def test_impossible_arrivals(lanes: tuple[int, ...]) -> None:
    """A message has at most two lanes, each once."""
    with pytest.raises(ValueError, match="lanes"):
        dataclasses.replace(arrival(), lanes=lanes)


def test_an_arrival_with_a_final_state() -> None:
    """An arrival cannot have a state that only a worker sets."""
    with pytest.raises(ValueError, match="arrival"):
        arrival(state=QueueState.DONE)


def test_a_settle_that_raises(intake: Intake) -> None:
    """An error in one callback affects neither the others of the batch nor later ones."""

    async def submit() -> list[int]:
        calls: list[int] = []
        ids = iter(range(10))
        last: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def fail(_answer: object) -> None:
            raise ValueError

        def record(receipt: Receipt | BaseException) -> None:
            assert isinstance(receipt, Receipt)
            calls.append(next(ids))
            if len(calls) == 2:
                last.set_result(None)

        for settle in (record, fail, record):
            intake.ledger.submit(arrival(), settle)
        await asyncio.wait_for(last, PATIENCE)
        return calls

    assert intake.run(submit()) == [0, 1]
    (receipt,) = intake.enqueue(arrival())
    assert not receipt.duplicate
