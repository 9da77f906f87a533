"""The event stream of report pages: changes and presence."""

import asyncio
import secrets
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from bridge.contract import OrderKey
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_application import create_application
from bridge.engine.http.requests.request_limits import WaitingRequests
from bridge.engine.live.database_executor import wait_notified
from bridge.engine.service.accounts import users
from bridge.engine.service.accounts.sessions import SESSIONS
from bridge.engine.service.live.windows import HANDOVER
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.work import ActorRef
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    OTHER,
    Page,
    Service,
    identity,
    launch_body,
    user,
)
from tests.bridge.engine.http.event_listener import Listener, listening
from tests.eventually import PATIENCE, eventually_async


@pytest.fixture
def page(service: Service) -> Page:
    return service.open_report()


async def ask(page: Page, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
    return await page.service.http.request(
        "GET" if body is None else "POST",
        f"/reporting/api/session/{path}",
        headers=page.bearer,
        json=body,
    )


async def api(service: Service, path: str, **more: Any) -> httpx.Response:
    """Call an administrative endpoint for the order A1."""
    return await service.http.post(
        f"/api/report/{path}",
        json={"clinicalInfo": identity(), **more},
        headers={"x-access-token": service.tokens[ADMIN]},
    )


def test_changes_by_the_page_and_by_the_api_are_sent_once_and_in_order(
    service: Service, page: Page
) -> None:
    """Save on the page, sign and release by the API: `own` marks changes by the page itself."""

    async def scenario() -> None:
        async with listening(page) as listener:
            version = (await ask(page, "report")).json()["version"]
            await ask(page, "save", {"version": version, "text": "Normal <chest>."})
            saved = await listener.change("report_content_updated")
            assert (saved["own"], saved["content"]) == (True, "Normal <chest>.")
            assert (await api(service, "sign")).status_code == 200
            signed = await listener.change("report_signed")
            assert (signed["own"], signed["status"], signed["content"]) == (
                False,
                "Final",
                "Normal <chest>.",
            )
            assert signed["html_content"] == "<p>Normal &lt;chest&gt;.</p>\n"
            assert signed["signedAt"] == signed["at"] == "2027-01-15T08:00:00.000Z"
            assert (await api(service, "sign", ignoreSignDelay=True)).status_code == 200
            await listener.change("report_finalized")
            assert listener.pending() == []

    service.runner.run(scenario())


def test_a_reconnected_page_gets_the_missed_changes(service: Service, page: Page) -> None:
    """Last-Event-ID: each change once; a signature has the signed text, not a later one."""

    async def scenario() -> None:
        version = (await ask(page, "report")).json()["version"]
        await ask(page, "save", {"version": version, "text": "As signed."})
        await api(service, "sign")
        await api(service, "unsign")
        version = (await ask(page, "report")).json()["version"]
        await ask(page, "save", {"version": version, "text": "Later."})
        async with listening(page, "0") as listener:
            pass
        changes = [
            (data["event"], data.get("content"), n)
            for kind, data, n in listener.all
            if kind == "change"
        ]
        events = [event for event, _, _ in changes]
        assert events[-4:] == [
            "report_content_updated",
            "report_signed",
            "report_unsigned",
            "report_content_updated",
        ]
        assert changes[-3][1] == "As signed."
        async with listening(page, changes[-2][2]) as again:
            pass
        assert [data.get("content") for _, data, _ in again.all] == ["Later.", None]

    service.runner.run(scenario())


def test_a_takeover_is_reported_to_the_previous_editor(service: Service, page: Page) -> None:
    """report_transferred goes to the previous editor with the new owner's name."""

    async def scenario() -> None:
        async with listening(page) as listener:
            body = {
                "clinicalInfo": identity(),
                "reportingApp": {},
                "response": {"type": "link"},
                "userInfo": user(OTHER, "Otto Ther", forceOwnershipTransfer=True),
            }
            headers = {"x-access-token": service.tokens[ADMIN]}
            path = "/api/report/launch/clinical"
            link = (await service.http.post(path, json=body, headers=headers)).json()["reportLink"]
            await service.http.get(link)
            taken = await listener.change("report_transferred")
            assert (taken["mine"], taken["newOwnerName"]) == (False, "Otto Ther")

    service.runner.run(scenario())


def test_presence_is_sent_to_both_windows(service: Service, page: Page) -> None:
    """A second window of the same user opens and closes."""
    second = service.open_report()

    async def scenario() -> None:
        async with listening(page) as listener:
            async with listening(second) as other:
                assert [kind for kind, _, _ in other.all] == ["presence"]
                assert other.all[0][1]["others"][0]["sameUser"] is True
                assert len((await listener.next("presence"))["others"]) == 1
            assert (await listener.next("presence"))["others"] == []

    service.runner.run(scenario())


def test_the_end_of_a_session_ends_the_stream_with_its_reason(service: Service, page: Page) -> None:
    """Signed out in another window, or inactive for too long."""
    second = service.open_report()

    async def scenario() -> None:
        async with listening(page) as listener:
            assert (await ask(page, "end", {})).status_code == 204
            assert await listener.next("ended") == {"reason": "ended"}
        assert (await ask(page, "report")).status_code == 401
        async with listening(second) as listener:
            service.clock.pass_seconds(31 * 60)
            await api(service, "unassign")  # a change of the report makes the stream check
            assert await listener.next("ended") == {"reason": "inactivity"}

    service.runner.run(scenario())


def test_the_deletion_of_a_report_is_sent(service: Service, page: Page) -> None:
    """The event has `gone`."""

    async def scenario() -> None:
        async with listening(page) as listener:
            await api(service, "delete")
            assert (await listener.change("report_deleted"))["gone"] is True

    service.runner.run(scenario())


def test_only_activity_extends_a_session(service: Service, page: Page) -> None:
    """The host's user_activity extends it; an open stream does not."""

    async def scenario() -> None:
        async with listening(page):
            service.clock.pass_seconds(29 * 60)
            assert (await ask(page, "activity", {})).status_code == 204
            service.clock.pass_seconds(29 * 60)
            assert (await ask(page, "activity", {})).status_code == 204
            service.clock.pass_seconds(31 * 60)
        assert (await ask(page, "activity", {})).status_code == 401

    service.runner.run(scenario())


def test_the_event_stream_requires_a_session(service: Service) -> None:
    """401 without a bearer token and with an access token."""
    path = "/reporting/api/session/events"
    assert service.call("GET", path, None).status_code == 401
    headers = {"authorization": f"Bearer {service.tokens[ADMIN]}"}
    assert service.call("GET", path, None, headers=headers).status_code == 401


def test_changes_by_another_process_are_sent(service: Service, page: Page) -> None:
    """Another engine on the same database signs; the stream reads the change feed."""
    settings = service.application.state.engine.settings
    other = create_application(settings, service.database, clock=service.clock)

    async def scenario() -> None:
        transport = httpx.ASGITransport(app=other)
        async with listening(page) as listener, httpx.AsyncClient(transport=transport) as client:
            version = (await ask(page, "report")).json()["version"]
            await ask(page, "save", {"version": version, "text": "Normal."})
            signing = await client.post(
                f"{BASE}/api/report/sign",
                json={"clinicalInfo": identity()},
                headers={"x-access-token": service.tokens[ADMIN]},
            )
            assert signing.status_code == 200
            assert (await listener.change("report_signed"))["own"] is False
        await other.state.engine.stop()

    service.runner.run(scenario())


def test_streams_end_when_the_engine_stops(service: Service, page: Page) -> None:
    """An open stream does not delay the shutdown."""

    async def scenario() -> None:
        listener = Listener(page)
        task = asyncio.get_running_loop().create_task(listener.listen())
        await listener.next("presence")
        service.application.state.engine.stopping = True
        async with asyncio.timeout(PATIENCE):
            await task

    service.runner.run(scenario())


@pytest.mark.parametrize("answered", [True, False])
def test_the_writing_window_is_asked_to_save_before_a_takeover(
    service: Service, page: Page, *, answered: bool
) -> None:
    """The writing window saves on request; a silent one does not block the takeover."""
    other = service.open_report(OTHER)

    async def scenario() -> None:
        async with listening(page) as listener:
            version = (await ask(page, "report")).json()["version"]
            taking = asyncio.create_task(ask(other, "transfer", {}))
            assert await listener.next("handover") == {}
            assert not taking.done()
            if answered:
                saved = await ask(page, "save", {"version": version, "text": "Last words."})
                assert saved.status_code == 200
                assert (await ask(page, "handed-over", {})).status_code == 204
            taken = await taking
            assert taken.status_code == 200
            assert taken.json()["owner"]
            assert taken.json()["content"] == ("Last words." if answered else "")
            late = await ask(page, "save", {"version": taken.json()["version"], "text": "Late."})
            assert late.status_code in {403, 409}

    service.runner.run(scenario())


def test_a_takeover_does_not_wait_if_no_window_is_open(service: Service, page: Page) -> None:
    """No handover request is stored."""
    other = service.open_report(OTHER)

    async def scenario() -> None:
        await ask(page, "report")
        assert (await ask(other, "transfer", {})).json()["owner"]

    service.runner.run(scenario())
    with service.database.read() as connection:
        details = connection.execute(select(SESSIONS.c.details)).scalars().all()
    assert not [detail for detail in details if HANDOVER in detail]


LONG = 20.0
"""Seconds; no poll happens within this time."""


def test_a_signature_wakes_the_readers_of_its_process(service: Service) -> None:
    """A signature wakes the long poll."""
    service.launch()
    engine = service.application.state.engine

    async def waiting() -> bool:
        notification = engine.work.changed.notification()
        await engine.work.change(
            ActorRef(), service.clock.now, lambda work: sign(work, A1).report_id
        )
        return await wait_notified(notification, LONG)

    assert service.runner.run(waiting())
    assert service.get("report/changes").json()["changes"][-1]["event"] == "report_signed"


def test_an_event_wakes_only_readers_of_that_event(service: Service) -> None:
    """A registered order wakes readers of all events, but not readers that exclude it."""
    changed, orders = service.application.state.engine.work.changed, {"order_registered"}

    async def notifications() -> tuple[asyncio.Future[None], asyncio.Future[None]]:
        return changed.notification(), changed.notification(orders)

    every, others = service.runner.run(notifications())
    service.launch(lazyLaunch=True, registerOrder=True)
    assert service.runner.run(wait_notified(every, LONG))
    assert not others.done()
    service.launch(userInfo=user())
    assert service.runner.run(wait_notified(others, LONG))


def test_excluded_events(service: Service) -> None:
    """They are left out, and the cursor is after them."""
    service.launch(lazyLaunch=True, registerOrder=True)
    service.launch(userInfo=user())
    without = ["order_registered", "order_updated"]
    page = service.get("report/changes", without=without).json()
    assert {change["event"] for change in page["changes"]} == {"report_opened"}
    service.launch(tags={"Accession": "A2"}, lazyLaunch=True, registerOrder=True)
    later = service.get("report/changes", after=page["cursor"], without=without).json()
    assert later["changes"] == []
    assert later["cursor"] == service.get("report/changes").json()["cursor"]
    assert service.get("report/changes", without="surely_not").status_code == 400


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_signature_wakes_the_readers_of_other_processes(
    service: Service, database_url: str
) -> None:
    """Two engines on one PostgreSQL: a commit of one wakes readers of the other."""
    service.launch()
    there = Database(database_url)
    settings = EngineSettings((("1", secrets.token_bytes(32)),), public_url=BASE, threads=2)
    other = create_application(settings, there, clock=service.clock).state.engine

    async def waiting() -> bool:
        await other.start()
        first = other.work.changed.notification()
        await wait_notified(first, 2.0)  # one notification when the listener is ready
        notification = other.work.changed.notification()
        engine = service.application.state.engine
        await engine.work.change(
            ActorRef(), service.clock.now, lambda work: sign(work, A1).report_id
        )
        woken = await wait_notified(notification, LONG)
        await other.stop()
        return woken

    assert service.runner.run(waiting())
    there.dispose()


A1 = OrderKey("SITE1", "P1", "A1")


async def events(page: Page) -> httpx.Response:
    """Request the stream of a page; returns only if it is refused."""
    async with asyncio.timeout(PATIENCE):
        path = "/reporting/api/session/events"
        return await page.service.http.get(path, headers=page.bearer)


@pytest.mark.parametrize(
    ("total", "per_caller", "status", "code"),
    [(10, 2, 429, "too_many_waiting"), (2, 10, 503, "overloaded")],
)
def test_streams_are_limited(
    service: Service, page: Page, total: int, per_caller: int, status: int, code: str
) -> None:
    """A request above the limit gets Retry-After; an ended one frees its place."""
    engine = service.application.state.engine
    engine.streams = WaitingRequests(total, per_caller)

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
        tasks = [asyncio.ensure_future(item.listen()) for item in listeners]
        await eventually_async(lambda: sum(task.done() for task in tasks) >= 10)
        for item in listeners:
            item.leave()
        await asyncio.gather(*tasks)
        assert {item.status for item in listeners} <= {200, 429}
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
        (refused,) = [task.result() for task in done]
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_waiting")
        others = [asyncio.ensure_future(poll(who)) for who in ["service"] * 3]
        done, _ = await asyncio.wait(others, timeout=0.2)
        assert not done
        engine.stopping = True
        engine.work.changed.notify()
        rest = [other for other in (*waiting, *others) if not other.done()]
        responses = await asyncio.gather(*rest)
        assert [response.status_code for response in responses] == [200] * 5

    service.runner.run(scenario())


def has_room(polls: WaitingRequests) -> bool:
    try:
        polls.require_room("another")
    except EngineError:
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
