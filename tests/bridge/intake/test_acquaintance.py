"""Listeners that redirect nobody say so at once: AE 204 for an identifier that was merged."""

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from bridge.intake.receive.listener import Acknowledge, Merged
from bridge.intake.receive.offload import FrameOffload
from bridge.store.database import Database
from bridge.store.records import merged_patients
from bridge.wiring.listeners import merged_patient_check, with_checks
from mappings.hl7.tables import AckCode
from tests.bridge.intake.desk import LISTENING, Desk, open_desk, order
from tests.bridge.intake.stories import adt

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def refusing(database: Database, merged: Merged = Merged.REFUSE) -> AsyncIterator[Desk]:
    """A desk whose listener redirects nobody; O1 was merged into N1."""
    async with open_desk(database, merged=merged) as desk:
        with database.write() as connection:
            merged_patients.merge(connection, "SITE1", "O1", "N1")
        listening = desk.handler._listening
        check = merged_patient_check(listening, database)
        assert check is not None
        desk.handler.adopt(with_checks(listening, check))
        aside = FrameOffload(desk.handler, ThreadPoolExecutor(1), asks=check.asks)
        desk.front = lambda handle: aside
        yield desk


async def test_the_old_number_is_refused(database: Database) -> None:
    """AE 204 at PID-3, for an order and for demographics; the survivor's are taken."""
    async with refusing(database) as desk:
        for payload in (order("ID1", mrn="O1"), adt("A08", "O1")):
            ack = await desk.ask(payload)
            assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("204",))
        assert desk.rows("error_place") == [("PID-3",), ("PID-3",)]
        assert (await desk.ask(order("ID2", mrn="N1"))).code is AckCode.ACCEPT


async def test_merges_go_on(database: Database) -> None:
    """A merge names an old number by its nature: repeated, or merged on."""
    async with refusing(database) as desk:
        for payload in (adt("A40", "N1", "O1"), adt("A40", "X1", "N1")):
            assert (await desk.ask(payload)).code is AckCode.ACCEPT


async def test_one_of_a_batch(database: Database) -> None:
    """The others of its batch are taken."""
    async with refusing(database) as desk:
        batch = b"BHS|^~\\&|R\r" + order("B1", mrn="O1") + order("B2") + b"BTS|2\r"
        (reply,) = await desk.send(batch)
        assert b"MSA|AE|B1" in reply
        assert b"MSA|AA|B2" in reply


async def test_what_cannot_be_read_is_the_judges(database: Database) -> None:
    """It is refused for what it is."""
    async with refusing(database) as desk:
        assert (await desk.ask(b"GET / HTTP/1.1\r\n")).error_codes == ("100",)
        assert (await desk.ask(order(mrn=""))).error_codes == ("101",)


async def test_a_merge_that_leads_back(database: Database) -> None:
    """AE 205 at MRG-1 on any listener; one that was told before, or goes on, is taken."""
    async with refusing(database, Merged.REDIRECT) as desk:
        ack = await desk.ask(adt("A40", "O1", "N1"))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("205",))
        assert desk.rows("error_place") == [("MRG-1",)]
        for payload in (adt("A40", "N1", "O1"), adt("A40", "O1", "X1"), order("ID1", mrn="O1")):
            assert (await desk.ask(payload)).code is AckCode.ACCEPT


def test_nobody_is_asked_in_vain(database: Database) -> None:
    """Where messages are redirected only merges are looked up; where they are stored, nothing."""
    known = merged_patient_check(LISTENING, database)
    assert known is not None
    assert [known.asks(each) for each in (order(), adt("A40", "A", "B"))] == [False, True]
    stored = replace(LISTENING, merged=Merged.REFUSE, acknowledge=Acknowledge.STORED)
    assert merged_patient_check(stored, database) is None
