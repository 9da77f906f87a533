"""A slow hook in a results mapping does not block writers or the event loop."""

import threading
from dataclasses import fields
from pathlib import Path

import pytest
from sqlalchemy import text
from typing_extensions import override

from bridge.store.database import Database
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultContext
from tests.bridge.delivery.fixtures import destination, outbound
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import PATIENCE, eventually_async


class SlowMapping(OutboundMapping):
    """Writes a message when the test allows it, and records the threads that it uses."""

    called = threading.Event()
    may_finish = threading.Event()
    threads: tuple[int, ...] = ()

    @override
    def render(self, context: ResultContext) -> bytes:
        SlowMapping.threads += (threading.get_ident(),)
        SlowMapping.called.set()
        assert SlowMapping.may_finish.wait(PATIENCE)
        return super().render(context)


@pytest.mark.parametrize("takes_long", [False, True])
async def test_other_work_is_not_blocked(
    tmp_path: Path, database: Database, takes_long: bool
) -> None:
    """While a hook runs, frames are acknowledged and other destinations get their messages."""
    SlowMapping.called, SlowMapping.may_finish, SlowMapping.threads = (
        threading.Event(),
        threading.Event(),
        (),
    )
    made = {each.name: getattr(outbound()[0], each.name) for each in fields(OutboundMapping)}
    mapping = SlowMapping(**{**made, "takes_long": takes_long})
    slow, quick = destination("slow", mappings=(mapping,)), destination("quick")
    async with open_hospital(tmp_path, database, slow, quick) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "No bleeding.")
        await hospital.follow()
        await eventually_async(SlowMapping.called.is_set)
        with database.write() as connection:  # the hook holds no write lock
            connection.execute(text("DELETE FROM feed_cursor WHERE 1 = 0"))
        await hospital.send(order("ID2", "A2"))
        await eventually_async(lambda: len(hospital.receivers["quick"].sent) == 1)
        assert hospital.receivers["slow"].sent == []
        SlowMapping.may_finish.set()
        await eventually_async(lambda: len(hospital.receivers["slow"].sent) == 1)
    assert threading.get_ident() not in SlowMapping.threads
