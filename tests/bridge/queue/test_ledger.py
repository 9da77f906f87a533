"""What the ledger reports as kept is kept, once."""

import asyncio
import dataclasses
import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.queue import browse
from bridge.queue.arrivals import Flag, Receipt
from bridge.queue.browse import Filter
from bridge.queue.errors import LedgerClosed
from bridge.queue.ledger import Ledger
from bridge.queue.states import Acknowledgment, State
from bridge.store.database import Database
from bridge.store.errors import StatementRefused, StoreError
from bridge.store.migrate import upgrade
from tests.bridge.queue.conftest import Intake
from tests.bridge.queue.people import NOW, arrival, refused


def _count(store: Database) -> int:
    with store.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM message")).scalar_one())


def test_an_arrival_is_stored_as_it_came(intake: Intake, store: Database) -> None:
    """Payload, acknowledgment and all that was said about it can be read back."""
    given = arrival("A", flags=Flag.CHARSET_SUSPECT)
    (receipt,) = intake.keep(given)
    detail = browse.message(store, receipt.message_id)
    assert (detail.payload, detail.ack) == (given.payload, given.ack)
    assert (receipt.ack, receipt.ack_code) == (given.ack, "AA")
    assert not receipt.duplicate
    assert not receipt.reused
    row = detail.row
    assert (row.listener, row.message_type, row.mapping) == ("ris-orders", "ORM^O01", "orders")
    assert (row.state, row.acknowledgment) == (State.QUEUED, Acknowledgment.PENDING)
    assert (row.received_at, row.flags, row.ack_code) == (NOW, Flag.CHARSET_SUSPECT, "AA")


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
    assert _count(store) == 1
    assert browse.message(store, first.message_id).row.retransmits == 1


def test_copies_that_arrive_together(intake: Intake, store: Database) -> None:
    """Two copies within one transaction are one message with one acknowledgment."""
    receipts = intake.keep_together(arrival("A"), arrival("B"), arrival("A"))
    assert [receipt.duplicate for receipt in receipts] == [False, False, True]
    assert receipts[2].ack == receipts[0].ack
    assert _count(store) == 2


def test_a_control_id_used_again(intake: Intake, store: Database) -> None:
    """Other content under a known control id is kept as a new message, and flagged."""
    intake.keep(arrival("A"))
    (receipt,) = intake.keep(arrival("A", content="other"))
    assert receipt.reused
    assert not receipt.duplicate
    row = browse.message(store, receipt.message_id).row
    assert (row.state, row.flags) == (State.QUEUED, Flag.REUSED_CONTROL_ID)


def test_a_control_id_used_again_where_that_is_refused(intake: Intake, store: Database) -> None:
    """Where the listener says so, the second use is stored as refused, with its own answer."""
    other = arrival("A", content="other", refuse_reuse=b"NAK", refuse_reuse_code="AR")
    intake.keep(arrival("A"))
    (receipt,) = intake.keep(other)
    assert (receipt.ack, receipt.ack_code, receipt.reused) == (b"NAK", "AR", True)
    row = browse.message(store, receipt.message_id).row
    assert (row.state, row.ack_code, row.error_code) == (State.REFUSED, "AR", "205")
    (again,) = intake.keep(other)
    assert (again.ack, again.ack_code, again.duplicate) == (b"NAK", "AR", True)


def test_a_refusal_put_right(intake: Intake, store: Database) -> None:
    """The same bytes, refused once and understood now, are taken."""
    (no,) = intake.keep(refused("A"))
    (yes,) = intake.keep(arrival("A"))
    assert (no.ack_code, yes.ack_code, yes.duplicate) == ("AE", "AA", False)
    assert browse.message(store, yes.message_id).row.flags == Flag.CORRECTED
    (again,) = intake.keep(arrival("A"))
    assert (again.message_id, again.ack_code) == (yes.message_id, "AA")


def test_a_poisoned_row_fails_alone(intake: Intake, store: Database) -> None:
    """One arrival that cannot be stored fails; its neighbours of the same batch are kept."""
    poison = dataclasses.replace(arrival("P"), received_at=2**70)
    good = [arrival() for _ in range(20)]
    outcomes = intake.outcomes(*good[:10], poison, *good[10:])
    assert isinstance(outcomes.pop(10), StoreError)
    assert not any(isinstance(outcome, BaseException) for outcome in outcomes)
    assert _count(store) == 20
    (receipt,) = intake.keep(good[3])
    assert receipt.duplicate


def test_a_batch_is_kept_whole_or_not_at_all(intake: Intake, store: Database) -> None:
    """One that cannot be stored takes the rest of its batch file with it, and no other."""
    poison = dataclasses.replace(arrival("P"), received_at=2**70)
    with pytest.raises(StatementRefused):
        intake.keep_together(arrival(), poison, arrival())
    assert _count(store) == 0
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
    detail = browse.message(store, receipt.message_id)
    assert (detail.payload, detail.ack) == (payload, payload)


def test_acknowledgments_are_noted(store: Database) -> None:
    """What was written out is noted soon after; a retransmit makes it owed again."""
    given = arrival("A")

    def noted(message_id: int) -> Acknowledgment:
        return browse.message(store, message_id).row.acknowledgment

    async def story() -> list[Acknowledgment]:
        ledger = Ledger(store)
        ledger.start(asyncio.get_running_loop())
        number = (await ledger.accept(given)).message_id
        seen = [noted(number)]
        ledger.acknowledged(number)
        for _ in range(200):
            if noted(number) is Acknowledgment.DELIVERED:
                break
            await asyncio.sleep(0.05)
        seen.append(noted(number))
        await ledger.accept(given)
        seen.append(noted(number))
        ledger.acknowledged(number)
        await ledger.stop()
        return [*seen, noted(number)]

    owed, told = Acknowledgment.PENDING, Acknowledgment.DELIVERED
    assert asyncio.run(story()) == [owed, told, owed, told]


def test_copies_on_two_nodes_at_once(store: Database) -> None:
    """A sender that tries both nodes at the same time is answered alike and stored once."""
    orders = [arrival() for _ in range(200)]

    async def story() -> list[list[Receipt]]:
        nodes = [Ledger(store), Ledger(store)]
        for node in nodes:
            node.start(asyncio.get_running_loop())
        futures = [[node.accept(each) for each in orders] for node in nodes]
        receipts = [await asyncio.gather(*each) for each in futures]
        for node in nodes:
            await node.stop()
        return receipts

    one, two = asyncio.run(story())
    assert _count(store) == 200
    assert [each.message_id for each in one] == [each.message_id for each in two]
    assert all(a.duplicate != b.duplicate for a, b in zip(one, two, strict=True))


def test_what_is_not_owed_stays_so(intake: Intake, store: Database) -> None:
    """A sender that wants no acknowledgment is not noted as waiting for one."""
    given = arrival("A", acknowledgment=Acknowledgment.NOT_OWED)
    (receipt,) = intake.keep(given)
    intake.keep(given)
    row = browse.message(store, receipt.message_id).row
    assert row.acknowledgment is Acknowledgment.NOT_OWED


def test_stop_writes_what_waits(store: Database) -> None:
    """What was accepted before stop() is kept; what comes after fails, and is not kept."""

    async def story() -> tuple[int, BaseException]:
        ledger = Ledger(store)
        ledger.start(asyncio.get_running_loop())
        futures = [ledger.accept(arrival()) for _ in range(50)]
        await ledger.stop()
        kept = len(await asyncio.gather(*futures))
        (late,) = await asyncio.gather(ledger.accept(arrival()), return_exceptions=True)
        assert isinstance(late, BaseException)
        return kept, late

    kept, late = asyncio.run(story())
    assert (kept, _count(store)) == (50, 50)
    assert isinstance(late, LedgerClosed)


def test_a_sender_that_left(store: Database) -> None:
    """A future nobody waits for any more disturbs nobody; the message is kept."""

    async def story() -> None:
        ledger = Ledger(store)
        ledger.start(asyncio.get_running_loop())
        ledger.accept(arrival()).cancel()
        await ledger.accept(arrival())
        await ledger.stop()

    asyncio.run(story())
    assert _count(store) == 2


def test_list_newest_first(intake: Intake, store: Database) -> None:
    """Lists are filtered by state, listener, time and id, newest first."""
    receipts = intake.keep(arrival(), refused(), arrival(received_at=NOW + 5))
    ids = [receipt.message_id for receipt in receipts]

    def found(wanted: Filter) -> list[int]:
        return [row.id for row in browse.messages(store, wanted)]

    assert found(Filter()) == ids[::-1]
    assert found(Filter(limit=1)) == [ids[2]]
    assert found(Filter(before=ids[2])) == [ids[1], ids[0]]
    assert found(Filter(state=State.REFUSED)) == [ids[1]]
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
        arrival(state=State.DONE)


def test_a_batch_is_announced_once_it_is_answered(store: Database) -> None:
    """Whoever asked hears of a commit after those who wait for it, and not for each of them."""
    ledger = Ledger(store)
    told: list[str] = []
    ledger.announce(lambda: told.append("batch"))

    async def scenario() -> None:
        ledger.start(asyncio.get_running_loop())
        ledger.submit(arrival("A"), lambda answer: told.append(type(answer).__name__))
        await ledger.accept(arrival("B"))
        await ledger.stop()

    asyncio.run(scenario())
    assert told[0] == "Receipt"
    assert 1 <= told.count("batch") <= 2
    assert told[-1] == "batch"


def test_what_is_submitted_after_the_end_is_refused_at_once(store: Database) -> None:
    """A closed ledger keeps nobody waiting."""
    ledger = Ledger(store)
    told: list[Receipt | BaseException] = []

    async def scenario() -> None:
        ledger.start(asyncio.get_running_loop())
        await ledger.stop()
        ledger.submit(arrival("A"), told.append)

    asyncio.run(scenario())
    assert [type(each) for each in told] == [LedgerClosed]


@pytest.mark.parametrize("commit_takes", [0.0001, 0.01], ids=["quick disk", "slow disk"])
def test_who_commits(tmp_path: Path, commit_takes: float) -> None:
    """Quick commits are made in the loop's own turn, slow ones never; order holds either way."""
    database = Database(f"sqlite:///{tmp_path / 'bridge.db'}")
    upgrade(database)
    writers: set[str] = set()

    class Clock:
        """Tells that each look at it took as long as a commit."""

        now = 0.0

        def __call__(self) -> float:
            writers.add(threading.current_thread().name)
            self.now += commit_takes
            return self.now

    async def story() -> list[int]:
        ledger = Ledger(database, timer=Clock())
        ledger.start(asyncio.get_running_loop())
        ids = []
        for _ in range(30):
            receipts = await asyncio.gather(*(ledger.accept(arrival()) for _ in range(4)))
            ids += [receipt.message_id for receipt in receipts]
        await ledger.stop()
        return ids

    ids = asyncio.run(story())
    assert ids == sorted(set(ids))
    assert ("MainThread" in writers) is (commit_takes < 0.001)
    database.dispose()
