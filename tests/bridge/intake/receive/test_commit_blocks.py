"""MLLP release 2: the commit block confirms the storage before the acknowledgment."""

from typing import Any

import pytest

from bridge.store.database import Database
from config.listeners import Acknowledge
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.tables import AckCode
from tests.bridge.intake.fixture import FullLedger, open_intake, order
from tests.eventually import eventually_async

STORED, NOT_KEPT = b"\x06", b"\x15"


@pytest.mark.parametrize(
    ("payload", "code"),
    [(order(), AckCode.ACCEPT), (order().replace(b"|M1|", b"||"), AckCode.ERROR)],
    ids=["taken", "refused"],
)
async def test_stored(database: Database, payload: bytes, code: AckCode) -> None:
    """A stored message gets its commit block, then its acknowledgment, also if refused."""
    async with open_intake(database, commit_blocks=True) as intake:
        block, ack = await intake.send(payload)
        assert block == STORED
        assert read_ack(ack).code is code


async def test_not_stored(database: Database) -> None:
    """A message that is not stored gets only the negative block, so it must be sent again."""
    async with open_intake(database, commit_blocks=True) as intake:
        intake.handler._inbox = FullLedger()
        assert await intake.send(order()) == [NOT_KEPT]
        assert await intake.send(b"BHS|^~\\&|R\r" + order() + b"BTS|1\r") == [NOT_KEPT]


async def test_the_block_does_not_wait_for_the_report_service(database: Database) -> None:
    """With `applied` the block is sent at once, the acknowledgment later."""
    changes: dict[str, Any] = {"commit_blocks": True, "acknowledge": Acknowledge.APPLIED}
    async with open_intake(database, **changes) as intake:
        assert await intake.send(b"BHS|^~\\&|R\r" + order("B1", "A2", "M2") + b"BTS|1\r") == [
            STORED
        ]
        await eventually_async(lambda: bool(intake.caller.later))
        assert intake.caller.later.pop().startswith(b"BHS")
        assert await intake.send(order()) == [STORED]
        await eventually_async(lambda: bool(intake.caller.later))
        assert read_ack(intake.caller.later[0]).code is AckCode.ACCEPT


async def test_a_batch(database: Database) -> None:
    async with open_intake(database, commit_blocks=True) as intake:
        block, acks = await intake.send(b"BHS|^~\\&|R\r" + order() + b"BTS|1\r")
        assert block == STORED
        assert acks.startswith(b"BHS")
