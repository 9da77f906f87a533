"""The event stream of report pages: changes and presence."""

import asyncio
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from bridge.engine.http.engine_application import create_application
from bridge.engine.service.accounts.sessions import SESSIONS
from bridge.engine.service.live.windows import HANDOVER
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    OTHER,
    READER,
    Page,
    Service,
    identity,
    user,
)
from tests.bridge.engine.http.event_listener import Listener, listening
from tests.eventually import PATIENCE


@pytest.fixture
def page(service: Service) -> Page:
    """A reader's open Draft."""
    return opened(service)


def opened(service: Service, email: str = READER, **changes: Any) -> Page:
    """Launch for somebody and open the link."""
    launched = service.launch(userInfo=user(email, **changes.pop("user", {})), **changes)
    return service.session(service.open(launched.json()["reportLink"]))


async def ask(page: Page, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
    """Call an endpoint of a page."""
    return await page.service.http.request(
        "GET" if body is None else "POST",
        f"/reporting/api/session/{path}",
        headers={"authorization": f"Bearer {page.secret}"},
        json=body,
    )


async def api(service: Service, path: str, **more: Any) -> httpx.Response:
    """Call an administrative endpoint for the order A1."""
    return await service.http.post(
        f"/api/report/{path}",
        json={"clinicalInfo": identity(), **more},
        headers={"x-access-token": service.tokens[ADMIN]},
    )


def test_own_deeds_and_those_of_the_api_are_told_once_and_in_order(
    service: Service, page: Page
) -> None:
    """Save in the page, sign and release by the API: the stream says what, and whose it was."""

    async def story() -> None:
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

    service.runner.run(story())


def test_a_page_that_was_away_is_told_what_it_missed(service: Service, page: Page) -> None:
    """Last-Event-ID: nothing twice, nothing lost; the text that was signed, not a later one."""

    async def story() -> None:
        version = (await ask(page, "report")).json()["version"]
        await ask(page, "save", {"version": version, "text": "As signed."})
        await api(service, "sign")
        await api(service, "unsign")
        version = (await ask(page, "report")).json()["version"]
        await ask(page, "save", {"version": version, "text": "Later."})
        async with listening(page, "0") as listener:
            pass
        told = [
            (data["event"], data.get("content"), n)
            for kind, data, n in listener.all
            if kind == "change"
        ]
        events = [event for event, _, _ in told]
        assert events[-4:] == [
            "report_content_updated",
            "report_signed",
            "report_unsigned",
            "report_content_updated",
        ]
        assert told[-3][1] == "As signed."
        async with listening(page, told[-2][2]) as again:
            pass
        assert [data.get("content") for _, data, _ in again.all] == ["Later.", None]

    service.runner.run(story())


def test_whoever_takes_a_draft_over_is_named_to_its_editor(service: Service, page: Page) -> None:
    """report_transferred goes to the previous editor with the new owner's name."""

    async def story() -> None:
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

    service.runner.run(story())


def test_who_else_stands_at_the_report_is_told_to_both(service: Service, page: Page) -> None:
    """Presence: a second window of the same user appears, and goes."""
    second = opened(service)

    async def story() -> None:
        async with listening(page) as listener:
            async with listening(second) as other:
                assert [kind for kind, _, _ in other.all] == ["presence"]
                assert other.all[0][1]["others"][0]["sameUser"] is True
                assert len((await listener.next("presence"))["others"]) == 1
            assert (await listener.next("presence"))["others"] == []

    service.runner.run(story())


def test_the_end_of_a_session_is_told_and_ends_the_stream(service: Service, page: Page) -> None:
    """Signed out in one place, or inactive for too long: the page hears why."""
    second = opened(service)

    async def story() -> None:
        async with listening(page) as listener:
            assert (await ask(page, "end", {})).status_code == 204
            assert await listener.next("ended") == {"reason": "ended"}
        assert (await ask(page, "report")).status_code == 401
        async with listening(second) as listener:
            service.clock.pass_seconds(31 * 60)
            await api(service, "unassign")  # what happens to the report makes the stream look
            assert await listener.next("ended") == {"reason": "inactivity"}

    service.runner.run(story())


def test_a_report_that_was_deleted_elsewhere_is_gone(service: Service, page: Page) -> None:
    """The stream reports the deletion of the report."""

    async def story() -> None:
        async with listening(page) as listener:
            await api(service, "delete")
            assert (await listener.change("report_deleted"))["gone"] is True

    service.runner.run(story())


def test_activity_counts_and_listening_does_not(service: Service, page: Page) -> None:
    """The host's user_activity keeps a session alive; an open stream alone does not."""

    async def story() -> None:
        async with listening(page):
            service.clock.pass_seconds(29 * 60)
            assert (await ask(page, "activity", {})).status_code == 204
            service.clock.pass_seconds(29 * 60)
            assert (await ask(page, "activity", {})).status_code == 204
            service.clock.pass_seconds(31 * 60)
        assert (await ask(page, "activity", {})).status_code == 401

    service.runner.run(story())


def test_nobody_listens_without_a_session(service: Service) -> None:
    """Neither without a bearer nor with an access token."""
    path = "/reporting/api/session/events"
    assert service.call("GET", path, None).status_code == 401
    headers = {"authorization": f"Bearer {service.tokens[ADMIN]}"}
    assert service.call("GET", path, None, headers=headers).status_code == 401


def test_what_another_process_does_is_heard(service: Service, page: Page) -> None:
    """The feed is the source, not memory: another engine on the same database signs."""
    settings = service.application.state.engine.settings
    other = create_application(settings, service.database, clock=service.clock)

    async def story() -> None:
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

    service.runner.run(story())


def test_streams_end_when_the_engine_stops(service: Service, page: Page) -> None:
    """An open stream does not delay the shutdown."""

    async def story() -> None:
        listener = Listener(page)
        task = asyncio.get_running_loop().create_task(listener.listen())
        await listener.next("presence")
        service.application.state.engine.stopping = True
        async with asyncio.timeout(PATIENCE):
            await task

    service.runner.run(story())


@pytest.mark.parametrize("answered", [True, False])
def test_the_window_that_writes_is_asked_before_its_draft_is_taken_over(
    service: Service, page: Page, *, answered: bool
) -> None:
    """V8: the writing window saves on request; a silent one does not block the takeover."""
    other = opened(service, OTHER)

    async def story() -> None:
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

    service.runner.run(story())


def test_nobody_is_waited_for_where_no_window_is_open(service: Service, page: Page) -> None:
    """A draft whose writer has gone is taken over at once, without a request to anybody."""
    other = opened(service, OTHER)

    async def story() -> None:
        await ask(page, "report")
        assert (await ask(other, "transfer", {})).json()["owner"]

    service.runner.run(story())
    with service.database.read() as connection:
        details = connection.execute(select(SESSIONS.c.details)).scalars().all()
    assert not [each for each in details if HANDOVER in each]
