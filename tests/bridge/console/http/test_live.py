"""Hints for open pages: what is new, for whom, and when a stream ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from bridge.admin.access.permissions import Grant
from bridge.console.live import MAX_STREAMS_OF_ACCOUNT, LiveHub, TooManyStreams, events
from bridge.monitoring.alerts import update_alerts
from bridge.monitoring.conditions import AlertCondition, AlertSeverity
from bridge.queue.claims import MessageOutcome
from bridge.queue.inbox import Inbox
from bridge.queue.states import QueueEvent
from bridge.store.records import exceptions
from bridge.store.records.exceptions import ExceptionSubject
from tests.acceptance.orders import order
from tests.bridge.console.http.running_console import USERS, RunningConsole, now_ms


def heads(console: RunningConsole, who: str) -> dict[str, Any]:
    response = console.call(who, "GET", "/api/live?once=1")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def hub(console: RunningConsole) -> LiveHub:
    return LiveHub(console.settings, console.database, console.clock)


async def admitted() -> Grant | None:
    return USERS["editor"]


async def next_heads(stream: AsyncIterator[str]) -> dict[str, Any]:
    async for event in stream:
        if event.startswith("event: heads"):
            found: dict[str, Any] = json.loads(event.partition("data: ")[2])
            return found
    raise AssertionError("the stream has ended")


def test_a_snapshot_names_the_newest_rows(console: RunningConsole) -> None:
    """Ids, counts, and the address of the pages' program; no content."""
    found = heads(console, "editor")
    assert found["message"] == max(console.messages.values())
    assert found["delivery"] == max(console.deliveries.values())
    assert found["worst"] == "ok"
    assert found["jobs"] == []
    assert found["build"]


def test_a_user_of_one_site_sees_the_newest_of_the_site(console: RunningConsole) -> None:
    """Numbers of other sites say nothing about their traffic; nor do their alerts."""
    own = heads(console, "editor1")
    assert own["message"] == console.messages["SITE1"]
    assert own["delivery"] == console.deliveries["SITE1"]
    severe = AlertCondition("age:listener north", AlertSeverity.CRITICAL, "old")
    update_alerts(console.database, [severe], now_ms(), 0)
    assert console.runner.run(hub(console).heads(USERS["editor1"]))["worst"] == "ok"
    assert console.runner.run(hub(console).heads(USERS["editor"]))["worst"] == "red"


def test_a_message_is_applied_after_it_was_received(console: RunningConsole) -> None:
    """A hint at its receipt and one at its application; none for users of other sites."""
    inbox = Inbox(console.database, "test")
    stored = console.store("north", order(71))
    console.index()
    users = ("editor", "editor1")
    before = [console.runner.run(hub(console).heads(USERS[who])) for who in users]
    assert [found["message"] == stored for found in before] == [True, False]
    assert before[0]["indexed"] == stored
    claimed = [message.message_id for message in inbox.claim(now_ms(), 100)]
    inbox.settle(
        [MessageOutcome(stored, QueueEvent.ACCEPTED, sites=frozenset({"SITE2"}))], now_ms()
    )
    inbox.release([number for number in claimed if number != stored], now_ms())
    after = [console.runner.run(hub(console).heads(USERS[who])) for who in users]
    assert after[0]["applied"] > before[0]["applied"]
    assert after[1] == before[1]


def test_causes_are_counted(console: RunningConsole) -> None:
    """Two items with one code are one cause."""
    fresh = console.runner.run(hub(console).heads(USERS["editor"]))
    with console.database.write() as connection:
        codes = [(number, "report_kept") for number in console.messages.values()]
        exceptions.add(connection, ExceptionSubject.MESSAGE, codes, now_ms())
    found = console.runner.run(hub(console).heads(USERS["editor"]))
    assert found["attention"] == fresh["attention"] + 1


def test_the_badge_counts_what_the_pages_show(console: RunningConsole) -> None:
    """Alerts, too; for each user those of the page."""
    alerts = [
        AlertCondition(key, AlertSeverity.WARNING, "text")
        for key in ("disk", "quiet:listener north", "quiet:listener orders")
    ]
    update_alerts(console.database, alerts, now_ms(), 0)
    for who, seen in (("editor", {"disk", "quiet:listener north"}), ("editor1", set())):
        shown = console.call(who, "GET", "/api/attention").json()["groups"]
        assert {group["key"] for group in shown} >= {"quiet:listener orders", *seen}
        assert console.runner.run(hub(console).heads(USERS[who]))["attention"] == len(shown)
    update_alerts(console.database, [], now_ms(), 0)


def test_a_stream_tells_a_new_message_and_the_end_of_the_session(console: RunningConsole) -> None:
    """The first event is the snapshot; the next comes after a change; `ended` is the last."""

    async def follow() -> None:
        streams, ended = hub(console), False

        async def still() -> Grant | None:
            return None if ended else USERS["editor"]

        async with aclosing(events(streams, USERS["editor"], "build", still)) as stream:
            before = await next_heads(stream)
            stored = console.store("orders", order(70))
            after = await next_heads(stream)
            assert after["message"] == stored > before["message"]
            assert after["build"] == "build"

    console.runner.run(follow())


def test_a_session_that_has_ended_ends_its_stream(
    console: RunningConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.console.live.CHECKED_EVERY", 0.0)

    async def follow() -> list[dict[str, Any]]:
        async def gone() -> Grant | None:
            return None

        stream = events(hub(console), USERS["editor"], "", gone)
        return [json.loads(event.partition("data: ")[2]) async for event in stream]

    (last,) = console.runner.run(follow())
    assert last["ended"]


def test_a_stop_ends_all_streams(console: RunningConsole) -> None:
    """So that the web server can close."""

    async def follow() -> None:
        streams = hub(console)
        stream = events(streams, USERS["editor"], "", admitted)
        await next_heads(stream)
        waiting = asyncio.ensure_future(anext(stream, None))
        await streams.stop()
        assert await waiting is None

    console.runner.run(follow())


def test_an_account_has_few_streams(console: RunningConsole) -> None:
    """A further page asks for snapshots; when a stream ends, another may begin."""

    async def follow() -> None:
        streams = hub(console)
        opened = [
            events(streams, USERS["editor"], "", admitted) for _ in range(MAX_STREAMS_OF_ACCOUNT)
        ]
        for stream in opened:
            await next_heads(stream)
        account = str(USERS["editor"].account_id)
        with pytest.raises(TooManyStreams):
            streams.require_room(account)
        await opened[0].aclose()
        streams.require_room(account)
        for stream in opened[1:]:
            await stream.aclose()

    console.runner.run(follow())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("deeds", "audit"),
        ("parked", "attention"),
        ("concerns", "attention"),
        ("find", "orders"),
        ("channels", "connections"),
        ("worklist", "orders?list=unread"),
        ("dashboard", "overview"),
    ],
)
def test_old_addresses_redirect(console: RunningConsole, old: str, new: str) -> None:
    """Permanently, also for somebody who is not signed in: bookmarks stay valid."""
    for who in ("editor", ""):
        response = console.call(who, "GET", f"/{old}")
        assert response.status_code == 308
        assert response.headers["location"] == f"/console/{new}"
