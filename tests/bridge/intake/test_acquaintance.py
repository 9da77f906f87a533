"""Listeners that redirect nobody say so at once: AE 204 for an identifier that was merged."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bridge.intake.acquaintance import Acquaintance
from bridge.intake.listening import Acknowledge, Listening, Merged
from bridge.intake.validating import ValidatingHandler
from bridge.store import merged_patients
from bridge.store.database import Database
from bridge.wiring.validation import acquaintance, policy
from mappings.hl7.ack import AckCode
from mllp.framing import Frame
from tests.bridge.intake.desk import LISTENING, Desk, open_desk, order
from tests.bridge.intake.stories import adt

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def refusing(database: Database) -> AsyncIterator[Desk]:
    """A desk whose listener redirects nobody; O1 was merged into N1."""
    async with open_desk(database, merged=Merged.REFUSE) as desk:
        with database.write() as connection:
            merged_patients.merge(connection, "SITE1", "O1", "N1")
        listening = desk.handler._listening
        check = acquaintance(listening, database)
        assert check is not None
        desk.handler.adopt(policy(listening, check))
        desk.front = lambda handle: ValidatingHandler(check, handle)
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


def test_nobody_is_asked_in_vain(database: Database) -> None:
    """Where messages are redirected, or only stored, nothing is looked up."""
    refuse = Listening("ris", (), merged=Merged.REFUSE, acknowledge=Acknowledge.STORED)
    assert acquaintance(LISTENING, database) is None
    assert acquaintance(refuse, database) is None


def test_nothing_is_remembered(database: Database) -> None:
    """What was looked up is dropped once it was examined."""
    known = Acquaintance(LISTENING, database)
    known.forget(known.prepare(Frame(b"nothing")))
    assert known._known == {}
