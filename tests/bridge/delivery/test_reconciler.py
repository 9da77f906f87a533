"""Both sides compared: what differs is named, and nothing else."""

from pathlib import Path

import pytest

from bridge.delivery.reconciler import Difference, Reconciler
from bridge.engine_client import OrderKey
from bridge.queue.retention import prune
from bridge.store.database import Database
from tests.bridge.delivery.equipment import SITE, destination, until
from tests.bridge.delivery.hospital import open_hospital
from tests.bridge.intake.desk import order

pytestmark = pytest.mark.anyio


async def test_what_differs_is_named(tmp_path: Path, database: Database) -> None:
    """A report that vanished, a release nobody heard of; in order, it finds nothing."""
    receiver = destination()
    async with open_hospital(tmp_path, database, receiver) as hospital:
        reconciler = Reconciler(hospital.client, database, [receiver], hospital.metrics)
        await hospital.send(order("ID1", "A1"))
        await hospital.send(order("ID2", "A2", "M2"))
        assert await reconciler.reconcile(hospital.time()) == []
        await hospital.client.delete(OrderKey(SITE, "M2", "A2"))
        await hospital.read_and_sign("A1", "Text.")
        found = await reconciler.reconcile(hospital.time())
        assert [(each.difference, each.destination) for each in found] == [
            (Difference.NOT_QUEUED, "ris"),
            (Difference.NO_REPORT, ""),
        ]
        standing = "SELECT code FROM concern ORDER BY code"
        assert hospital.rows(standing) == [("no_report",), ("not_queued ris",)]
        await hospital.follow()
        await hospital.delivered(1)
        found = await reconciler.reconcile(hospital.time())
        assert [each.difference for each in found] == [Difference.NO_REPORT]
        assert hospital.rows(standing) == [("no_report",)]


async def test_what_was_forgotten_and_who_came_later(tmp_path: Path, database: Database) -> None:
    """A delivery that retention removed is no difference, nor is one to a later receiver."""
    receiver = destination()
    async with open_hospital(tmp_path, database, receiver) as hospital:
        for number in ("1", "2"):
            await hospital.send(order(f"ID{number}", f"A{number}"))
            await hospital.read_and_sign(f"A{number}", "Text.")
        await hospital.follow()
        await hospital.delivered(2)
        await until(lambda: hospital.rows("SELECT DISTINCT state FROM delivery") == [("done",)])
        prune(database, hospital.time() + 1)
        assert hospital.rows("SELECT count(*) FROM delivery") == [(1,)]
        both = [receiver, destination("later")]
        reconciler = Reconciler(hospital.client, database, both, hospital.metrics)
        assert await reconciler.reconcile(hospital.time()) == []
