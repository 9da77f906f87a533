"""MLLP release 2: a commit block tells that a message is kept, before anything is said of it."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from bridge.intake.receive.listener import Acknowledge
from bridge.queue.ledger.arrivals import Arrival, Receipt
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.tables import AckCode
from tests.bridge.intake.desk import open_desk, order

pytestmark = pytest.mark.anyio

KEPT, NOT_KEPT = b"\x06", b"\x15"


class Full:
    """A ledger without room."""

    def submit(self, arrival: Arrival, settle: Callable[[Receipt | BaseException], object]) -> None:
        settle(StoreUnavailable("full"))

    def accept_many(self, arrivals: Sequence[Arrival]) -> asyncio.Future[Sequence[Receipt]]:
        raise StoreUnavailable("full")

    def acknowledged(self, message_id: int) -> None:
        """Nothing was."""


@pytest.mark.parametrize(
    ("payload", "code"),
    [(order(), AckCode.ACCEPT), (order().replace(b"|M1|", b"||"), AckCode.ERROR)],
    ids=["taken", "refused"],
)
async def test_kept_then_answered(database: Database, payload: bytes, code: AckCode) -> None:
    """What is on disk gets its commit block and then its acknowledgment, refused or not."""
    async with open_desk(database, commit_blocks=True) as desk:
        block, ack = await desk.send(payload)
        assert block == KEPT
        assert read_ack(ack).code is code


async def test_not_kept(database: Database) -> None:
    """What could not be stored gets the other block and nothing else: send it again."""
    async with open_desk(database, commit_blocks=True) as desk:
        desk.handler._inbox = Full()
        assert await desk.send(order()) == [NOT_KEPT]
        assert await desk.send(b"BHS|^~\\&|R\r" + order() + b"BTS|1\r") == [NOT_KEPT]


async def test_the_block_does_not_wait_for_the_report_service(database: Database) -> None:
    """With `applied` the block comes at once, the acknowledgment when all is done."""
    changes = {"commit_blocks": True, "acknowledge": Acknowledge.APPLIED}
    async with open_desk(database, **changes) as desk:
        assert await desk.send(b"BHS|^~\\&|R\r" + order("B1", "A2", "M2") + b"BTS|1\r") == [KEPT]
        async with asyncio.timeout(30):
            while not desk.caller.later:  # noqa: ASYNC110  # as below
                await asyncio.sleep(0.01)
        assert desk.caller.later.pop().startswith(b"BHS")
        assert await desk.send(order()) == [KEPT]
        async with asyncio.timeout(30):
            while not desk.caller.later:  # noqa: ASYNC110  # a double that only collects
                await asyncio.sleep(0.01)
        assert read_ack(desk.caller.later[0]).code is AckCode.ACCEPT


async def test_a_batch(database: Database) -> None:
    """A batch is kept as one, and gets one block."""
    async with open_desk(database, commit_blocks=True) as desk:
        block, acks = await desk.send(b"BHS|^~\\&|R\r" + order() + b"BTS|1\r")
        assert block == KEPT
        assert acks.startswith(b"BHS")
