"""The content and order of addendum messages, with and without a sign delay."""

from pathlib import Path

from bridge.contract import OrderKey
from bridge.store.database import Database
from mappings.hl7.message import Message
from tests.bridge.delivery.fixtures import SITE, Page, destination
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import eventually_async

A1 = OrderKey(SITE, "M1", "A1")
DELAY = 60
UNDELIVERED = "SELECT count(*) FROM delivery WHERE state IN ('queued', 'claimed')"


def texts(payload: bytes) -> list[str]:
    """Return each OBX-5 of a message."""
    return Message.parse(payload).values("OBX[*]-5")


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
