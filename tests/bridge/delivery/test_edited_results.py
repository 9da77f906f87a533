"""An operator edits a result and sends it again, in place of one that its receiver refuses."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bridge.admin.errors import InvalidEdit, InvalidState
from bridge.admin.items.resending import SentDelivery
from bridge.delivery.destinations import CompiledDestination
from bridge.queue import queries
from bridge.queue.operations import skip_delivery
from bridge.queue.outbox import Outbox
from bridge.queue.states import QueueState
from bridge.store.database import Database
from config import load
from mappings.hl7.acknowledgment import build_ack
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import AckCode
from tests.bridge.delivery.fixtures import accepting, destination
from tests.bridge.delivery.test_delivery_history import compiled
from tests.bridge.delivery.test_order_to_result import sign_addendum
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.fixture import order
from tests.databases import create_migrated_home
from tests.eventually import eventually_async

STATES = "SELECT id, event, state FROM delivery ORDER BY id"
SETTINGS = '[[destination]]\nname = "{}"\naddress = "127.0.0.1:9"\n'


def sees_all(_sites: object) -> bool:
    return True


def delivery(hospital: Hospital, home: Path, number: int, name: str = "ris") -> SentDelivery:
    """Return a delivery to edit; the settings have the destination `name`."""
    if not home.exists():
        create_migrated_home(home)
        (home / "bridge.toml").write_text(SETTINGS.format(name), "utf-8")
    return SentDelivery(load(home), hospital.database, number)


def edited(original: SentDelivery, before: str, after: str) -> list[str]:
    segments = original.sheet().segments
    assert any(before in segment for segment in segments)
    return [segment.replace(before, after) for segment in segments]


def resend(original: SentDelivery, before: str = "Report.", after: str = "Corrected.") -> int:
    segments = edited(original, before, after)
    assert original.faults(segments, sees_all) == []
    return original.resend(segments, sees_all, "ada@site1.test", "the receiver lacks the code")


def refusing(text: bytes) -> Callable[[bytes], bytes]:
    """Return a receiver that refuses messages with a text."""

    def reply(payload: bytes) -> bytes:
        if text not in payload:
            return accepting(payload)
        now = datetime(2026, 1, 1, tzinfo=UTC)
        return build_ack(peek(payload), AckCode.REJECT, control_id="1", now=now)

    return reply


async def parked_final(hospital: Hospital) -> int:
    await hospital.send(order("ID1", "A1"))
    await hospital.read_and_sign("A1", "Report.")
    await hospital.follow()
    parked = "SELECT id FROM delivery WHERE state = 'parked'"
    await eventually_async(lambda: hospital.rows(parked))
    return int(hospital.rows(parked)[0][0])


async def delivered(hospital: Hospital, number: int) -> Message:
    """Wait until a delivery was accepted; return its message."""
    hospital.couriers[0].notify()
    await eventually_async(
        lambda: queries.delivery(hospital.database, number).row.state == QueueState.DONE
    )
    return Message.parse(hospital.receivers["ris"].sent[-1])


async def test_a_refused_result_is_replaced_by_its_copy(tmp_path: Path, database: Database) -> None:
    """The copy has a new MSH-10 and is linked; the original, which blocked its lane, is skipped."""
    ris = destination(replies={"AR": "park"})
    async with open_hospital(
        tmp_path, database, ris, reply_with={"ris": refusing(b"Report.")}
    ) as hospital:
        number = await parked_final(hospital)
        original = delivery(hospital, tmp_path / "home", number)
        copy = resend(original)
        sent = await delivered(hospital, copy)
        refused = Message.parse(hospital.receivers["ris"].sent[0])
        assert hospital.rows(STATES) == [(number, "final", "cancelled"), (copy, "final", "done")]
        assert sent.value("MSH-10") != refused.value("MSH-10")
        stored = queries.delivery(database, copy).row
        assert stored.control_id == sent.value("MSH-10")
        changed = {
            segment.id
            for segment, before in zip(sent.segments, refused.segments, strict=True)
            if segment.text() != before.text()
        }
        assert changed == {"MSH", "OBX"}
        edits = "SELECT delivery_id, origin_id, email, reason FROM delivery_edit"
        assert hospital.rows(edits) == [
            (copy, number, "ada@site1.test", "the receiver lacks the code")
        ]


async def test_an_equal_copy_is_sent_once(tmp_path: Path, database: Database) -> None:
    """A second press sends nothing; another edit of the original does."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Report.")
        await hospital.follow()
        await hospital.delivered(1)
        ((number, *_),) = hospital.rows(STATES)
        home = tmp_path / "home"
        first = resend(delivery(hospital, home, number))
        assert resend(delivery(hospital, home, number)) == first
        second = resend(delivery(hospital, home, number), after="Corrected again.")
        assert second > first
        await delivered(hospital, second)
        assert [row[2] for row in hospital.rows(STATES)] == ["done"] * 3


async def test_a_copy_of_a_copy(tmp_path: Path, database: Database) -> None:
    """A copy can be edited, too; its original is the copy."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Report.")
        await hospital.follow()
        await hospital.delivered(1)
        ((number, *_),) = hospital.rows(STATES)
        home = tmp_path / "home"
        first = resend(delivery(hospital, home, number))
        await delivered(hospital, first)
        second = resend(delivery(hospital, home, first), "Corrected.", "Third.")
        assert b"Third." in (await delivered(hospital, second)).raw
        origins = "SELECT delivery_id, origin_id FROM delivery_edit ORDER BY delivery_id"
        assert hospital.rows(origins) == [(first, number), (second, first)]


def documents() -> CompiledDestination:
    return destination(mappings=compiled("mdm"))


@pytest.mark.parametrize("is_edited", [False, True])
async def test_document_numbers_do_not_count_a_copy(
    tmp_path: Path, database: Database, is_edited: bool
) -> None:
    """A copy has the document number of its original, and the next document refers to that."""
    async with open_hospital(tmp_path, database, documents()) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "Report.")
        await hospital.follow()
        await hospital.delivered(1)
        ((number, *_),) = hospital.rows(STATES)
        report = Message.parse(hospital.receivers["ris"].sent[-1])
        if is_edited:
            copy = resend(delivery(hospital, tmp_path / "home", number))
            sent = await delivered(hospital, copy)
            assert sent.value("TXA-12") == report.value("TXA-12")
        await sign_addendum(page, "Addition.")
        await hospital.follow()
        sent_messages = await hospital.delivered(3 if is_edited else 2)
        addendum = Message.parse(sent_messages[-1])
        assert addendum.value("TXA-13") == report.value("TXA-12")
        assert addendum.value("TXA-12").endswith(".A1")


async def test_an_older_result_is_not_sent_after_a_newer_one(
    tmp_path: Path, database: Database
) -> None:
    """The copy would replace the newer text at the receiver, so it is refused."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "Report.")
        await hospital.follow()
        await hospital.delivered(1)
        await sign_addendum(page, "Addition.")
        await hospital.follow()
        await hospital.delivered(2)
        (number, *_), (newest, *_) = hospital.rows(STATES)
        original = delivery(hospital, tmp_path / "home", number)
        segments = edited(original, "Report.", "Corrected.")
        (fault,) = original.faults(segments, sees_all)
        assert "a newer result of this order" in fault.text
        with pytest.raises(InvalidState, match="newer result"):
            original.resend(segments, sees_all, "ada@site1.test", "x")
        resend(delivery(hospital, tmp_path / "home", newest))


async def test_what_cannot_be_edited(tmp_path: Path, database: Database) -> None:
    """Not before it is composed, not while it is sent, and not for a destination that is gone."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        hospital.couriers[0].pause()
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Report.")
        await hospital.follow()
        ((number, *_),) = hospital.rows(STATES)

        def faults(name: str = "ris") -> list[str]:
            known = delivery(hospital, tmp_path / name, number, name)
            return [fault.text for fault in known.faults(["MSH|^~\\&|A"], sees_all)]

        assert faults() == ["its message was not composed yet"]
        outbox = Outbox(database, "other")
        (claimed,) = outbox.claim("ris", hospital.time(), 1)
        outbox.store_payloads({claimed.delivery_id: (order("ID1", "A1"), "C1")})
        assert faults() == ["it is being sent now"]
        outbox.release([number], hospital.time())
        assert faults("his") == ["its destination is no longer in the settings"]
        skip_delivery(database, number)
        original = delivery(hospital, tmp_path / "ris", number)
        unchanged: Any = original.sheet().segments
        with pytest.raises(InvalidEdit, match="nothing was changed"):
            original.faults(unchanged, sees_all)
        other_id = [unchanged[0].replace("ID1", "MINE"), *unchanged[1:]]
        with pytest.raises(InvalidEdit, match="nothing was changed"):
            original.faults(other_id, sees_all)
        with pytest.raises(InvalidEdit, match="begins with MSH"):
            original.faults(["PID|1"], sees_all)
