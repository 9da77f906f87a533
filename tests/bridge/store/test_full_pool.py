"""An event loop never waits for a connection of a pool."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.store.database import Database
from bridge.store.errors import Busy
from bridge.store.options import DatabaseOptions

pytestmark = pytest.mark.anyio


@pytest.fixture
def small(tmp_path: Path) -> Database:
    """A file with few connections."""
    return Database(f"sqlite:///{tmp_path / 'small.db'}", DatabaseOptions(2, 0, 20.0))


async def test_an_inline_read_waits_on_a_thread(small: Database) -> None:
    """While all connections are in use, the loop runs. The read continues when one is free."""
    work = DatabaseExecutor(small, 1)
    with ExitStack() as connections:
        for _ in range(4):  # a file has two connections beyond its pool
            connections.enter_context(small.read())
        reading_result = asyncio.ensure_future(
            work.read_inline(lambda c: c.execute(text("SELECT 1")).scalar())
        )
        for _ in range(10):
            await asyncio.sleep(0)
        assert not reading_result.done()
    assert await reading_result == 1
    work.close()
    small.dispose()


async def test_nonblocking_work_is_refused(small: Database) -> None:
    """Work that must not wait is refused, also a read within it."""
    with ExitStack() as connections:
        for _ in range(2):
            connections.enter_context(small.read())
        with small.write_lock.hold_without_waiting():
            for reading in (small.read, small.read_committed, small.write):
                with pytest.raises(Busy), reading():
                    pass
    with small.write_lock.hold_without_waiting(), small.read() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1
    small.dispose()
