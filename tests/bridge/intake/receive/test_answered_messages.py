"""Which messages are answered, and which processing ids a listener accepts."""

import pytest

from bridge.intake.receive.identity import ControlIds
from bridge.store.database import Database
from mappings.hl7.acknowledgment import read_ack
from tests.bridge.intake.fixture import open_intake, order

pytestmark = pytest.mark.anyio


async def test_an_answer_is_not_answered(database: Database) -> None:
    """Acknowledgments of ours are not acknowledged, unless MSH-15 asks for it."""
    ack = b"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121||ACK^O01|%b|P|2.3.1%b\rMSA|AA|%b\r"
    ours = ControlIds()().encode()
    async with open_intake(database) as intake:
        assert await intake.send(ack % (b"A1", b"", ours)) == []
        assert intake.rows("state, error_code") == [("refused", "200")]
        (reply,) = await intake.send(ack % (b"A2", b"|||AL|NE", ours))
        assert read_ack(reply).code == "CR"
        (reply,) = await intake.send(ack % (b"A3", b"", b"C17"))
        assert read_ack(reply).code == "AR"


async def test_the_listener_says_which_processing_ids_it_takes(database: Database) -> None:
    """P only by default; test messages need the setting."""

    def tests(sequence: int) -> list[bytes]:
        asked = [(f"{name}{sequence}", name.encode()) for name in ("T", "D", "")]
        return [order(number).replace(b"|P|", b"|%b|" % name) for number, name in asked]

    async with open_intake(database) as intake:
        refused = [await intake.ask(each) for each in tests(1)]
        assert [(each.code, each.error_codes[0]) for each in refused] == [("AR", "202")] * 3
        assert (await intake.ask(order("P1"))).code == "AA"
    async with open_intake(database, processing_ids=frozenset({"P", "T"})) as intake:
        told = [(await intake.ask(each)).code for each in tests(2)]
        assert told == ["AA", "AR", "AR"]


async def test_a_batch_that_wants_no_answer(database: Database) -> None:
    """MSH-15 and MSH-16 NE hold in a batch too: no empty batch in reply."""
    quiet = [order(f"N{n}", accept="NE", application="NE") for n in (1, 2)]
    async with open_intake(database) as intake:
        assert await intake.send(b"BHS|^~\\&|RIS\r" + b"".join(quiet) + b"BTS|2\r") == []
        assert [state for state, *_ in intake.rows()] == ["queued"] * 2
