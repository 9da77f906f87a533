"""A message about more than two patients is a row for each pair, with one acknowledgment."""

import asyncio

import pytest
from sqlalchemy import text
from typing_extensions import override

from bridge.intake.process.jobs import read
from bridge.intake.receive import handler, verdict
from bridge.intake.receive.handler import FrameOffload
from bridge.queue.arrivals import lane
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.workers.offload import LARGE
from config.listeners import Acknowledge, ReusedControlId, SequenceNumbers
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.refusals import AckCode
from mllp.contract import as_deferred
from mllp.framing import Frame
from tests.bridge.intake.fixture import (
    LISTENING,
    FixedCompletion,
    RecordingPeer,
    open_intake,
    order,
)

MERGES = b"".join(
    b"PID|1||N%d||TESTER^TILDA\rMRG|O%d\r" % (number % 3, number) for number in range(4)
)
MANY = order().split(b"\r")[0].replace(b"ORM^O01", b"ADT^A40") + b"\rEVN|A40\r" + MERGES


async def test_a_message_about_many_patients(database: Database) -> None:
    """Each pair has a row in its lanes. The message has one acknowledgment."""
    async with open_intake(database) as intake:
        first = await intake.send(MANY)
        assert read_ack(first[0]).code is AckCode.ACCEPT
        rows = intake.rows("state, acknowledgment, flags, lane_1 <> lane_2")
        assert [(row[0], row[1], row[2] >> 8, bool(row[3])) for row in rows] == [
            ("queued", "not_owed" if number else "pending", number, True) for number in range(4)
        ]
        lanes = {lane for row in intake.rows("lane_1, lane_2") for lane in row}
        assert lanes == {lane(f"SITE1|{mrn}") for mrn in ("N0", "N1", "N2", "O0", "O1", "O2", "O3")}
        assert await intake.send(MANY) == first
        assert len(intake.rows()) == 4


async def test_each_pair_waits_for_its_own_patients(database: Database) -> None:
    """An earlier message about the third pair delays this pair only."""
    async with open_intake(database) as intake:
        for payload in (order("ID0", mrn="O2"), MANY, order("ID2", mrn="O1")):
            assert (await intake.ask(payload)).code is AckCode.ACCEPT
        inbox = Inbox(database, "node-1")
        claimed = inbox.claim(0, 10)
        # The fourth pair waits for the first: both have the same survivor.
        assert [message.message_id for message in claimed] == [1, 2, 3]
        read_events = [
            [(event.mrn, event.prior_mrn) for event in read(message, {"ris": LISTENING}).events]
            for message in claimed[1:]
        ]
        assert read_events == [[("N0", "O0")], [("N1", "O1")]]


async def test_a_message_about_many_patients_in_a_batch(database: Database) -> None:
    """Each message of the batch has its own acknowledgment, for any number of rows."""
    batch = b"BHS|^~\\&|RIS\r" + MANY + order("B2") + b"BTS|2\r"
    async with open_intake(database, numbers=SequenceNumbers.CHECK) as intake:
        (reply,) = await intake.send(batch)
        acknowledgments = [line for line in reply.split(b"\r") if line.startswith(b"MSA")]
        assert acknowledgments == [b"MSA|AA|ID1", b"MSA|AA|B2"]
        assert len(intake.rows()) == 5


async def test_the_next_message_of_the_connection(database: Database) -> None:
    """It is stored after all pairs, also if they have much content together."""
    async with open_intake(database) as intake:
        offload, loop = FrameOffload(intake.handler), asyncio.get_running_loop()
        payloads = [MANY + b"NTE|1||" + b"x" * (LARGE // 2) + b"\r", order("ID2", mrn="O1")]
        with database.write() as connection:  # no large payload can be stored
            if database.dialect == "postgresql":
                connection.execute(text("LOCK TABLE payload_blob IN EXCLUSIVE MODE"))
            first, second = (
                as_deferred(offload, Frame(payload), RecordingPeer()).asFuture(loop)
                for payload in payloads
            )
            await second
        await first
        sizes = intake.rows("length(payload)", "message_body", "message_id")
        assert [size > LARGE // 2 for (size,) in sizes] == [True] * 4 + [False]


async def test_a_reused_control_id_refuses_the_whole_message(database: Database) -> None:
    """No pair of a refused message is stored, alone and in a batch. A copy gets the refusal."""
    batch = b"BHS|^~\\&|RIS\r" + MANY + order("B2") + b"BTS|2\r"
    async with open_intake(database, reuse=ReusedControlId.REFUSE) as intake:
        assert (await intake.ask(order())).code is AckCode.ACCEPT
        for _ in range(2):
            ack = await intake.ask(MANY)
            assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("205",))
        assert intake.rows("state, retransmits") == [("queued", 0), ("refused", 1)]
        (reply,) = await intake.send(batch)
        assert [code in reply for code in (b"MSA|AE|ID1", b"MSA|AA|B2")] == [True, True]
        assert intake.rows("state")[2:] == [("queued",)]


@pytest.mark.parametrize("state", [QueueState.DONE, QueueState.PARKED])
async def test_a_message_about_many_patients_is_applied_as_a_whole(
    database: Database, state: QueueState
) -> None:
    """With `applied` the reply waits for all parts, and the worst outcome decides."""
    completion = CompletionPerPart(state)
    async with open_intake(
        database, completion=completion, acknowledge=Acknowledge.APPLIED
    ) as intake:
        ack = await intake.ask(MANY)
        assert ack.code is (AckCode.ACCEPT if state is QueueState.DONE else AckCode.ERROR)
        assert len(completion.parts) == 4


@pytest.mark.parametrize("acknowledge", [Acknowledge.CHECKED, Acknowledge.STORED])
async def test_a_message_that_is_too_large_for_its_patients(
    database: Database, acknowledge: Acknowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part stores the message: one frame could fill the disk."""
    for module in (verdict, handler):
        monkeypatch.setattr(module, "MAX_PART_BYTES", 4 * len(MANY))
    async with open_intake(database, acknowledge=acknowledge) as intake:
        assert (await intake.ask(MANY)).code is AckCode.ACCEPT
        ack = await intake.ask(MANY.replace(b"|ID1|", b"|ID2|") + b"NTE|1\r")
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("100",))
        assert "too large for its number of patients: PID-3" in ack.text
        assert intake.rows("state")[4:] == [("refused",)]
        others = b"".join(MANY.replace(b"|ID1|", b"|%b|" % item) for item in (b"B1", b"B2"))
        (reply,) = await intake.send(b"BHS|^~\\&|RIS\r" + others + b"BTS|2\r")
        assert [code in reply for code in (b"MSA|AA|B1", b"MSA|AE|B2")] == [True, True]


class CompletionPerPart(FixedCompletion):
    """A waiter that returns another state for the last part."""

    def __init__(self, last: QueueState) -> None:
        super().__init__()
        self.last = last
        self.parts: set[int] = set()

    @override
    def wait(self, message_id: int, limit: float) -> asyncio.Future[QueueState]:
        self.parts.add(message_id)
        self.state = self.last if len(self.parts) == 4 else QueueState.DONE
        return super().wait(message_id, limit)
