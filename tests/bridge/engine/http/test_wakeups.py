"""A commit wakes waiting readers, also in other processes."""

import asyncio
import secrets

import pytest

from bridge.engine.http.engine_application import create_application
from bridge.engine.live.change_notifier import wait_notified
from bridge.engine.rules.order import OrderId
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.work import ActorRef
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database
from tests.bridge.engine.http.engine_service import BASE, Service, user

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
    assert {each["event"] for each in page["changes"]} == {"report_opened"}
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


A1 = OrderId("SITE1", "P1", "A1")
