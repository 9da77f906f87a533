"""Exports have their own threads: blocked exports do not delay sign-in, launches and health."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from bridge.executors import Threads
from bridge.metrics import Metrics
from bridge.runtime.web_server import Probes, Readiness
from tests.bridge.engine.http.engine_service import BASE, READER, Service, identity

FORMATS = ["html", "rtf", "docx", "pdf"]


@contextmanager
def hanging_exports(service: Service) -> Iterator[None]:
    """Occupy all threads of exports and all places in their queue."""
    stuck = threading.Event()
    room = Threads.EXPORTS.size + Threads.EXPORTS.waiting

    async def begin() -> "list[asyncio.Task[bool]]":
        tasks = [asyncio.create_task(Threads.EXPORTS.run(stuck.wait)) for _ in range(room)]
        await asyncio.sleep(0)  # each task occupies its place
        return tasks

    async def end(tasks: "list[asyncio.Task[bool]]") -> None:
        await asyncio.gather(*tasks)

    tasks = service.runner.run(begin())
    try:
        yield
    finally:
        stuck.set()
        service.runner.run(end(tasks))


def ready(service: Service) -> int:
    """Ask `/readyz` of a process that serves this engine."""

    async def one() -> int:
        readiness = Readiness()
        await readiness.begin()
        probes = Probes(Metrics(), readiness, service.database, service.clock)
        transport = httpx.ASGITransport(app=probes.router(service.application))
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return (await client.get("/readyz")).status_code

    return service.runner.run(one())


def test_hanging_exports_delay_no_other_requests(service: Service) -> None:
    """Sign-in, launches, pages and health have other threads; further exports get 503."""
    service.set_password(READER)
    page = service.open_report()
    with hanging_exports(service):
        assert service.sign_in().status_code == 303
        assert service.launch(accession="A2").status_code == 200
        service.status()
        assert page("report").status_code == 200
        assert ready(service) == 200
        refused = [page(f"export/{kind}") for kind in FORMATS]
        refused.append(service.post("report/export/html", {"clinicalInfo": identity()}))
        for response in refused:
            assert (response.status_code, response.json()["code"]) == (503, "unavailable")
            assert response.headers["retry-after"] == "1"
    assert page("export/html").status_code == 200
