"""An order becomes a result, and an addendum a correction, with the real report engine."""

from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.contract import OrderKey
from bridge.delivery.composer import result_orders
from bridge.orders.order import Order, OrderState
from bridge.queue import operations
from bridge.store.database import Database
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.outbound.results import ResultEvent
from mllp.errors import NotConnected
from tests.bridge.delivery.fixtures import EVERYTHING, SITE, Page, accepting, destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.fixture import order
from tests.bridge.intake.process.test_order_processor import group, message
from tests.eventually import eventually_async

A1 = OrderKey(SITE, "M1", "A1")
DELAY = 60  # seconds
POLL = 30  # ms: more than a poller waits before it asks again


def texts(payload: bytes) -> list[str]:
    """Return each OBX-5 of a message."""
    return Message.parse(payload).values("OBX[*]-5")


@pytest.mark.parametrize("code", [b"AE|{}||||102", b"AR|{}"])
async def test_a_refused_order_delays_no_other_order_of_its_report(
    tmp_path: Path, database: Database, code: bytes
) -> None:
    """After AA, AE, AA one delivery is open; its addendum waits for it, also after a restart."""

    def reply(payload: bytes) -> bytes:
        if b"|A2|" not in payload:
            return accepting(payload)
        msa, _, error = code.replace(b"{}", peek(payload).control_id).partition(b"||")
        return accepting(payload).split(b"MSA")[0] + b"MSA|" + msa + b"\rERR|||" + error + b"\r"

    refusing = destination(replies={"AR": "park"})
    states = "SELECT state FROM delivery ORDER BY id"
    async with open_hospital(tmp_path, database, refusing, reply_with={"ris": reply}) as hospital:
        await hospital.send(message(group("A1"), group("A2"), group("A3")))
        page = await hospital.read_and_sign("A1", "All three.")
        await hospital.follow()
        await eventually_async(lambda: hospital.rows(states) == [("done",), ("parked",), ("done",)])
        await page("addendum/create")
        await page("addendum/save", text="More.")
        await page("addendum/sign")
        await hospital.follow()
        after = [("done",), ("parked",), ("done",), ("done",), ("queued",), ("done",)]
        await eventually_async(lambda: hospital.rows(states) == after)
    async with open_hospital(tmp_path, database, refusing) as hospital:
        assert hospital.rows(states) == after
        operations.retry_delivery(database, 2)
        hospital.couriers[0].notify()
        await eventually_async(
            lambda: hospital.rows("SELECT DISTINCT state FROM delivery") == [("done",)]
        )
        sent = [
            Message.parse(payload).value("OBR-25") for payload in hospital.receivers["ris"].sent
        ]
        assert sent == ["F", "C"], "the result before its addendum"


async def test_reading_twice_sends_once(tmp_path: Path, database: Database) -> None:
    """Reading the feed again and polling the status send nothing new."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Once.")
        await hospital.follow()
        await hospital.delivered(1)
        with database.write() as connection:
            connection.exec_driver_sql("DELETE FROM feed_cursor")
            connection.exec_driver_sql("DELETE FROM known_report")
        await hospital.follow()
        await hospital.poller.poll()
        assert hospital.rows("SELECT count(*) FROM delivery") == [(1,)]
        assert len(hospital.receivers["ris"].sent) == 1


async def test_a_destination_gets_its_sites_and_events(tmp_path: Path, database: Database) -> None:
    async with open_hospital(
        tmp_path,
        database,
        destination("other_site", sites=frozenset({"SITE2"})),
        destination("finals", events=frozenset({ResultEvent.FINAL})),
        destination("everything", events=EVERYTHING),
    ) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.page("A1")
        await page("save", text="Read.")
        await hospital.client.prelim(A1, "Residents", "R1")
        await page("sign")
        await page("addendum/create")
        await page("addendum/save", text="More.")
        await page("addendum/sign")
        await hospital.follow()
        await eventually_async(lambda: b"More." in b"".join(hospital.receivers["everything"].sent))
        assert hospital.receivers["other_site"].sent == []
        (final,) = hospital.receivers["finals"].sent
        assert Message.parse(final).value("OBR-25") == "F"
        statuses = [
            (m.value("MSH-9.1"), m.value("OBR-25"))
            for m in map(Message.parse, hospital.receivers["everything"].sent)
        ]
        assert ("ORU", "P") in statuses
        assert (
            statuses.index(("ORU", "P"))
            < statuses.index(("ORU", "F"))
            < statuses.index(("ORU", "C"))
        )


async def test_without_the_feed_the_status_poll_finds_everything(
    tmp_path: Path, database: Database
) -> None:
    """Preliminary read, recall, final and addendum are each found once, in order."""
    async with open_hospital(
        tmp_path, database, destination(events=EVERYTHING), sign_delay=DELAY
    ) as hospital:
        await hospital.send(order("ID1", "A1"))

        async def poll(later: int = 120_000) -> None:
            hospital.time.leap += later
            await hospital.poller.poll()

        await hospital.poller.poll()
        page = await hospital.page("A1")
        await page("save", text="Read.")
        await poll()
        await page("sign")
        await poll(POLL)
        assert not any(b"Read." in payload for payload in hospital.receivers["ris"].sent)
        await page("unsign")
        await poll(POLL)
        await page("sign")
        await hospital.client.sign(A1, ignore_sign_delay=True)
        await poll()
        await page("addendum/create")
        await page("addendum/save", text="More.")
        await page("addendum/sign")
        await poll()
        await poll()
        await eventually_async(
            lambda: any(b"More." in payload for payload in hospital.receivers["ris"].sent)
        )
        statuses = [
            Message.parse(payload).value("OBR-25")
            for payload in hospital.receivers["ris"].sent
            if b"Read." in payload
        ]
        assert statuses == ["F", "C"]


async def test_a_restarted_courier(tmp_path: Path, database: Database) -> None:
    """The courier sends a message in flight at the stop again, with the same control id."""
    async with open_hospital(
        tmp_path, database, destination(), reply_with={"ris": lambda _: None}
    ) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Text.")
        await hospital.follow()
        (first,) = await hospital.delivered(1)
        await hospital.couriers[0].stop(drain=0.05)
        assert hospital.rows("SELECT state FROM delivery") == [("queued",)]
    async with open_hospital(tmp_path, database, destination()) as hospital:
        (again,) = await hospital.delivered(1)
        assert again == first


async def test_a_report_without_an_order(tmp_path: Path, database: Database) -> None:
    """The ORU of a report launched by a host has the tags of the service."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.read_and_sign("A7", "By call.", "M7")
        await hospital.follow()
        (oru,) = await hospital.delivered(1)
        parsed = Message.parse(oru)
        assert (parsed.value("PID-3.1"), parsed.value("OBR-18")) == ("M7", "A7")
        assert "By call." in texts(oru)


async def test_another_patient_with_the_accession(tmp_path: Path, database: Database) -> None:
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A7", "M9").replace(b"TESTER^TILDA", b"OTHER^OLGA"))
        await hospital.read_and_sign("A7", "By call.", "M7")
        await hospital.follow()
        (oru,) = await hospital.delivered(1)
        parsed = Message.parse(oru)
        assert (parsed.value("PID-3.1"), parsed.value("OBR-18")) == ("M7", "A7")
        assert (parsed.value("ORC-2"), parsed.value("OBR-2")) == ("", "")
        assert b"OTHER^OLGA" not in oru


async def test_a_merged_patient_keeps_the_numbers_of_the_order(
    tmp_path: Path, database: Database
) -> None:
    """The result has the surviving MRN and the order's own numbers."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.send(
            b"MSH|^~\\&|ADT|MAIN|BRIDGE|RAD|20261121||ADT^A40|D1|P|2.3.1\rEVN|A40|20261121\r"
            b"PID|1||M2||TESTER^TILDA||19700101|F\rMRG|M1\r"
        )
        await hospital.read_and_sign("A1", "Merged.", "M2")
        await hospital.follow()
        (oru,) = await hospital.delivered(1)
        parsed = Message.parse(oru)
        assert (parsed.value("PID-3.1"), parsed.value("ORC-2")) == ("M2", "PA1")


async def test_a_patient_whom_a_host_merged(tmp_path: Path, database: Database) -> None:
    """The bridge has no pointer, but the report of the order is the same."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.client.merge_patients(SITE, "M2", "M1")
        await hospital.read_and_sign("A1", "Merged.", "M2")
        await hospital.follow()
        (oru,) = await hospital.delivered(1)
        parsed = Message.parse(oru)
        assert (parsed.value("PID-3.1"), parsed.value("ORC-2")) == ("M2", "PA1")


async def queue_result(hospital: Hospital) -> None:
    hospital.couriers[0].pause()
    await hospital.send(order("ID1", "A1"))
    await hospital.read_and_sign("A1", "Merged while it waited.")
    await hospital.follow()


async def test_another_patient_with_the_accession_is_no_survivor(
    tmp_path: Path, database: Database
) -> None:
    """A merged patient does not get the name of an order that belongs to another patient."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await queue_result(hospital)
        await hospital.send(
            b"MSH|^~\\&|ADT|MAIN|BRIDGE|RAD|20261121||ADT^A40|D1|P|2.3.1\rEVN|A40|20261121\r"
            b"PID|1||M2||TESTER^TILDA||19700101|F\rMRG|M1\r"
        )
        await hospital.send(order("ID2", "A1", "M9").replace(b"TESTER^TILDA", b"OTHER^OLGA"))
        with database.write() as connection:  # retention
            connection.execute(text("DELETE FROM order_signal"))
            connection.execute(text("DELETE FROM bridge_order WHERE mrn = 'M2'"))
        hospital.couriers[0].resume()
        (oru,) = await hospital.delivered(1)
        assert b"OTHER^OLGA" not in oru


async def test_a_result_that_waited_while_its_patient_was_merged(
    tmp_path: Path, database: Database
) -> None:
    """The message has the surviving identifier."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await queue_result(hospital)
        await hospital.send(
            b"MSH|^~\\&|ADT|MAIN|BRIDGE|RAD|20261121||ADT^A40|D1|P|2.3.1\rEVN|A40|20261121\r"
            b"PID|1||M2^^^MAIN||SURVIVOR^TILDA||19700102|F\rMRG|M1\r"
        )
        hospital.couriers[0].resume()
        (oru,) = await hospital.delivered(1)
        parsed = Message.parse(oru)
        assert [parsed.value(f"PID-{n}") for n in ("3", "5", "7")] == [
            "M2^^^MAIN", "SURVIVOR^TILDA", "19700102",
        ]  # fmt: skip


async def test_a_result_whose_receiver_was_down_while_its_patient_was_merged(
    tmp_path: Path, database: Database
) -> None:
    """A message that was composed, but never sent, is composed again for the survivor."""
    accepted: list[bytes] = []
    is_down = True

    def receive(payload: bytes) -> bytes:
        if is_down:
            raise NotConnected
        accepted.append(payload)
        return accepting(payload)

    async with open_hospital(
        tmp_path, database, destination(), reply_with={"ris": receive}
    ) as hospital:
        for accession in ("A1", "A2"):
            await hospital.send(order(f"ID{accession}", accession))
            await hospital.read_and_sign(accession, "Merged while it waited.")
        await hospital.follow()
        before = len(await hospital.delivered(1))
        await hospital.send(
            b"MSH|^~\\&|ADT|MAIN|BRIDGE|RAD|20261121||ADT^A40|D1|P|2.3.1\rEVN|A40|20261121\r"
            b"PID|1||M2||TESTER^TILDA||19700101|F\rMRG|M1\r"
        )
        await hospital.delivered(before + 3)  # claimed after the merge
        is_down = False
        await eventually_async(lambda: len(accepted) == 2)
        found = [Message.parse(item) for item in accepted]
    assert {(item.value("PID-3.1"), item.value("OBR-18")) for item in found} == {
        ("M2", "A1"),
        ("M2", "A2"),
    }


def test_several_procedures_of_an_order() -> None:
    """Each procedure has the numbers of its own ORC; those of the order belong to the first."""
    lines = ("ORC|NW|P1|F1", "OBR|1|P1|F1|X^One", "ORC|NW|P2|F2", "OBR|2|P2|F2|Y^Two")
    key = OrderKey(SITE, "M1", "A1")
    index = Order(key, OrderState.ORDERED, 1, 1, placer="P1", filler="F1", echo=lines)
    first, second = result_orders({"Accession": "A1"}, index)
    assert (first.placer, first.filler, first.echo) == ("P1", "F1", lines[:2])
    assert (second.placer, second.filler, second.echo) == ("", "", lines[2:])


UNDELIVERED = "SELECT count(*) FROM delivery WHERE state IN ('queued', 'claimed')"


async def sign_addendum(page: Page, text: str) -> None:
    await page("addendum/create")
    await page("addendum/save", text=text)
    await page("addendum/sign")


async def test_an_addendum_is_a_correction_of_the_same_report(
    tmp_path: Path, database: Database
) -> None:
    """The addendum's ORU holds the report and the addendum, and follows the report's ORU."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "Report.")
        await sign_addendum(page, "Addition.")
        await hospital.follow()
        first, second = await hospital.delivered(2)
        assert "Addition." not in texts(first)
        assert {"Report.", "Addition."} <= set(texts(second))
        assert Message.parse(second).value("OBR-25") == "C"


async def test_an_addendum_in_its_sign_delay_is_not_sent(
    tmp_path: Path, database: Database
) -> None:
    """Number 1 was recalled: number 2 holds 2 only, and 3 is sent after its delay."""
    async with open_hospital(tmp_path, database, destination(), sign_delay=DELAY) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "Report.")
        await sign_addendum(page, "Cleared.")
        await hospital.client.release_addendum(A1)
        await page("unsign")
        await page("sign")
        await hospital.client.sign(A1, ignore_sign_delay=True)
        await hospital.follow()
        await eventually_async(lambda: hospital.rows(UNDELIVERED) == [(0,)])
        before = len(hospital.receivers["ris"].sent)
        await sign_addendum(page, "Second.")
        await hospital.client.release_addendum(A1)
        await sign_addendum(page, "Third.")
        await hospital.follow()
        sent = await hospital.delivered(before + 1)
        assert {"Report.", "Second."} <= set(texts(sent[-1]))
        assert not {"Cleared.", "Third."} & set(texts(sent[-1]))
        await hospital.client.release_addendum(A1)
        await hospital.follow()
        sent = await hospital.delivered(before + 2)
        assert {"Second.", "Third."} <= set(texts(sent[-1]))
