"""One running console for all tests of a module. The tests share its data."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.bridge.console.http.running_console import (
    BASE,
    USERS,
    Clock,
    RunningConsole,
    add_accounts,
    build_applications,
    make_data_directory,
    router,
    sign_in,
    store_data,
)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """Return a console with two sites; each has a message, an order and a delivery."""
    home = Path(tmp_path_factory.mktemp("office")) / "home"
    settings, engine, database = make_data_directory(home)
    ids = add_accounts(engine, database)
    clock = Clock()
    with asyncio.Runner() as runner:
        served, console, asking, http = build_applications(settings, engine, database, clock)
        runner.run(served.state.engine.start())
        transport = httpx.ASGITransport(router(served, console, database))
        client = httpx.AsyncClient(transport=transport, base_url=BASE)
        cookies = {who: runner.run(sign_in(client, item.email)) for who, item in USERS.items()}
        made = RunningConsole(
            runner, client, settings, database, console, asking, cookies, {}, {}, clock, ids
        )
        store_data(made)
        yield made
        runner.run(client.aclose())
        runner.run(http.aclose())
        runner.run(served.state.engine.stop())
    database.dispose()
    engine.dispose()
