"""Requests with one Idempotency-Key, on PostgreSQL, where writers overlap."""

import asyncio
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, text

from tests.bridge.engine.http.engine_service import ADMIN, Service, identity
from tests.eventually import eventually_async

WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND wait_event_type = 'Lock'"
)


@pytest.fixture
def locked(service: Service) -> Iterator[Connection]:
    service.launch()
    with service.database.write() as connection:
        connection.execute(text("SELECT pk FROM engine_report FOR UPDATE"))
        yield connection


async def wait_for_lock_waits(service: Service, count: int) -> None:
    """Wait until this many transactions wait for a lock."""

    def are_waiting() -> bool:
        with service.database.read() as connection:  # a new transaction each time
            return bool(connection.execute(WAITING).scalar_one() >= count)

    await eventually_async(are_waiting)


@pytest.mark.postgres
def test_concurrent_requests_with_one_key_are_executed_once(
    service: Service, locked: Connection
) -> None:
    headers = {"x-access-token": service.tokens[ADMIN], "idempotency-key": "k1"}
    body = {"clinicalInfo": identity()}

    async def sending() -> list[int]:
        async def one() -> int:
            response = await service.http.post("/api/report/sign", json=body, headers=headers)
            return response.status_code

        both = []
        for count in (1, 2):
            both.append(asyncio.create_task(one()))
            await wait_for_lock_waits(service, count)
        locked.commit()
        return await asyncio.gather(*both)

    assert service.runner.run(sending()) == [200, 200]
    events = [each["event"] for each in service.get("report/changes").json()["changes"]]
    assert events.count("report_signed") == 1
