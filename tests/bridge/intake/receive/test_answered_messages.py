"""Which messages get a reply, and which processing ids a listener accepts."""

from bridge.intake.receive.identity import ControlIds
from bridge.store.database import Database
from mappings.hl7.acknowledgment import read_ack
from tests.bridge.intake.fixture import open_intake, order


async def test_an_acknowledgment_gets_no_reply(database: Database) -> None:
    """An acknowledgment gets no reply, unless MSH-15 requests it."""
    ack = b"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121||ACK^O01|%b|P|2.3.1%b\rMSA|AA|%b\r"
    ours = ControlIds()().encode()
    async with open_intake(database) as intake:
        assert await intake.send(ack % (b"A1", b"", ours)) == []
        assert intake.rows("state, error_code") == [("refused", "200")]
        (reply,) = await intake.send(ack % (b"A2", b"|||AL|NE", ours))
        assert read_ack(reply).code == "CR"
        (reply,) = await intake.send(ack % (b"A3", b"", b"C17"))
        assert read_ack(reply).code == "AR"


async def test_processing_ids(database: Database) -> None:
    """By default only P is accepted. Test messages need the setting."""

    def tests(sequence: int) -> list[bytes]:
        cases = [(f"{name}{sequence}", name.encode()) for name in ("T", "D", "")]
        return [order(number).replace(b"|P|", b"|%b|" % name) for number, name in cases]

    async with open_intake(database) as intake:
        refused = [await intake.ask(each) for each in tests(1)]
        assert [(each.code, each.error_codes[0]) for each in refused] == [("AR", "202")] * 3
        assert (await intake.ask(order("P1"))).code == "AA"
    async with open_intake(database, processing_ids=frozenset({"P", "T"})) as intake:
        codes = [(await intake.ask(each)).code for each in tests(2)]
        assert codes == ["AA", "AR", "AR"]


async def test_a_batch_without_replies(database: Database) -> None:
    """MSH-15 and MSH-16 NE apply in a batch too: the bridge sends no empty batch."""
    quiet = [order(f"N{n}", accept="NE", application="NE") for n in (1, 2)]
    async with open_intake(database) as intake:
        assert await intake.send(b"BHS|^~\\&|RIS\r" + b"".join(quiet) + b"BTS|2\r") == []
        assert [state for state, *_ in intake.rows()] == ["queued"] * 2
