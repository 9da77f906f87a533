"""A result that was skipped and is retried after newer results of its report were delivered."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from bridge.delivery.destinations import CompiledDestination
from bridge.queue.deliveries import DeliveryOutcome
from bridge.queue.operations import retry_delivery, skip_delivery
from bridge.queue.outbox import Outbox
from bridge.queue.states import QueueEvent
from bridge.store.database import Database
from mappings.hl7.acknowledgment import build_ack
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import AckCode
from mappings.outbound.results import ResultEvent
from tests.bridge.delivery.fixtures import Page, accepting, destination
from tests.bridge.delivery.test_delivery_history import compiled
from tests.bridge.delivery.test_order_to_result import sign_addendum, texts
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import eventually_async

DELIVERIES = "SELECT event, state, code FROM delivery ORDER BY id"
REPLIES = {"AR": "park"}


def refusing_the_first_text() -> Callable[[bytes], bytes]:
    """Return a receiver that refuses the first message with the report, and accepts the others."""
    refused = list[bytes]()

    def reply(payload: bytes) -> bytes:
        if refused or b"Report." not in payload:
            return accepting(payload)
        refused.append(payload)
        now = datetime(2026, 1, 1, tzinfo=UTC)
        return build_ack(peek(payload), AckCode.REJECT, control_id="1", now=now)

    return reply


async def skip_the_final(hospital: Hospital) -> tuple[Page, int]:
    """Let the receiver refuse the final result, and skip it; return the report and its delivery."""
    await hospital.send(order("ID1", "A1"))
    page = await hospital.read_and_sign("A1", "Report.")
    await hospital.follow()
    parked = "SELECT id FROM delivery WHERE state = 'parked'"
    await eventually_async(lambda: hospital.rows(parked))
    ((number,),) = hospital.rows(parked)
    skip_delivery(hospital.database, number)
    return page, number


async def test_a_newer_result_has_the_whole_text(tmp_path: Path, database: Database) -> None:
    """The retried result is not sent; the receiver keeps the newest text."""
    ris = destination(replies=REPLIES)
    async with open_hospital(
        tmp_path, database, ris, reply_with={"ris": refusing_the_first_text()}
    ) as hospital:
        page, number = await skip_the_final(hospital)
        await sign_addendum(page, "Addition.")
        await hospital.follow()
        await hospital.delivered(2)
        retry_delivery(database, number)
        hospital.couriers[0].notify()
        await eventually_async(lambda: hospital.rows(DELIVERIES)[0][1] == "ignored")
        assert hospital.rows(DELIVERIES) == [
            ("final", "ignored", "superseded"),
            ("addendum", "done", "AA"),
        ]
        assert "Addition." in texts(hospital.receivers["ris"].sent[-1])
        await sign_addendum(page, "Another.")
        await hospital.follow()
        sent = await hospital.delivered(3)
    assert {"Report.", "Addition.", "Another."} <= set(texts(sent[-1]))
    assert Message.parse(sent[-1]).value("OBR-25") == "C"


async def skip_before_composing(hospital: Hospital) -> int:
    """Pause the courier, skip a final result and queue its addendum; return the skipped id."""
    hospital.couriers[0].pause()
    await hospital.send(order("ID1", "A1"))
    page = await hospital.read_and_sign("A1", "Report.")
    await hospital.follow()
    ((number,),) = hospital.rows("SELECT id FROM delivery")
    skip_delivery(hospital.database, number)
    await sign_addendum(page, "Addition.")
    await hospital.follow()
    return int(number)


async def test_a_result_that_was_never_composed(tmp_path: Path, database: Database) -> None:
    """A result that was skipped before its first attempt is not sent after a newer one, either."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        number = await skip_before_composing(hospital)
        hospital.couriers[0].resume()
        await hospital.delivered(1)
        retry_delivery(database, number)
        hospital.couriers[0].notify()
        await eventually_async(lambda: hospital.rows(DELIVERIES)[0][1] == "ignored")
        assert hospital.rows(DELIVERIES) == [
            ("final", "ignored", "superseded"),
            ("addendum", "done", "AA"),
        ]
        assert len(hospital.receivers["ris"].sent) == 1


async def test_a_newer_result_that_is_being_sent(tmp_path: Path, database: Database) -> None:
    """The retried result waits for the outcome of the newer one, which another node sends."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        number = await skip_before_composing(hospital)
        other = Outbox(database, "another")
        (newer,) = other.claim("ris", hospital.time(), 1)
        retry_delivery(database, number)
        hospital.couriers[0].resume()
        assert Outbox(database, "third").claim("ris", hospital.time(), 1) == []
        other.settle([DeliveryOutcome(newer.delivery_id, QueueEvent.ACCEPTED)], hospital.time())
        ignored = ("final", "ignored", "superseded")
        await eventually_async(lambda: hospital.rows(DELIVERIES)[0] == ignored)
        assert hospital.receivers["ris"].sent == []


def documents() -> CompiledDestination:
    return destination(mappings=compiled("mdm"), replies=REPLIES)


async def test_a_newer_result_has_only_its_addendum(tmp_path: Path, database: Database) -> None:
    """The retried report is sent, because no other document has its text."""
    async with open_hospital(
        tmp_path, database, documents(), reply_with={"ris": refusing_the_first_text()}
    ) as hospital:
        page, number = await skip_the_final(hospital)
        await sign_addendum(page, "Addition.")
        await hospital.follow()
        await hospital.delivered(2)
        retry_delivery(database, number)
        hospital.couriers[0].notify()
        await hospital.delivered(3)
        await sign_addendum(page, "Another.")
        await hospital.follow()
        await hospital.delivered(4)
        sent = [Message.parse(message) for message in hospital.receivers["ris"].sent]
    assert [m.value("MSH-9.2") for m in sent] == ["T02", "T06", "T02", "T06"]
    assert hospital.receivers["ris"].sent[2] == hospital.receivers["ris"].sent[0]
    names = [(m.value("TXA-12"), m.value("TXA-13")) for m in sent]
    assert [parent for _, parent in names] == ["", names[0][0], "", names[0][0]]
    assert len({number for number, _ in names[1:]}) == 3


async def test_a_newer_status_has_no_text(tmp_path: Path, database: Database) -> None:
    """The retried result is sent after a newer status message."""
    events = frozenset({ResultEvent.FINAL, ResultEvent.ORDER_STATUS})
    ris = destination(events=events, replies=REPLIES)
    async with open_hospital(
        tmp_path, database, ris, reply_with={"ris": refusing_the_first_text()}
    ) as hospital:
        page, number = await skip_the_final(hospital)
        await sign_addendum(page, "Addition.")
        await hospital.follow()
        await eventually_async(
            lambda: hospital.rows(DELIVERIES)[-1] == ("order-status", "done", "AA")
        )
        refused = hospital.receivers["ris"].sent[-2]
        before = len(hospital.receivers["ris"].sent)
        retry_delivery(database, number)
        hospital.couriers[0].notify()
        sent = await hospital.delivered(before + 1)
    assert sent[-1] == refused


async def test_a_delivered_result_is_repeated(tmp_path: Path, database: Database) -> None:
    """A retry of an accepted result sends its bytes again, whatever followed it."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "Report.")
        await sign_addendum(page, "Addition.")
        await hospital.follow()
        await hospital.delivered(2)
        done = "SELECT id FROM delivery WHERE state = 'done' ORDER BY id"
        await eventually_async(lambda: len(hospital.rows(done)) == 2)
        retry_delivery(database, hospital.rows(done)[0][0])
        hospital.couriers[0].notify()
        sent = await hospital.delivered(3)
    assert sent[2] == sent[0]
