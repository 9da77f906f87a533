"""A process that is killed while it opens a link."""

import asyncio
import os
import secrets

import httpx

from bridge.engine.http.engine_application import create_application
from bridge.engine.records.tables import metadata
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database
from tests.bridge.engine.http.engine_service import BASE, READER, Service, boot, identity, user
from tests.eventually import eventually
from tests.processes import FORKED


def killed_inside(url: str, key: bytes, now: int, link: str) -> None:
    """Open a link, and exit after the report's row is written and before the commit."""
    from sqlalchemy import event  # noqa: PLC0415

    database = Database(url)

    @event.listens_for(database.engine, "after_cursor_execute")
    def die(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if statement.startswith("INSERT INTO engine_report "):
            os._exit(9)

    settings = EngineSettings((("1", key),), public_url=BASE, threads=1)
    application = create_application(settings, database, clock=lambda: now)

    async def opening() -> None:
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            await client.get(link.removeprefix(BASE))

    asyncio.run(opening())


def test_a_process_killed_during_an_opening_leaves_no_report(service: Service) -> None:
    """The report is created in one transaction, and the link can be opened again."""
    key, engine = secrets.token_bytes(32), service.application.state.engine
    engine.keys = type(engine.keys)((("1", key),), secrets.token_bytes)
    link = service.launch(
        userInfo=user(READER), lazyLaunch=True, tags={"KeyFindings": "Nodule"}
    ).json()["reportLink"]
    url = service.database.engine.url.render_as_string(hide_password=False)
    arguments = (url, key, service.clock.now, link)
    process = FORKED.Process(target=killed_inside, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 9
    with service.database.read() as connection:
        assert connection.execute(metadata.tables["engine_report"].select()).all() == []

    def opened() -> httpx.Response | None:
        page = service.open(link)
        return page if page.status_code == 200 else None

    page = eventually(opened)  # after PostgreSQL has detected the end of the process
    assert page is not None
    assert boot(page)["transfer"] is False
    assert service.get("report/content", **identity()).json()["content"] == "Nodule"
