"""The message log stores each message that it reports as stored, once."""

import asyncio
import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from bridge import index_key
from bridge.index_key import signed64
from bridge.queue import queries
from bridge.queue.arrivals import (
    PART_NUMBER_SHIFT,
    Arrival,
    MessageFlag,
    Receipt,
    lane,
    sequential64,
)
from bridge.queue.deduplication import (
    AdmissionDecision,
    StoredMessage,
    decide,
)
from bridge.queue.digests import digest, stored_digest
from bridge.queue.errors import LogClosed, NoSuchRow
from bridge.queue.inbox import Inbox
from bridge.queue.message_log import MessageLog
from bridge.queue.states import AcknowledgmentState, QueueState
from bridge.store.database import Database
from bridge.store.errors import StatementRefused, StoreError
from tests.bridge.queue import stored_rows
from tests.bridge.queue.conftest import Intake, accept
from tests.bridge.queue.samples import NOW, arrival, count_of, refused
from tests.eventually import PATIENCE, eventually_async


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


def test_a_retransmit_must_be_acknowledged_again(
    intake: Intake, store: Database, inbox: Inbox
) -> None:
    """Each retransmit is counted, and its acknowledgment is pending until it was sent."""
    (first,) = intake.enqueue(arrival("A"))

    def state() -> AcknowledgmentState:
        return queries.message(store, first.message_id).row.acknowledgment

    states = []
    for _ in range(2):
        inbox.acknowledged([first.message_id])
        inbox.store_acknowledged()
        assert state() is AcknowledgmentState.DELIVERED
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
    given = arrival("A", acknowledgment=AcknowledgmentState.NOT_REQUIRED)
    (receipt,) = intake.enqueue(given)
    intake.enqueue(given)
    row = queries.message(store, receipt.message_id).row
    assert row.acknowledgment is AcknowledgmentState.NOT_REQUIRED


def test_the_state_is_read_without_the_content(intake: Intake, store: Database) -> None:
    """A waiting sender reads the state often, and its message may be large."""
    (receipt,) = intake.enqueue(arrival())
    with store.write() as connection:
        connection.execute(text("DELETE FROM message_body"))
    assert queries.message_state(store, receipt.message_id) is QueueState.QUEUED
    with pytest.raises(NoSuchRow):
        queries.message_state(store, receipt.message_id + 1)


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
            intake.message_log.submit(arrival(), settle)
        await asyncio.wait_for(last, PATIENCE)
        return calls

    assert intake.run(submit()) == [0, 1]
    (receipt,) = intake.enqueue(arrival())
    assert not receipt.duplicate


def test_copies_on_two_nodes_at_once(store: Database) -> None:
    """A message sent to two nodes at once is stored once, and both replies are equal."""
    orders = [arrival() for _ in range(200)]

    async def scenario() -> list[list[Receipt]]:
        nodes = [MessageLog(store), MessageLog(store)]
        for node in nodes:
            node.start(asyncio.get_running_loop())
        futures = [[accept(node, order) for order in orders] for node in nodes]
        receipts = [await asyncio.gather(*future) for future in futures]
        for node in nodes:
            await node.stop()
        return receipts

    one, two = asyncio.run(scenario())
    assert count_of(store) == 200
    assert [item.message_id for item in one] == [item.message_id for item in two]
    assert all(a.duplicate != b.duplicate for a, b in zip(one, two, strict=True))


def test_stop_stores_waiting_messages(store: Database) -> None:
    """Messages accepted before stop() are stored. Later ones fail, and are not stored."""

    async def scenario() -> tuple[int, BaseException]:
        message_log = MessageLog(store)
        message_log.start(asyncio.get_running_loop())
        futures = [accept(message_log, arrival()) for _ in range(50)]
        await message_log.stop()
        kept = len(await asyncio.gather(*futures))
        (late,) = await asyncio.gather(accept(message_log, arrival()), return_exceptions=True)
        assert isinstance(late, BaseException)
        return kept, late

    kept, late = asyncio.run(scenario())
    assert (kept, count_of(store)) == (50, 50)
    assert isinstance(late, LogClosed)


def test_a_disconnected_sender(store: Database) -> None:
    """A cancelled future affects no others, and its message is stored."""

    async def scenario() -> None:
        message_log = MessageLog(store)
        message_log.start(asyncio.get_running_loop())
        accept(message_log, arrival()).cancel()
        await accept(message_log, arrival())
        await message_log.stop()

    asyncio.run(scenario())
    assert count_of(store) == 2


def test_callback_of_a_batch(store: Database) -> None:
    """The callback of a batch runs once, after the callbacks of its arrivals."""
    calls: list[str] = []
    message_log = MessageLog(store, lambda _: calls.append("batch"))

    async def scenario() -> None:
        message_log.start(asyncio.get_running_loop())
        message_log.submit(arrival("A"), lambda receipt: calls.append(type(receipt).__name__))
        await accept(message_log, arrival("B"))
        await message_log.stop()

    asyncio.run(scenario())
    assert calls[0] == "Receipt"
    assert 1 <= calls.count("batch") <= 3
    assert calls[-1] == "batch"


def test_a_closed_message_log(store: Database) -> None:
    """A closed message log refuses an arrival at once."""
    message_log = MessageLog(store)
    replies: list[Receipt | BaseException] = []

    async def scenario() -> None:
        message_log.start(asyncio.get_running_loop())
        await message_log.stop()
        message_log.submit(arrival("A"), replies.append)

    asyncio.run(scenario())
    assert [type(reply) for reply in replies] == [LogClosed]


def _stored(original: Arrival, message_id: int, edition: int = 0) -> StoredMessage:
    digest = stored_digest(original.digest)
    return StoredMessage(original.identity, digest, edition, message_id, original.ack_code)


def in_parts(control_id: str, **values: Any) -> list[Arrival]:
    first = arrival(control_id, flags=MessageFlag.PART, **values)
    flags = MessageFlag.PART | 1 << PART_NUMBER_SHIFT
    return [first, replace(first, identity=first.identity + 1, flags=flags, refuse_reuse=None)]


def test_unknown_arrivals_are_new() -> None:
    assert decide([arrival("A"), arrival("B")], []) == [AdmissionDecision(0), AdmissionDecision(0)]


def test_a_copy_of_a_stored_message() -> None:
    """Same identity and content as a stored message is a retransmit."""
    assert decide([arrival("A")], [_stored(arrival("A"), 7)]) == [AdmissionDecision(0, stored=7)]


def test_a_copy_within_the_batch() -> None:
    """Two copies in one batch are one message."""
    assert decide([arrival("A"), arrival("A")], []) == [
        AdmissionDecision(0),
        AdmissionDecision(0, batch_position=0),
    ]


def test_a_reused_control_id() -> None:
    """Same control id with other content is a new message, in the batch and in the database."""
    other = arrival("A", content="other")
    assert decide([other], [_stored(arrival("A"), 7)]) == [AdmissionDecision(0, reused=True)]
    assert decide([arrival("A"), other], []) == [
        AdmissionDecision(0),
        AdmissionDecision(0, reused=True),
    ]


def test_the_original_of_a_reused_id_is_still_known() -> None:
    """A retransmit of either message of a reused id is a retransmit."""
    first, other = arrival("A"), arrival("A", content="other")
    known = [_stored(first, 7), _stored(other, 8)]
    assert decide([first, other], known) == [
        AdmissionDecision(0, stored=7),
        AdmissionDecision(0, stored=8),
    ]


def test_a_refusal_is_repeated() -> None:
    """A refused message that is still refused gets the earlier reply."""
    assert decide([refused("A")], [_stored(refused("A"), 7)]) == [AdmissionDecision(0, stored=7)]


def test_a_corrected_refusal() -> None:
    """A refused message that is now accepted is a new message, once."""
    known = [_stored(refused("A"), 7)]
    assert decide([arrival("A"), arrival("A")], known) == [
        AdmissionDecision(1),
        AdmissionDecision(1, batch_position=0),
    ]
    known.append(_stored(arrival("A"), 9, edition=1))
    assert decide([arrival("A")], known) == [AdmissionDecision(1, stored=9)]


def test_an_accepted_message_stays_accepted() -> None:
    """A retransmit of an accepted message is accepted, also if it is refused today."""
    assert decide([refused("A")], [_stored(arrival("A"), 7)]) == [AdmissionDecision(0, stored=7)]


def test_a_refused_reuse_stays_refused() -> None:
    """If reused control ids are refused, a retransmit of the refused message gets its refusal."""
    other = arrival("A", content="other", refuse_reuse=b"NAK")
    known = [_stored(arrival("A"), 7)]
    assert decide([other, other], known) == [
        AdmissionDecision(0, reused=True),
        AdmissionDecision(0, batch_position=0),
    ]
    nak = StoredMessage(other.identity, stored_digest(other.digest), 0, 8, "AE")
    assert decide([other], [*known, nak]) == [AdmissionDecision(0, stored=8)]


def test_the_parts_of_a_reused_control_id() -> None:
    """All parts of a message are stored, or none if the message is refused."""
    known = [_stored(arrival("A"), 7)]
    assert decide(in_parts("A", content="other"), known) == [AdmissionDecision(0, reused=True)] * 2
    assert decide(in_parts("A", content="other", refuse_reuse=b"NAK"), known) == [
        AdmissionDecision(0, reused=True),
        AdmissionDecision(0, first_part=0),
    ]


def test_the_parts_of_a_copy() -> None:
    """No part of a copy is stored, also if the original was not divided."""
    one, two = in_parts("A")
    assert decide([one, two], [_stored(one, 7), _stored(two, 8)]) == [
        AdmissionDecision(0, stored=7),
        AdmissionDecision(0, stored=8),
    ]
    assert decide([arrival("B"), one, two], [_stored(arrival("A"), 7)]) == [
        AdmissionDecision(0),
        AdmissionDecision(0, stored=7),
        AdmissionDecision(0, first_part=1),
    ]


def test_the_parts_of_a_corrected_refusal() -> None:
    """All parts of a message that was refused and is accepted now are stored."""
    assert decide(in_parts("A"), [_stored(refused("A"), 7)]) == [
        AdmissionDecision(1),
        AdmissionDecision(0),
    ]


def test_boundaries_of_parts() -> None:
    """Moving a character to the next part changes the hash."""
    assert signed64(b"ab", b"c") != signed64(b"a", b"bc")
    assert sequential64(b"l", b"a", b"bc", b"1") != sequential64(b"l", b"ab", b"c", b"1")


def test_the_values_never_change() -> None:
    """Later releases compute the same keys, so that they find stored ones."""
    index_key.install(bytes(range(index_key.KEY_BYTES)))
    assert lane("SITE1", "1001") == 5832673093205313604
    assert digest(b"x").hex() == "442a44457137672b3218c1007dc8f76a"


def test_consecutive_control_ids() -> None:
    """Consecutive control ids are on one page of the index."""
    first, second = (sequential64(b"l", b"a", b"f", f"C{n}".encode()) for n in (100_001, 100_002))
    assert second == first + 1


def test_control_ids_with_equal_digits() -> None:
    """The key depends on the number of digits and on the text before them."""
    ids = (b"C0001", b"C00001", b"C000000001", b"C1000000001", b"D0001", b"0001", b"1", b"C01")
    assert len({sequential64(b"l", b"a", b"f", identifier) for identifier in ids}) == len(ids)


def test_a_lane_hides_the_patient_number() -> None:
    assert lane("SITE1|100002") - lane("SITE1|100001") != 1


def test_keys_fit_a_signed_integer() -> None:
    assert all(-(2**63) <= signed64(bytes([n])) < 2**63 for n in range(256))
    ids = (sequential64(b"l", b"a", b"f", f"{n}999999".encode()) for n in range(256))
    assert all(-(2**63) <= identifier < 2**63 for identifier in ids)


PENDING, DELIVERED = AcknowledgmentState.PENDING, AcknowledgmentState.DELIVERED
NOT_REQUIRED = AcknowledgmentState.NOT_REQUIRED


def states(store: Database) -> list[AcknowledgmentState]:
    """Return the acknowledgment states, the oldest message first."""
    return [row.acknowledgment for row in stored_rows.messages(store)][::-1]


def stored(intake: Intake, *arrivals: Arrival) -> list[int]:
    return [receipt.message_id for receipt in intake.enqueue(*arrivals)]


def test_a_claim_records_acknowledgments(store: Database, intake: Intake, inbox: Inbox) -> None:
    """A claim that leaves messages records the acknowledgments of its own messages only."""
    first, second = stored(intake, arrival("A"), arrival("B", patient="2"))
    inbox.acknowledged([first, second])
    (claimed,) = inbox.claim(NOW, 1)
    assert claimed.message_id == first
    assert states(store) == [DELIVERED, PENDING]
    assert inbox.claim(NOW, 1)
    assert states(store) == [DELIVERED, DELIVERED]


@pytest.mark.parametrize("acknowledged", [[], [0], [1]])
def test_one_unsent_acknowledgment(
    store: Database, intake: Intake, inbox: Inbox, acknowledged: list[int]
) -> None:
    """A claim records the acknowledgments that were sent, and no others."""
    ids = stored(intake, arrival(patient="A"), arrival(patient="B"))
    inbox.acknowledged([ids[number] for number in acknowledged])
    assert len(inbox.claim(NOW, 10)) == 2
    expected = [DELIVERED if number in acknowledged else PENDING for number in range(2)]
    assert states(store) == expected


def test_the_acknowledgment_of_a_refusal(store: Database, intake: Intake, inbox: Inbox) -> None:
    """It is recorded by a claim that finds nothing."""
    inbox.acknowledged(stored(intake, refused()))
    assert inbox.claim(NOW, 10) == []
    assert states(store) == [DELIVERED]


def test_acknowledgments_that_are_not_required(
    store: Database, intake: Intake, inbox: Inbox
) -> None:
    """A message without a required acknowledgment keeps its state."""
    inbox.acknowledged(stored(intake, arrival("A", acknowledgment=NOT_REQUIRED)))
    assert inbox.claim(NOW, 1)
    assert states(store) == [NOT_REQUIRED]


def test_settle_and_claim_records_acknowledgments(
    store: Database, intake: Intake, inbox: Inbox
) -> None:
    """A worker settles a batch and claims the next in one transaction."""
    (number,) = stored(intake, arrival("A"))
    inbox.acknowledged([number])
    _, batch = inbox.settle_and_claim([], NOW, 10)
    assert [message.message_id for message in batch.messages] == [number]
    assert states(store) == [DELIVERED]


def test_a_rolled_back_claim_keeps_acknowledgments(
    store: Database, intake: Intake, inbox: Inbox
) -> None:
    """After the rollback the next claim records them."""
    inbox.acknowledged(stored(intake, arrival("A")))

    def claim_and_fail() -> None:
        with store.write() as connection:
            inbox._claim_and_read(connection, NOW, 10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        claim_and_fail()
    assert states(store) == [PENDING]
    assert inbox.claim(NOW, 10)
    assert states(store) == [DELIVERED]


def test_stop_passes_on_the_remaining_acknowledgments(store: Database) -> None:
    passed: list[int] = []

    async def scenario() -> int:
        log = MessageLog(store, passed.extend)
        log.start(asyncio.get_running_loop())
        receipt = await accept(log, arrival())
        log.acknowledged(receipt.message_id)
        await log.stop()
        return receipt.message_id

    assert [asyncio.run(scenario())] == passed


def test_acknowledgments_between_batches_are_passed_on(store: Database) -> None:
    """Without a further arrival."""
    passed: list[int] = []

    async def scenario() -> None:
        log = MessageLog(store, passed.extend)
        log.start(asyncio.get_running_loop())
        log.acknowledged((await accept(log, arrival())).message_id)
        await eventually_async(lambda: bool(passed))
        await log.stop()

    asyncio.run(scenario())
