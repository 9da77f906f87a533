"""A results mapping that takes long to write a message holds up no write and no event loop."""

import threading
from dataclasses import fields
from pathlib import Path

import pytest
from sqlalchemy import text
from typing_extensions import override

from bridge.store.database import Database
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultContext
from tests.bridge.delivery.equipment import destination, outbound, until
from tests.bridge.delivery.hospital import open_hospital
from tests.bridge.intake.desk import order

pytestmark = pytest.mark.anyio


class Slow(OutboundMapping):
    """Writes a message when the test lets it, and notes the threads that it holds."""

    called = threading.Event()
    let_go = threading.Event()
    threads: tuple[int, ...] = ()

    @override
    def render(self, context: ResultContext) -> bytes:
        Slow.threads += (threading.get_ident(),)
        Slow.called.set()
        assert Slow.let_go.wait(60)
        return super().render(context)


@pytest.mark.parametrize("takes_long", [False, True])
async def test_others_write_and_are_acknowledged(
    tmp_path: Path, database: Database, takes_long: bool
) -> None:
    """Also other destinations are sent their messages, whatever thread composes."""
    Slow.called, Slow.let_go, Slow.threads = threading.Event(), threading.Event(), ()
    made = {each.name: getattr(outbound()[0], each.name) for each in fields(OutboundMapping)}
    mapping = Slow(**{**made, "takes_long": takes_long})
    slow, quick = destination("slow", mappings=(mapping,)), destination("quick")
    async with open_hospital(tmp_path, database, slow, quick) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "No bleeding.")
        await hospital.follow()
        await until(Slow.called.is_set)
        with database.write() as connection:
            connection.execute(text("DELETE FROM feed_cursor WHERE 1 = 0"))
        await hospital.send(order("ID2", "A2"))
        await until(lambda: len(hospital.receivers["quick"].sent) == 1)
        assert hospital.receivers["slow"].sent == []
        Slow.let_go.set()
        await until(lambda: len(hospital.receivers["slow"].sent) == 1)
    assert threading.get_ident() not in Slow.threads
