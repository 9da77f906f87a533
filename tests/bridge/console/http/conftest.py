"""One office for all tests of a module: what they change, they change for one another."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.bridge.console.http.office import (
    BASE,
    PEOPLE,
    Clock,
    Office,
    application,
    employ,
    fill,
    furnish,
    router,
    sign_in,
)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """Two sites with a message, an order and a delivery each."""
    home = Path(tmp_path_factory.mktemp("office")) / "home"
    settings, engine, database = furnish(home)
    ids = employ(engine, database)
    clock = Clock()
    with asyncio.Runner() as runner:
        served, console, asking, http = application(settings, engine, database, clock)
        runner.run(served.state.engine.start())
        transport = httpx.ASGITransport(router(served, console, database))
        client = httpx.AsyncClient(transport=transport, base_url=BASE)
        cookies = {who: runner.run(sign_in(client, each.email)) for who, each in PEOPLE.items()}
        made = Office(
            runner, client, settings, database, console, asking, cookies, {}, {}, clock, ids
        )
        fill(made)
        yield made
        runner.run(client.aclose())
        runner.run(http.aclose())
        runner.run(served.state.engine.stop())
    database.dispose()
    engine.dispose()
