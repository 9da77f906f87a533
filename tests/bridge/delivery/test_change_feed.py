"""The change feed is read from its cursor, and each change is processed once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from bridge.delivery.change_feed import ChangeFeedReader, ChangeProcessor
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import ChangePage
from bridge.errors import FailureKind
from bridge.metrics import Metrics
from bridge.queue.outbox import Outbox
from bridge.store.database import Database
from tests.bridge.delivery.fixtures import destination
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import eventually_async

pytestmark = pytest.mark.anyio


async def test_ignored_events_are_not_read(tmp_path: Path, database: Database) -> None:
    """The feed does not send registrations of orders, and the cursor passes them."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        processor = ChangeProcessor(database, Outbox(database, "another"), (), lambda: 0)
        await hospital.send(order("ID1", "A1"))
        assert await hospital.feed_reader.read_page() == 0
        after = processor.cursor("changes")
        assert after > 0
        assert await hospital.feed_reader.read_page() == 0
        assert processor.cursor("changes") == after


async def test_it_polls_in_the_background(tmp_path: Path, database: Database) -> None:
    """The reader polls by itself: a signed report reaches the receiver."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        hospital.feed_reader.start()
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Text.")
        await hospital.delivered(1)
        assert hospital.feed_reader.supported is True
        await hospital.feed_reader.stop()
        assert hospital.rows("SELECT count(*) FROM feed_cursor") == [(1,)]


class ScriptedFeed:
    """A feed that raises the given failures, then has no changes."""

    def __init__(self, *failures: EngineFailure) -> None:
        self.failures = list(failures)
        self.cursors: list[int] = []

    async def changes(
        self,
        after: int,
        limit: int = 500,
        wait: float = 0.0,
        site: str = "",
        without: Sequence[str] = (),
        *,
        texts: bool = False,
    ) -> ChangePage:
        self.cursors.append(after)
        if self.failures:
            raise self.failures.pop(0)
        await asyncio.sleep(0.01)
        return ChangePage((), after)


def reader(service: ScriptedFeed, database: Database) -> ChangeFeedReader:
    """Return a reader without destinations."""
    processor = ChangeProcessor(database, Outbox(database, "test"), [], lambda: 0)
    return ChangeFeedReader(service, processor, Metrics(), lambda: None, random=Random(1))  # type: ignore[arg-type]  # scripted


@pytest.mark.parametrize(
    ("status", "code"), [(404, "http_404"), (405, "http_405"), (200, "unreadable")]
)
async def test_a_service_without_the_feed(database: Database, status: int, code: str) -> None:
    """`supported` is False, and the status poll replaces the feed."""
    service = ScriptedFeed(EngineFailure("changes", FailureKind.PERMANENT, code, status))
    made = reader(service, database)
    made.start()
    await eventually_async(lambda: made.supported is False)
    await made.stop()


async def test_reconnection(database: Database) -> None:
    """After a failure the reader waits and continues from the same cursor."""
    service = ScriptedFeed(EngineFailure("changes", FailureKind.TRANSIENT, "unreachable"))
    made = reader(service, database)
    made.start()
    await eventually_async(lambda: made.supported is True)
    await made.stop()
    assert service.cursors[:2] == [0, 0]


async def test_the_cursor_never_decreases(database: Database) -> None:
    """Two nodes that read one feed do not undo each other's progress."""
    processor = ChangeProcessor(database, Outbox(database, "test"), [], lambda: 0)
    processor.process("changes", ChangePage((), 7))
    processor.process("changes", ChangePage((), 5))
    assert processor.cursor("changes") == 7
    assert processor.cursor("changes SITE2") == 0


async def test_a_failover_skips_no_changes(database: Database) -> None:
    """The reader ignores a page requested before the database was restored to an earlier state."""
    processor = ChangeProcessor(database, Outbox(database, "test"), [], lambda: 0)
    processor.process("changes", ChangePage((), 7))
    processor.process("changes", ChangePage((), 12), after=9)
    assert processor.cursor("changes") == 7
    processor.process("changes", ChangePage((), 12), after=7)
    assert processor.cursor("changes") == 12
