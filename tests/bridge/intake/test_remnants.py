"""Frames that never became messages are kept for people, and use up nothing."""

import pytest

from bridge.intake.receive.handler import MOST, Remnants
from bridge.intake.receive.listener import Reuse
from bridge.store.database import Database
from mappings.hl7.tables import AckCode
from mllp.errors import FrameTimedOut, TruncatedFrame
from tests.bridge.intake.desk import open_desk, order

pytestmark = pytest.mark.anyio

NO_PATIENT = order().replace(b"|M1|", b"||")


def test_the_bound_moves_on() -> None:
    """So many within an hour; an hour after the first of them there is room again."""
    remnants = Remnants(2, 10.0)
    assert [remnants.may_keep(at) for at in (0.0, 4.0, 5.0, 9.9, 10.0, 11.0, 14.0)] == [
        *(True, True, False, False, True, False, True)
    ]


async def test_frames_given_up_are_kept_for_people(database: Database) -> None:
    """What has arrived of them stands among the refused messages, once, and so many an hour."""
    async with open_desk(database) as desk:
        desk.handler.unframed(FrameTimedOut(7, 1.0), order()[:300])
        desk.handler.unframed(TruncatedFrame(7), order("ID2")[:300])
        desk.handler.unframed(TruncatedFrame(7), order("ID2")[:300])
        for number in range(200):
            desk.handler.unframed(TruncatedFrame(7), b"%d" % number)
        assert (await desk.ask(order("ID2"))).code is AckCode.ACCEPT
        rows = desk.rows("state, message_type, acknowledgment, retransmits, flags")
        assert rows[:2] == [
            ("refused", "ORM^O01", "pending", 0, 0),
            ("refused", "ORM^O01", "not_owed", 1, 0),
        ]
        assert rows[-1][0] == "queued"
        assert len(rows) == MOST


@pytest.mark.parametrize("truncated", [True, False])
async def test_what_was_refused_has_used_no_control_id(
    database: Database, *, truncated: bool
) -> None:
    """Sent again as it should be, it is no other message under a control id that was used."""
    async with open_desk(database, reuse=Reuse.REFUSE) as desk:
        assert (await desk.ask(NO_PATIENT, truncated=truncated)).code is not AckCode.ACCEPT
        assert (await desk.ask(order())).code is AckCode.ACCEPT
        assert desk.rows("flags")[-1] == (0,)
