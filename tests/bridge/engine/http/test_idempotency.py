"""Requests with one Idempotency-Key at the same moment, on the database where they can overlap."""

import asyncio
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, text

from tests.bridge.engine.http.engine_service import ADMIN, Service, identity
from tests.conftest import empty
from tests.eventually import eventually_async

WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND wait_event_type = 'Lock'"
)


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """SQLite has only one writer at a time."""
    empty(postgres_url)
    return postgres_url


@pytest.fixture
def locked(service: Service) -> Iterator[Connection]:
    """A connection that holds the one report."""
    service.launch()
    with service.database.write() as connection:
        connection.execute(text("SELECT pk FROM engine_report FOR UPDATE"))
        yield connection


async def wait_until_they_wait(service: Service, count: int) -> None:
    """Wait until this many transactions wait for a lock."""

    def they_wait() -> bool:
        with service.database.read() as connection:  # one that goes on would not see others move
            return bool(connection.execute(WAITING).scalar_one() >= count)

    await eventually_async(they_wait)


@pytest.mark.postgres
def test_two_at_once_get_one_answer(service: Service, locked: Connection) -> None:
    """Idempotency keys: the same request twice at once is carried out once and answered twice."""
    headers = {"x-access-token": service.tokens[ADMIN], "idempotency-key": "k1"}
    body = {"clinicalInfo": identity()}

    async def sending() -> list[int]:
        async def one() -> int:
            answer = await service.http.post("/api/report/sign", json=body, headers=headers)
            return answer.status_code

        both = []
        for count in (1, 2):
            both.append(asyncio.create_task(one()))
            await wait_until_they_wait(service, count)
        locked.commit()
        return await asyncio.gather(*both)

    assert service.runner.run(sending()) == [200, 200]
    events = [each["event"] for each in service.get("report/changes").json()["changes"]]
    assert events.count("report_signed") == 1
