"""The scheduler releases signed reports when they are due."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.live.release_scheduler import ReleaseScheduler
from bridge.engine.service.signing.sign import sign
from bridge.store.database import Database
from tests.bridge.engine.service.harness import ServiceHarness
from tests.eventually import eventually_async

_SET_KIND = text(
    "UPDATE engine_release SET kind = :kind WHERE pk = (SELECT min(pk) FROM engine_release)"
)


@pytest.fixture
def harness(database: Database) -> ServiceHarness:
    """An engine whose reports are released 60 s after they were signed."""
    harness = ServiceHarness(database)
    harness.delay(60)
    return harness


@pytest.fixture
async def running(harness: ServiceHarness) -> AsyncIterator[None]:
    executor = DatabaseExecutor(harness.database, 2)
    scheduler = ReleaseScheduler(executor, lambda: harness.now)
    task = asyncio.create_task(scheduler.run())
    yield
    task.cancel()
    await asyncio.wait([task])
    executor.close()


@pytest.mark.usefixtures("running")
async def test_a_report_that_cannot_be_released_delays_no_other(harness: ServiceHarness) -> None:
    """The others are released, and the report itself once its data are correct."""
    harness.do(sign, harness.draft("A1"))
    harness.later(1)
    harness.do(sign, harness.draft("A2"))
    harness.later(60)
    with harness.database.write() as connection:
        connection.execute(_SET_KIND, {"kind": "damaged"})

    await eventually_async(lambda: len(harness.releases()) == 1)
    assert harness.changes()[-1]["orders"][0]["Accession"] == "A2"
    with harness.database.write() as connection:
        connection.execute(_SET_KIND, {"kind": "final"})
    await eventually_async(lambda: len(harness.releases()) == 2)
