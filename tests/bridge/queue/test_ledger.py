"""Each message that the ledger reports as stored is stored, once."""

import asyncio
import dataclasses

import pytest

from bridge.queue import queries
from bridge.queue.ledger.arrivals import MessageFlag, Receipt
from bridge.queue.queries import Filter
from bridge.queue.states import AcknowledgmentState, QueueState
from bridge.store.database import Database
from bridge.store.errors import StatementRefused, StoreError
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.samples import NOW, arrival, count_of, refused


def test_an_arrival_is_stored_as_it_came(intake: Intake, store: Database) -> None:
    """Payload, acknowledgment and all that was said about it can be read back."""
    given = arrival("A", flags=MessageFlag.CHARSET_SUSPECT)
    (receipt,) = intake.keep(given)
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
    """What was accepted earlier has the smaller id, within a batch and across batches."""
    ids = [receipt.message_id for receipt in intake.keep(*(arrival() for _ in range(300)))]
    ids += [receipt.message_id for receipt in intake.keep(*(arrival() for _ in range(300)))]
    assert ids == sorted(set(ids))


def test_a_retransmit_gets_the_stored_ack(intake: Intake, store: Database) -> None:
    """The first acknowledgment goes out again, byte for byte, and nothing is added."""
    (first,) = intake.keep(arrival("A"))
    again = arrival("A", ack=b"another", ack_code="AA")
    (second,) = intake.keep(again)
    assert (second.message_id, second.ack) == (first.message_id, first.ack)
    assert second.duplicate
    assert count_of(store) == 1
    assert queries.message(store, first.message_id).row.retransmits == 1


def test_copies_that_arrive_together(intake: Intake, store: Database) -> None:
    """Two copies within one transaction are one message with one acknowledgment."""
    receipts = intake.keep_together(arrival("A"), arrival("B"), arrival("A"))
    assert [receipt.duplicate for receipt in receipts] == [False, False, True]
    assert receipts[2].ack == receipts[0].ack
    assert count_of(store) == 2


def test_a_control_id_used_again(intake: Intake, store: Database) -> None:
    """Other content under a known control id is kept as a new message, and flagged."""
    intake.keep(arrival("A"))
    (receipt,) = intake.keep(arrival("A", content="other"))
    assert receipt.reused
    assert not receipt.duplicate
    row = queries.message(store, receipt.message_id).row
    assert (row.state, row.flags) == (QueueState.QUEUED, MessageFlag.REUSED_CONTROL_ID)


def test_a_control_id_used_again_where_that_is_refused(intake: Intake, store: Database) -> None:
    """Where the listener says so, the second use is stored as refused, with its own answer."""
    other = arrival("A", content="other", refuse_reuse=b"NAK", refuse_reuse_code="AR")
    intake.keep(arrival("A"))
    (receipt,) = intake.keep(other)
    assert (receipt.ack, receipt.ack_code, receipt.reused) == (b"NAK", "AR", True)
    row = queries.message(store, receipt.message_id).row
    assert (row.state, row.ack_code, row.error_code) == (QueueState.REFUSED, "AR", "205")
    (again,) = intake.keep(other)
    assert (again.ack, again.ack_code, again.duplicate) == (b"NAK", "AR", True)


def test_a_refusal_put_right(intake: Intake, store: Database) -> None:
    """The same bytes, refused once and understood now, are taken."""
    (no,) = intake.keep(refused("A"))
    (yes,) = intake.keep(arrival("A"))
    assert (no.ack_code, yes.ack_code, yes.duplicate) == ("AE", "AA", False)
    assert queries.message(store, yes.message_id).row.flags == MessageFlag.CORRECTED
    (again,) = intake.keep(arrival("A"))
    assert (again.message_id, again.ack_code) == (yes.message_id, "AA")


def test_a_poisoned_row_fails_alone(intake: Intake, store: Database) -> None:
    """One arrival that cannot be stored fails; its neighbours of the same batch are kept."""
    poison = dataclasses.replace(arrival("P"), received_at=2**70)
    good = [arrival() for _ in range(20)]
    outcomes = intake.outcomes(*good[:10], poison, *good[10:])
    assert isinstance(outcomes.pop(10), StoreError)
    assert not any(isinstance(outcome, BaseException) for outcome in outcomes)
    assert count_of(store) == 20
    (receipt,) = intake.keep(good[3])
    assert receipt.duplicate


def test_a_batch_is_kept_whole_or_not_at_all(intake: Intake, store: Database) -> None:
    """One that cannot be stored takes the rest of its batch file with it, and no other."""
    poison = dataclasses.replace(arrival("P"), received_at=2**70)
    with pytest.raises(StatementRefused):
        intake.keep_together(arrival(), poison, arrival())
    assert count_of(store) == 0
    intake.keep(arrival())


def test_an_error_says_nothing_of_the_message(intake: Intake) -> None:
    """What could not be stored does not show in the error."""
    poison = dataclasses.replace(arrival("SECRET"), received_at=2**70)
    (outcome,) = intake.outcomes(poison)
    assert isinstance(outcome, StatementRefused)
    assert outcome.__cause__ is None
    assert "SECRET" not in str(outcome)
    assert str(2**70) not in str(outcome)


def test_nul_and_every_byte(intake: Intake, store: Database) -> None:
    """Payloads are bytes: every one of them survives."""
    payload = bytes(range(256)) * 3
    (receipt,) = intake.keep(dataclasses.replace(arrival(), payload=payload, ack=payload))
    detail = queries.message(store, receipt.message_id)
    assert (detail.payload, detail.ack) == (payload, payload)


def test_what_is_not_owed_stays_so(intake: Intake, store: Database) -> None:
    """A sender that wants no acknowledgment is not noted as waiting for one."""
    given = arrival("A", acknowledgment=AcknowledgmentState.NOT_OWED)
    (receipt,) = intake.keep(given)
    intake.keep(given)
    row = queries.message(store, receipt.message_id).row
    assert row.acknowledgment is AcknowledgmentState.NOT_OWED


def test_list_newest_first(intake: Intake, store: Database) -> None:
    """Lists are filtered by state, listener, time and id, newest first."""
    receipts = intake.keep(arrival(), refused(), arrival(received_at=NOW + 5))
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


def test_an_arrival_is_never_done() -> None:
    """Nothing arrives in a state that only work can lead to."""
    with pytest.raises(ValueError, match="arrives"):
        arrival(state=QueueState.DONE)


def test_a_settle_that_raises(intake: Intake) -> None:
    """The others of its batch are answered all the same, and so is what comes later."""

    async def submit() -> list[int]:
        told: list[int] = []
        ids = iter(range(10))
        last: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def stumble(_answer: object) -> None:
            raise ValueError

        def note(answer: Receipt | BaseException) -> None:
            assert isinstance(answer, Receipt)
            told.append(next(ids))
            if len(told) == 2:
                last.set_result(None)

        for settle in (note, stumble, note):
            intake.ledger.submit(arrival(), settle)
        await asyncio.wait_for(last, 60)
        return told

    assert intake.run(submit()) == [0, 1]
    (receipt,) = intake.keep(arrival())
    assert not receipt.duplicate
