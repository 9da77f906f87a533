"""Event streams and long polls are limited, for each caller and in total."""

import asyncio
from contextlib import AsyncExitStack

import httpx
import pytest

from bridge.engine.http.requests.request_limits import WaitingRequests
from bridge.engine.http.requests.response_bodies import HttpProblem
from bridge.engine.service.accounts import users
from tests.bridge.engine.http.engine_service import ADMIN, Page, Service, launch_body
from tests.bridge.engine.http.event_listener import Listener, listening
from tests.eventually import PATIENCE, eventually_async


@pytest.fixture
def page(service: Service) -> Page:
    return service.open_report()


async def events(page: Page) -> httpx.Response:
    """Request the stream of a page; returns only if it is refused."""
    async with asyncio.timeout(PATIENCE):
        path = "/reporting/api/session/events"
        return await page.service.http.get(path, headers=page.bearer)


@pytest.mark.parametrize(
    ("total", "each", "status", "code"),
    [(10, 2, 429, "too_many_waiting"), (2, 10, 503, "overloaded")],
)
def test_streams_are_limited(
    service: Service, page: Page, total: int, each: int, status: int, code: str
) -> None:
    """A request above the limit gets Retry-After; an ended one frees its place."""
    engine = service.application.state.engine
    engine.streams = WaitingRequests(total, each)

    async def scenario() -> None:
        async with AsyncExitStack() as open_streams:
            for _ in range(2):
                await open_streams.enter_async_context(listening(page))
            refused = await events(page)
            assert (refused.status_code, refused.json()["code"]) == (status, code)
            assert refused.headers["retry-after"]
        async with listening(page) as listener:
            assert listener.status == 200

    service.runner.run(scenario())


def test_concurrent_streams_are_limited(service: Service, page: Page) -> None:
    """A stream beyond the limit is refused or ends at once."""
    engine = service.application.state.engine
    engine.streams = WaitingRequests(100, 2)

    async def scenario() -> None:
        listeners = [Listener(page) for _ in range(12)]
        tasks = [asyncio.ensure_future(each.listen()) for each in listeners]
        await eventually_async(lambda: sum(each.done() for each in tasks) >= 10)
        for each in listeners:
            each.leave()
        await asyncio.gather(*tasks)
        assert {each.status for each in listeners} <= {200, 429}
        async with listening(page) as listener:
            assert listener.status == 200

    service.runner.run(scenario())


def test_long_polls_are_limited_per_token(service: Service) -> None:
    """Polls of the bridge with the service token are not counted."""
    engine = service.application.state.engine
    engine.polls = WaitingRequests(10, 2)
    after = service.get("report/changes", limit=1000).json()["cursor"]
    path = f"/api/report/changes?after={after}&wait=60"

    async def poll(who: str) -> httpx.Response:
        return await service.http.get(path, headers={"x-access-token": service.tokens[who]})

    async def scenario() -> None:
        waiting = [asyncio.ensure_future(poll(ADMIN)) for _ in range(3)]
        async with asyncio.timeout(PATIENCE):
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        (refused,) = [each.result() for each in done]
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_waiting")
        others = [asyncio.ensure_future(poll(who)) for who in ["service"] * 3]
        done, _ = await asyncio.wait(others, timeout=0.2)
        assert not done
        engine.stopping = True
        engine.work.changed.notify()
        rest = [each for each in (*waiting, *others) if not each.done()]
        responses = await asyncio.gather(*rest)
        assert [each.status_code for each in responses] == [200] * 5

    service.runner.run(scenario())


def has_room(polls: WaitingRequests) -> bool:
    try:
        polls.require_room("another")
    except HttpProblem:
        return False
    return True


@pytest.mark.parametrize("query", ["", "&SiteID=SITE1", "&texts=true"])
def test_a_site_that_is_lost_during_a_long_poll_is_not_shown(service: Service, query: str) -> None:
    """The role is checked again after the wait."""
    polls = service.application.state.engine.polls = WaitingRequests(1, 1)

    async def scenario() -> httpx.Response:
        headers = {"x-access-token": service.tokens[ADMIN]}
        path = f"/api/report/changes?wait=60{query}"
        waiting = asyncio.create_task(service.http.get(path, headers=headers))
        await eventually_async(lambda: not has_room(polls))
        with service.database.write() as connection:
            account = users.find_account(connection, ADMIN)
            assert account is not None
            users.leave(connection, "SITE1", account.id, service.clock.now)
        headers = {"x-access-token": service.tokens["service"]}
        body = launch_body(lazyLaunch=True, registerOrder=True)
        made = await service.http.post("/api/report/launch/clinical", json=body, headers=headers)
        assert made.status_code == 200, made.text
        async with asyncio.timeout(PATIENCE):
            return await waiting

    assert service.runner.run(scenario()).status_code == 403
