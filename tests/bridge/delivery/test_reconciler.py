"""The reconcile job finds all differences between both sides, and nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bridge.contract import OrderKey
from bridge.contract.responses import StatusRecordBody, WorklistResponse
from bridge.delivery.reconciler import DifferenceKind, Reconciler
from bridge.engine_client.client import EngineClient, LaunchRequest
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.queue.retention.policy import prune
from bridge.store.database import Database
from bridge.store.records import exceptions, reconcile_rounds
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.reconcile_rounds import ReconcileRound
from tests.bridge.delivery.fixtures import SITE, destination
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import eventually_async


async def test_differences_are_found(tmp_path: Path, database: Database) -> None:
    """The job finds a deleted report and an unprocessed release, and nothing else."""
    receiver = destination()
    async with open_hospital(tmp_path, database, receiver) as hospital:
        reconciler = Reconciler(hospital.client, database, [receiver], hospital.metrics)
        await hospital.send(order("ID1", "A1"))
        await hospital.send(order("ID2", "A2", "M2"))
        assert await reconciler.reconcile(hospital.time()) == []
        await hospital.client.delete(OrderKey(SITE, "M2", "A2"))
        await hospital.read_and_sign("A1", "Text.")
        found = await reconciler.reconcile(hospital.time())
        assert [(difference.difference, difference.destination) for difference in found] == [
            (DifferenceKind.NOT_QUEUED, "ris"),
            (DifferenceKind.NO_REPORT, ""),
        ]
        codes = "SELECT code FROM exception ORDER BY code"
        assert hospital.rows(codes) == [("no_report",), ("not_queued ris",)]
        await hospital.follow()
        await hospital.delivered(1)
        found = await reconciler.reconcile(hospital.time())
        assert [order_difference.difference for order_difference in found] == [
            DifferenceKind.NO_REPORT
        ]
        assert hospital.rows(codes) == [("no_report",)]


async def test_removed_deliveries_and_new_receivers_are_no_differences(
    tmp_path: Path, database: Database
) -> None:
    """Deliveries removed by retention and destinations added later are no differences."""
    receiver = destination()
    async with open_hospital(tmp_path, database, receiver) as hospital:
        for number in ("1", "2"):
            await hospital.send(order(f"ID{number}", f"A{number}"))
            await hospital.read_and_sign(f"A{number}", "Text.")
        await hospital.follow()
        await hospital.delivered(2)
        await eventually_async(
            lambda: hospital.rows("SELECT DISTINCT state FROM delivery") == [("done",)]
        )
        prune(database, hospital.time() + 1)
        assert hospital.rows("SELECT count(*) FROM delivery") == [(1,)]
        both = [receiver, destination("later")]
        reconciler = Reconciler(hospital.client, database, both, hospital.metrics)
        assert await reconciler.reconcile(hospital.time()) == []


async def test_a_requested_round(tmp_path: Path, database: Database) -> None:
    """A requested round starts and ends at once, also if the clocks of two nodes differ."""
    async with open_hospital(tmp_path, database) as hospital:
        reconciler = Reconciler(hospital.client, database, [], hospital.metrics)
        await hospital.send(order("ID1", "A1"))
        await reconciler.reconcile(hospital.time())  # half of a round, before the worklist
        for ahead in (0, 60_000):
            requested_at = hospital.time() + ahead
            with database.write() as connection:
                reconcile_rounds.request_round(connection, requested_at)
            assert reconciler.requested_since() == requested_at
            await reconciler.reconcile(hospital.time())
            done = last_round_of(database)
            assert (done.began_at >= requested_at, done.orders, done.reports) == (True, 1, 1)
            assert reconciler.requested_since() == 0


async def test_the_worklist_is_compared_too(tmp_path: Path, database: Database) -> None:
    """The job finds Ordered reports without a live order, until they are removed."""
    async with open_hospital(tmp_path, database) as hospital:
        reconciler = Reconciler(hospital.client, database, [], hospital.metrics)
        await hospital.send(order("ID1", "A1"))
        await hospital.send(order("ID2", "A2", "M2"))
        assert await reconciler.reconcile(hospital.time()) == []
        assert last_round_of(database).differing == {}
        for mrn, accession in (("M1", "A9"), ("M2", "A2")):
            tags = OrderKey(SITE, mrn, accession).tags()
            await hospital.client.launch(LaunchRequest(tags, lazy=True, register_order=True))
        with database.write() as connection:
            connection.execute(text("UPDATE bridge_order SET state = 'cancelled' WHERE mrn = 'M2'"))
        await reconciler.reconcile(hospital.time())
        last = last_round_of(database)
        assert last.differing == {f"not_ordered {SITE}": 1, "still_ordered": 1}
        assert (last.orders, last.reports, len(last.not_ordered)) == (1, 3, 1)
        codes = "SELECT code FROM exception ORDER BY code"
        assert hospital.rows(codes) == [("still_ordered",)]
        await hospital.client.delete(OrderKey(SITE, "M2", "A2"))
        await reconciler.reconcile(hospital.time())
        assert hospital.rows(codes) == []


async def test_a_cancelled_order_is_no_difference(tmp_path: Path, database: Database) -> None:
    async with open_hospital(tmp_path, database) as hospital:
        reconciler = Reconciler(hospital.client, database, [], hospital.metrics)
        await hospital.send(order("ID1", "A1"))
        await hospital.client.delete(OrderKey(SITE, "M1", "A1"))
        assert len(await reconciler.reconcile(hospital.time())) == 1
        await hospital.send(order("ID2", "A1").replace(b"ORC|NW", b"ORC|CA"))
        assert await reconciler.reconcile(hospital.time()) == []
        assert hospital.rows("SELECT * FROM exception WHERE kind = 'order'") == []


@dataclass
class PartialService:
    client: EngineClient
    silent: str
    down: bool = False

    async def status(self, orders: Sequence[OrderKey]) -> tuple[StatusRecordBody, ...]:
        if self.down:
            raise EngineFailure("status", FailureKind.TRANSIENT, "unreachable")
        if orders[0].site == self.silent:
            raise EngineFailure("status", FailureKind.TRANSIENT, "unauthorized", 401)
        return await self.client.status(orders)

    async def worklist(self, site: str, **_: object) -> WorklistResponse:
        raise EngineFailure("worklist", FailureKind.PERMANENT, "not_found", 404)

    def token_of(self, site: str) -> str:
        return site


@dataclass
class LaggingService:
    """A service whose first answers are a moment older than the orders of the bridge."""

    client: EngineClient
    catch_up: Callable[[], None]
    calls: int = 0

    async def status(self, orders: Sequence[OrderKey]) -> tuple[StatusRecordBody, ...]:
        self.calls += 1
        return await self.client.status(orders) if self.calls > 1 else ()

    async def worklist(self, site: str, **named: Any) -> WorklistResponse:
        page = await self.client.worklist(site, **named)
        self.calls += 1
        if self.calls > 1:
            self.catch_up()
        return page

    def token_of(self, site: str) -> str:
        return self.client.token_of(site)


async def test_a_difference_that_ends_meanwhile_does_not_count(
    tmp_path: Path, database: Database
) -> None:
    """Each difference is looked up a second time: an order may be arriving or ending."""

    def arrive() -> None:
        with database.write() as connection:
            connection.execute(text("UPDATE bridge_order SET state = 'ordered'"))

    async with open_hospital(tmp_path, database) as hospital:
        service = LaggingService(hospital.client, arrive)
        reconciler = Reconciler(service, database, [], hospital.metrics)  # type: ignore[arg-type]  # a part of it
        await hospital.send(order("ID1", "A1"))
        assert await reconciler.reconcile(hospital.time()) == []
        service.calls = 0
        with database.write() as connection:
            connection.execute(text("UPDATE bridge_order SET state = 'cancelled'"))
        await reconciler.reconcile(hospital.time())
        last = last_round_of(database)
        assert (last.reports, last.differing) == (1, {})


async def test_skipped_orders_are_counted(tmp_path: Path, database: Database) -> None:
    """Orders that the service refuses to show are counted, keep their state, and block nothing."""
    async with open_hospital(tmp_path, database) as hospital:
        await hospital.send(order("ID1", "A1"))
        with database.write() as connection:
            connection.execute(
                text("INSERT INTO bridge_order (site, mrn, accession, state, placer, filler, tags,"
                     " echo, report_id, first_message, place, last_message)"
                     " VALUES ('B', 'M', 'A', 'ordered', '', '', '{}', '[]', '', 1, 0, 1)")
            )  # fmt: skip
            exceptions.add(connection, ExceptionSubject.ORDER, [(2, "no_report")], 1)
        service = PartialService(hospital.client, "B", down=True)
        reconciler = Reconciler(service, database, [], hospital.metrics)  # type: ignore[arg-type]  # a part of it
        with pytest.raises(EngineFailure):
            await reconciler.reconcile(hospital.time())
        service.down = False
        for _ in range(2):  # one worklist a turn
            assert await reconciler.reconcile(hospital.time()) == []
        last = last_round_of(database)
        assert (last.orders, last.reports) == (1, 0)
        assert last.not_asked == {"unauthorized": 1, "no_worklist B": 1, f"no_worklist {SITE}": 1}
        assert hospital.rows("SELECT code FROM exception") == [("no_report",)]


def last_round_of(database: Database) -> ReconcileRound:
    """Return the last finished round."""
    with database.read() as connection:
        found = reconcile_rounds.last_round(connection)
    assert found is not None
    return found
