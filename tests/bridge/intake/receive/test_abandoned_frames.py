"""Abandoned frames are stored for operators, up to a limit."""

import pytest

from bridge.intake.receive.abandoned_frames import MAX_ABANDONED_FRAMES, AbandonedFrameLimit
from bridge.store.database import Database
from config.listeners import ReusedControlId
from mappings.hl7.tables import AckCode
from mllp.errors import (
    FrameMemoryExhausted,
    FrameTimedOut,
    FrameTooLarge,
    FramingError,
    TruncatedFrame,
)
from tests.bridge.intake.fixture import open_intake, order

NO_PATIENT = order().replace(b"|M1|", b"||")


def test_limit_of_an_hour() -> None:
    remnants = AbandonedFrameLimit(2, 10.0)
    assert [remnants.may_store(at) for at in (0.0, 4.0, 5.0, 9.9, 10.0, 11.0, 14.0)] == [
        *(True, True, False, False, True, False, True)
    ]


@pytest.mark.parametrize(
    ("error", "code"), [(FrameMemoryExhausted(7), b"AE"), (FrameTooLarge(7), b"AR")]
)
async def test_only_a_busy_service_asks_for_a_repetition(
    database: Database, error: FramingError, code: bytes
) -> None:
    """AE for a frame that may be sent again, AR for one that will never be accepted."""
    async with open_intake(database) as intake:
        assert b"MSA|" + code in intake.handler.unframed(error, order())


async def test_abandoned_frames_are_stored(database: Database) -> None:
    """Abandoned frames are listed once among the refused messages, up to the limit."""
    async with open_intake(database) as intake:
        intake.handler.unframed(FrameTimedOut(7, 1.0), order()[:300])
        intake.handler.unframed(TruncatedFrame(7), order("ID2")[:300])
        intake.handler.unframed(TruncatedFrame(7), order("ID2")[:300])
        for number in range(200):
            intake.handler.unframed(TruncatedFrame(7), b"%d" % number)
        assert (await intake.ask(order("ID2"))).code is AckCode.ACCEPT
        rows = intake.rows("state, message_type, acknowledgment, retransmits, flags")
        assert rows[:2] == [
            ("refused", "ORM^O01", "pending", 0, 0),
            ("refused", "ORM^O01", "not_owed", 1, 0),
        ]
        assert rows[-1][0] == "queued"
        assert len(rows) == MAX_ABANDONED_FRAMES


@pytest.mark.parametrize("truncated", [True, False])
async def test_an_abandoned_frame_uses_no_control_id(
    database: Database, *, truncated: bool
) -> None:
    """The complete message is not a reuse of its control id."""
    async with open_intake(database, reuse=ReusedControlId.REFUSE) as intake:
        assert (await intake.ask(NO_PATIENT, truncated=truncated)).code is not AckCode.ACCEPT
        assert (await intake.ask(order())).code is AckCode.ACCEPT
        assert intake.rows("flags")[-1] == (0,)
