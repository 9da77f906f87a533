"""Preliminary reads that are withdrawn, and reads that are valid again after a recall."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bridge.contract import OrderKey
from bridge.store.database import Database
from mappings.hl7.message import Message
from tests.bridge.delivery.fixtures import SITE, TOKEN, Page, destination
from tests.bridge.delivery.test_delivery_history import RESULTS, UNSENT, compiled
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import eventually_async

A1 = OrderKey(SITE, "M1", "A1")
DELAY = 86_400  # seconds
Learn = Callable[[Hospital], Awaitable[None]]


async def by_feed(hospital: Hospital) -> None:
    await hospital.follow()


async def by_poll(hospital: Hospital) -> None:
    hospital.time.leap += 1_200_000  # each report is due
    await hospital.poller.poll()


LEARNT = pytest.mark.parametrize("learn", [by_feed, by_poll], ids=["feed", "poll"])


async def open_report(hospital: Hospital) -> Page:
    await hospital.send(order("ID1", "A1"))
    return await hospital.page("A1")


async def read(hospital: Hospital, page: Page, text: str = "First look.") -> None:
    """Write a text, and save it as a preliminary read."""
    await page("save", text=text)
    await hospital.client.prelim(A1, "Residents", "R1")


async def withdraw(hospital: Hospital) -> None:
    """Withdraw the newest preliminary read."""
    response = await hospital.http.post(
        "/api/report/prelim/withdraw",
        json={"clinicalInfo": A1.tags()},
        headers={"x-access-token": TOKEN},
    )
    assert response.status_code == 200, response.text


async def settled(hospital: Hospital) -> None:
    """Wait until every delivery is sent or ignored."""
    await eventually_async(lambda: hospital.rows(UNSENT) == [(0,)])


def summary(payload: bytes) -> tuple[str, ...]:
    """Return the numbers of the order and the status of the result."""
    message = Message.parse(payload)
    places = ("ORC-1", "ORC-2", "ORC-3", "OBR-2", "OBR-25", "OBX-11")
    return tuple(message.value(place) for place in places)


@LEARNT
async def test_the_receiver_of_a_withdrawn_read(
    tmp_path: Path, database: Database, learn: Learn
) -> None:
    """The receiver gets one ORU with X and without the text, and none after a restart."""
    ris = destination("ris", events=RESULTS)
    finals = destination("finals")
    async with open_hospital(tmp_path, database, ris, finals) as hospital:
        await learn(hospital)
        page = await open_report(hospital)
        await learn(hospital)
        await read(hospital, page)
        await learn(hospital)
        await hospital.delivered(1)
        await withdraw(hospital)
        await learn(hospital)
        sent = list(await hospital.delivered(2))
        await learn(hospital)
        await settled(hospital)
        assert hospital.receivers["ris"].sent == sent
        assert hospital.receivers["finals"].sent == []
    first, gone = map(summary, sent)
    assert first[-2:] == ("P", "P")
    assert gone == (*first[:-2], "X", "X")
    assert first[1] == "PA1"
    assert b"First look." not in sent[1]
    async with open_hospital(tmp_path, database, ris, finals) as hospital:
        await learn(hospital)
        await settled(hospital)
        assert hospital.receivers["ris"].sent == []


@LEARNT
async def test_a_read_that_was_withdrawn_before_it_was_sent(
    tmp_path: Path, database: Database, learn: Learn
) -> None:
    """The receiver gets neither the text nor a correction."""
    ris = destination("ris", events=RESULTS)
    async with open_hospital(tmp_path, database, ris) as hospital:
        hospital.couriers[0].pause()
        page = await open_report(hospital)
        await learn(hospital)
        await read(hospital, page)
        await learn(hospital)
        await withdraw(hospital)
        await learn(hospital)
        hospital.couriers[0].resume()
        await settled(hospital)
        assert hospital.receivers["ris"].sent == []
        assert hospital.rows("SELECT event, state, code FROM delivery ORDER BY id") == [
            ("preliminary", "ignored", "gone"),
            ("cancellation", "ignored", "never_told"),
        ]


async def test_a_second_read_that_was_withdrawn_before_it_was_sent(
    tmp_path: Path, database: Database
) -> None:
    """A read that was sent and cancelled before does not count as received."""
    ris = destination("ris", events=RESULTS)
    async with open_hospital(tmp_path, database, ris) as hospital:
        page = await open_report(hospital)
        for number in (1, 2):
            await read(hospital, page)
            if number == 1:
                await hospital.follow()
                await hospital.delivered(1)
            await withdraw(hospital)
            await hospital.follow()
            await hospital.delivered(2)
        await settled(hospital)
        assert len(hospital.receivers["ris"].sent) == 2
        codes = "SELECT code FROM delivery WHERE state = 'ignored' ORDER BY id"
        assert hospital.rows(codes) == [("gone",), ("never_told",)]


async def test_an_earlier_read_replaces_the_withdrawn_one(
    tmp_path: Path, database: Database
) -> None:
    """The report stays Preliminary, and the receiver gets the earlier read again."""
    ris = destination("ris", events=RESULTS)
    async with open_hospital(tmp_path, database, ris) as hospital:
        page = await open_report(hospital)
        for number in (1, 2):
            await read(hospital, page, f"Read {number}.")
            await hospital.follow()
            await hospital.delivered(number)
            hospital.time.leap += 1000
        await withdraw(hospital)
        await hospital.follow()
        sent = [Message.parse(message) for message in await hospital.delivered(3)]
        await settled(hospital)
    results = [(message.value("OBR-25"), message.value("OBX-5")) for message in sent]
    assert results == [("P", "Read 1."), ("P", "Read 2."), ("P", "Read 1.")]


@LEARNT
async def test_a_read_that_was_signed_and_recalled_before_it_was_sent(
    tmp_path: Path, database: Database, learn: Learn
) -> None:
    ris = destination("ris", events=RESULTS)
    async with open_hospital(tmp_path, database, ris, sign_delay=DELAY) as hospital:
        hospital.couriers[0].pause()
        page = await open_report(hospital)
        await learn(hospital)
        await read(hospital, page)
        await learn(hospital)
        await page("sign")
        await learn(hospital)
        hospital.couriers[0].resume()
        await settled(hospital)
        assert hospital.receivers["ris"].sent == []
        await page("unsign")
        await learn(hospital)
        (sent,) = await hospital.delivered(1)
    assert summary(sent)[-2:] == ("P", "P")
    assert b"First look." in sent


@LEARNT
async def test_a_read_that_was_sent_before_its_report_was_recalled(
    tmp_path: Path, database: Database, learn: Learn
) -> None:
    """The receiver has the read, and does not get it again after any recall."""
    ris = destination("ris", events=RESULTS)
    async with open_hospital(tmp_path, database, ris, sign_delay=DELAY) as hospital:
        page = await open_report(hospital)
        await learn(hospital)
        await read(hospital, page)
        await learn(hospital)
        await hospital.delivered(1)
        for _ in range(2):
            await page("sign")
            await learn(hospital)
            await page("unsign")
            await learn(hospital)
            await settled(hospital)
        assert len(hospital.receivers["ris"].sent) == 1


async def test_a_second_read_that_was_signed_and_recalled_before_it_was_sent(
    tmp_path: Path, database: Database
) -> None:
    """The receiver of the first read gets the second one after the recall."""
    ris = destination("ris", events=RESULTS)
    async with open_hospital(tmp_path, database, ris, sign_delay=DELAY) as hospital:
        page = await open_report(hospital)
        await read(hospital, page, "Read 1.")
        await hospital.follow()
        await hospital.delivered(1)
        hospital.time.leap += 1000
        await read(hospital, page, "Read 2.")
        await page("sign")
        await hospital.follow()
        await settled(hospital)
        await page("unsign")
        await hospital.follow()
        _, second = map(Message.parse, await hospital.delivered(2))
    assert second.value("OBX-5") == "Read 2."


async def test_the_status_table_of_the_definition_decides(
    tmp_path: Path, database: Database
) -> None:
    """A definition may delete the observation (D) instead."""
    statuses = {
        "preliminary": {"result": "P", "observation": "P"},
        "cancellation": {"result": "X", "observation": "D"},
    }
    ris = destination("ris", mappings=compiled("results", statuses=statuses), events=RESULTS)
    async with open_hospital(tmp_path, database, ris) as hospital:
        page = await open_report(hospital)
        await read(hospital, page)
        await hospital.follow()
        await hospital.delivered(1)
        await withdraw(hospital)
        await hospital.follow()
        _, deleted = map(Message.parse, await hospital.delivered(2))
    assert (deleted.value("OBR-25"), deleted.value("OBX-11")) == ("X", "D")
