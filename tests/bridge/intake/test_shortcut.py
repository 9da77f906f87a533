"""What is answered to ordinary messages, and to those that turn out to be none after all."""

import pytest

from bridge.store.database import Database
from mappings.hl7.ack import AckCode, read_ack
from tests.bridge.intake.desk import Desk, open_desk, order
from tests.bridge.intake.test_handler import FullDisk

pytestmark = pytest.mark.anyio

ENOUGH = 9
"""Messages of one kind after which there is a stencil of it."""


async def accustomed(desk: Desk) -> Desk:
    """Send enough orders of one kind; further ones go the short way."""
    for number in range(ENOUGH):
        assert (await desk.ask(order(f"S{number}", f"A{number}", f"M{number}"))).code == "AA"
    return desk


async def test_it_is_kept_answered_and_counted(database: Database) -> None:
    """As any other: with its own control id, noted as acknowledged, in its patient's lane."""
    async with open_desk(database) as desk:
        await accustomed(desk)
        assert desk.handler._shortcut._ordinary._kinds
        ack = await desk.ask(order("S77", "A77", "M3"))
        assert (ack.code, ack.control_id) == (AckCode.ACCEPT, b"S77")
        lanes = [lane for (lane,) in desk.rows("lane_1")]
        assert lanes[-1] == lanes[3]
        assert len(set(lanes)) == ENOUGH
        types = {tuple(row) for row in desk.rows("message_type, mapping, state, ack_code")}
        assert types == {("ORM^O01", "orders", "queued", "AA")}
        counted = desk.metrics.acks.labels("ris", "AA", "").value
        assert counted == ENOUGH + 1


async def test_a_retransmit_and_a_used_control_id(database: Database) -> None:
    """The first gets the answer that it got, the second is another message and said to be."""
    async with open_desk(database) as desk:
        await accustomed(desk)
        first = await desk.send(order("S77", "A77", "M77"))
        assert await desk.send(order("S77", "A77", "M77")) == first
        assert (await desk.ask(order("S77", "A78", "M78"))).code == AckCode.ACCEPT
        stored = desk.rows("retransmits, flags")[ENOUGH:]
        assert stored == [(1, 0), (0, 2)]
        count = desk.metrics.registry.get_sample_value
        names = ("bridge_retransmits_total", "bridge_reused_control_ids_total")
        assert [count(name, {"listener": "ris"}) for name in names] == [1, 1]


async def test_what_cannot_be_stored_is_not_accepted(database: Database) -> None:
    """AE 207, of a ledger that keeps nothing and of one that has stopped."""
    async with open_desk(database) as desk:
        await accustomed(desk)
        desk.handler._shortcut._inbox = FullDisk()
        (reply,) = await desk.send(order("S77", "A77", "M77"))
        ack = read_ack(reply)
        assert (ack.code, ack.error_codes, ack.control_id) == ("AE", ("207",), b"S77")
    (reply,) = await desk.send(order("S78", "A78", "M78"))
    assert read_ack(reply).code == AckCode.ERROR


async def test_a_truncated_frame_is_never_accepted(database: Database) -> None:
    """However well what it says would fit."""
    async with open_desk(database) as desk:
        await accustomed(desk)
        assert (await desk.ask(order("S77", "A77", "M77"), truncated=True)).code == AckCode.REJECT


async def test_another_policy_forgets_what_was_ordinary(database: Database) -> None:
    """A definition that was activated judges anew."""
    async with open_desk(database) as desk:
        await accustomed(desk)
        desk.handler.adopt(desk.handler._listening)
        assert not desk.handler._shortcut._ordinary._kinds
        assert (await desk.ask(order("S77", "A77", "M77"))).code == AckCode.ACCEPT
