"""Which messages are answered at all, and which processing ids a listener takes."""

import pytest

from bridge.store.database import Database
from bridge.wiring.listeners import ControlIds
from mappings.hl7.acknowledgment import read_ack
from tests.bridge.intake.desk import open_desk, order

pytestmark = pytest.mark.anyio


async def test_an_answer_is_not_answered(database: Database) -> None:
    """Two systems that answer answers never end; MSH-15 may ask, and what is none is refused."""
    ack = b"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121||ACK^O01|%b|P|2.3.1%b\rMSA|AA|%b\r"
    ours = ControlIds()().encode()
    async with open_desk(database) as desk:
        assert await desk.send(ack % (b"A1", b"", ours)) == []
        assert desk.rows("state, error_code") == [("refused", "200")]
        (reply,) = await desk.send(ack % (b"A2", b"|||AL|NE", ours))
        assert read_ack(reply).code == "CR"
        (reply,) = await desk.send(ack % (b"A3", b"", b"C17"))
        assert read_ack(reply).code == "AR"


async def test_the_listener_says_which_processing_ids_it_takes(database: Database) -> None:
    """P alone where nothing is said; a test message reaches nothing unless it is told to."""

    def tests(turn: int) -> list[bytes]:
        asked = [(f"{name}{turn}", name.encode()) for name in ("T", "D", "")]
        return [order(number).replace(b"|P|", b"|%b|" % name) for number, name in asked]

    async with open_desk(database) as desk:
        refused = [await desk.ask(each) for each in tests(1)]
        assert [(each.code, each.error_codes[0]) for each in refused] == [("AR", "202")] * 3
        assert (await desk.ask(order("P1"))).code == "AA"
    async with open_desk(database, processing_ids=frozenset({"P", "T"})) as desk:
        told = [(await desk.ask(each)).code for each in tests(2)]
        assert told == ["AA", "AR", "AR"]


async def test_a_batch_that_wants_no_answer(database: Database) -> None:
    """MSH-15 and MSH-16 NE hold in a batch too: no empty batch in reply."""
    quiet = [order(f"N{n}", accept="NE", application="NE") for n in (1, 2)]
    async with open_desk(database) as desk:
        assert await desk.send(b"BHS|^~\\&|RIS\r" + b"".join(quiet) + b"BTS|2\r") == []
        assert [state for state, *_ in desk.rows()] == ["queued"] * 2
