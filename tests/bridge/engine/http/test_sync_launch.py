"""SyncLaunch: the launch response, and the window that opens the launched report."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from bridge.engine.http import window_handover
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    OTHER,
    READER,
    Page,
    Service,
    launch_body,
    user,
)
from tests.bridge.engine.http.event_listener import Listener, listening

SYNC = {"SyncLaunch": True}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_handover, "FOLLOW_SECONDS", 30)


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch, _patient: None) -> None:
    """Let a launch wait a short time, because no window follows."""
    monkeypatch.setattr(window_handover, "FOLLOW_SECONDS", 0.6)


@pytest.fixture
def page(service: Service) -> Page:
    """A persistent window of a reader with report A1."""
    return window(service)


def window(service: Service, accession: str = "A1", *, in_frame: bool = False) -> Page:
    launched = service.launch(accession=accession, userInfo=user(READER), reportingApp=SYNC)
    headers = {"sec-fetch-dest": "iframe"} if in_frame else {}
    return service.page(launched, headers=headers)


async def launch(service: Service, accession: str, **changes: Any) -> list[str]:
    given = {"userInfo": user(READER), "reportingApp": SYNC, **changes}
    response = await service.http.post(
        "/api/report/launch/clinical",
        json=launch_body(accession=accession, **given),
        headers={"x-access-token": service.tokens[ADMIN]},
    )
    assert response.status_code == 200, response.text
    warnings: list[str] = response.json()["warnings"]
    return warnings


async def post(page: Page, path: str, body: dict[str, Any]) -> httpx.Response:
    return await page.service.http.post(
        f"/reporting/api/session/{path}", json=body, headers=page.bearer
    )


@contextlib.asynccontextmanager
async def following_by(listener: Listener, page: Page) -> AsyncIterator[list[dict[str, Any]]]:
    """Follow at once, as the page does."""
    opened: list[dict[str, Any]] = []

    async def follow() -> None:
        request = await listener.next("follow")
        response = await post(page, "follow", {"sequence": request["sequence"]})
        assert response.status_code == 200, response.text
        opened.append(response.json())

    task = asyncio.get_running_loop().create_task(follow())
    yield opened
    await task


def test_following_a_lazy_launch_creates_the_report(service: Service, page: Page) -> None:
    """Following creates the report, as opening the link does."""

    async def scenario() -> None:
        async with listening(page) as listener, following_by(listener, page):
            assert await launch(service, "A3", lazyLaunch=True) == []

    service.runner.run(scenario())
    assert service.status("A3")["status"] == "Draft"


def test_a_window_that_stays_adds_a_warning_to_the_launch(service: Service, page: Page) -> None:
    """The window gets no second request, and can follow later."""

    async def scenario() -> None:
        async with listening(page) as listener:
            launching = asyncio.get_running_loop().create_task(launch(service, "A2"))
            request = await listener.next("follow")
            reply = await post(page, "stay", {"sequence": request["sequence"], "reason": "unsaved"})
            assert reply.status_code == 204
            assert await launching == ["sync_refused"]
        async with listening(page) as again:
            assert [kind for kind, _, _ in again.all] == ["presence"]
            response = await post(page, "follow", {"sequence": request["sequence"]})
            assert response.json()["reportId"] == expected

    expected = service.launch(accession="A2", userInfo=user(READER)).json()["reportId"]
    service.runner.run(scenario())


def test_a_reconnected_window_follows_the_newest_launch_only(service: Service, page: Page) -> None:
    """Two launches without a window: the second is followed, the first is superseded."""

    async def scenario() -> None:
        assert await launch(service, "A2") == []  # no open window: no waiting, no warning
        assert await launch(service, "A3") == []
        async with listening(page) as listener:
            request = await listener.next("follow")
            assert request["accession"] == "A3"
            older = await post(page, "follow", {"sequence": request["sequence"] - 1})
            assert (older.status_code, older.json()["code"]) == (409, "superseded")

    service.runner.run(scenario())


@pytest.mark.usefixtures("_soon")
def test_a_silent_window_is_reported_as_pending(service: Service, page: Page) -> None:
    """A launch does not wait longer than its limit."""

    async def scenario() -> None:
        async with listening(page):
            assert await launch(service, "A2") == ["sync_pending"]

    service.runner.run(scenario())


@pytest.mark.usefixtures("_soon")
def test_only_the_newest_window_of_the_user_gets_the_request(service: Service, page: Page) -> None:
    """Older windows, frames without permission and windows of other users get no request."""
    newer = window(service)
    framed = window(service, in_frame=True)

    async def scenario() -> None:
        async with listening(page) as old, listening(newer) as new, listening(framed) as frame:
            someone = {"userInfo": user(OTHER)}
            assert await launch(service, "B1", **someone) == []
            assert await launch(service, "A2") == ["sync_pending"]
            assert (await new.next("follow"))["accession"] == "A2"
            kinds = [kind for item in (old, frame) for kind, _, _ in item.all]
            assert "follow" not in kinds

    service.runner.run(scenario())


def test_a_launch_of_the_displayed_report_sends_no_request(service: Service, page: Page) -> None:
    async def scenario() -> None:
        async with listening(page) as listener:
            assert await launch(service, "A1") == []
            assert "follow" not in [kind for kind, _, _ in listener.all]

    service.runner.run(scenario())


def test_the_event_stream_can_be_polled(service: Service, page: Page) -> None:
    """`once` sends the present events and ends the stream."""
    headers = page.bearer | {"last-event-id": "0"}
    path = "/reporting/api/session/events"
    response = service.call("GET", path, None, headers=headers, params={"once": "true"})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert "event: change" in response.text
    assert response.text.endswith('event: presence\ndata: {"others": []}\n\n')


def test_observed_hosts_are_listed_for_administrators(service: Service) -> None:
    """The origins that framed reports of the site."""
    link = service.launch(userInfo=user(READER)).json()["reportLink"]
    framed = {"sec-fetch-dest": "iframe", "referer": "https://viewer.example/study/7"}
    service.open(link, headers=framed)
    service.open(link)
    hosts = service.get("admin/sites/SITE1/observed-hosts")
    assert [(host["origin"], host["configured"]) for host in hosts.json()] == [
        ("https://viewer.example", False)
    ]
    assert service.get("admin/sites/SITE1/observed-hosts", READER).status_code == 403
    assert service.get("admin/sites/SITE2/observed-hosts").status_code == 403
