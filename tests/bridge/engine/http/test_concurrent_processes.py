"""Several processes on one database: concurrent and killed openings."""

import asyncio
import os
import secrets
from multiprocessing.connection import Connection

import httpx

from bridge.engine.http.engine_application import create_application
from bridge.engine.records.tables import metadata
from bridge.engine.settings import EngineSettings
from bridge.store.database import Database
from tests.bridge.engine.http.engine_service import (
    BASE,
    OTHER,
    READER,
    Service,
    boot,
    identity,
    user,
)
from tests.eventually import eventually
from tests.processes import FORKED

KEY = secrets.token_bytes(32)


def open_in_process(url: str, key: bytes, now: int, link: str, pipe: Connection) -> None:
    """Open a link in another process on a signal; return the result."""
    database = Database(url)
    settings = EngineSettings((("1", key),), public_url=BASE, threads=2)
    application = create_application(settings, database, clock=lambda: now)

    async def opening() -> tuple[int, str]:
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            page = await client.get(link.removeprefix(BASE))
            return page.status_code, boot(page)["reportId"]

    pipe.send("ready")
    pipe.recv()
    pipe.send(asyncio.run(opening()))


def killed_inside(url: str, key: bytes, now: int, link: str, pipe: Connection) -> None:
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

    pipe.send("ready")
    asyncio.run(opening())


def address(service: Service) -> str:
    """Return the address of the test's database."""
    return service.database.engine.url.render_as_string(hide_password=False)


def same_keys(service: Service) -> None:
    """Use the same sealing key as the other processes."""
    engine = service.application.state.engine
    engine.keys = type(engine.keys)((("1", KEY),), secrets.token_bytes)


def test_two_processes_open_two_lazy_links_of_one_order(service: Service) -> None:
    """Exactly one report is created, and both pages show it."""
    same_keys(service)
    links = [
        service.launch(userInfo=user(email), lazyLaunch=True).json()["reportLink"]
        for email in (READER, OTHER)
    ]
    ends = []
    for link in links:
        mine, theirs = FORKED.Pipe()
        arguments = (address(service), KEY, service.clock.now, link, theirs)
        process = FORKED.Process(target=open_in_process, args=arguments)
        process.start()
        ends.append((process, mine))
    for _, mine in ends:
        assert mine.recv() == "ready"
    for _, mine in ends:
        mine.send("go")
    responses = [mine.recv() for _, mine in ends]
    for process, _ in ends:
        process.join()
    assert [status for status, _ in responses] == [200, 200]
    assert {report for _, report in responses} == {service.status()["reportId"]}
    assert len(service.get("report/changes").json()["changes"]) == 1


def test_a_process_killed_during_an_opening_leaves_no_report(service: Service) -> None:
    """The report is created in one transaction, and the link can be opened again."""
    same_keys(service)
    link = service.launch(
        userInfo=user(READER), lazyLaunch=True, tags={"KeyFindings": "Nodule"}
    ).json()["reportLink"]
    mine, theirs = FORKED.Pipe()
    arguments = (address(service), KEY, service.clock.now, link, theirs)
    process = FORKED.Process(target=killed_inside, args=arguments)
    process.start()
    assert mine.recv() == "ready"
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
