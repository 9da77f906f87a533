"""An engine that has its process to itself does brief changes in the loop's own turn."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from bridge.engine.errors import EngineError, ReportNotFound
from bridge.engine.live.database_executor import DatabaseExecutor
from bridge.engine.service import change_feed as feed
from bridge.engine.service.launch.creation import OrderInput
from bridge.engine.service.launch.registration import register
from bridge.engine.service.work import ActorRef, Work
from bridge.store.database import Database
from bridge.store.errors import Conflict
from tests.bridge.engine.service.ward import SITE, START, Ward

LOOP, THREAD = "loop", "thread"


@dataclass
class Place:
    """An engine, and where its work is done."""

    ward: Ward
    work: DatabaseExecutor
    here: str

    def do(
        self, *accessions: str, fail: Exception | None = None, urgent: bool = False
    ) -> list[str]:
        """Register orders one after the other, failing at first; where each was tried."""
        tried: list[str] = []
        loop = threading.get_ident()

        def use(work: Work, accession: str) -> None:
            tried.append(LOOP if threading.get_ident() == loop else THREAD)
            register(work, SITE, OrderInput("M1", accession))
            if fail is not None and len(tried) == 1:
                raise fail

        async def asking() -> None:
            for each in accessions:
                deed = partial(use, accession=each)
                await self.work.change(ActorRef(), START, deed, brief=not urgent, urgent=urgent)

        asyncio.run(asking())
        return tried

    def feed(self) -> list[str]:
        """The accessions that the feed tells of."""
        with self.ward.database.read() as connection:
            page = feed.read_changes(connection, [SITE], 0, 1000)
        return [each["orders"][0]["Accession"] for each in page.changes]


@pytest.fixture(params=[True, False], ids=["alone", "beside a listener"])
def place(database: Database, request: pytest.FixtureRequest) -> Iterator[Place]:
    """An engine that is alone, and one that is not."""
    ward = Ward(database)
    workshop = DatabaseExecutor(database, 4, alone=request.param)
    here = LOOP if request.param and database.dialect == "sqlite" else THREAD
    yield Place(ward, workshop, here)
    workshop.close()


def test_where_it_is_done(place: Place) -> None:
    """In the loop's turn on a file of its own; in a thread beside a listener, and on a server."""
    assert place.do("A", "B") == [place.here] * 2
    assert place.feed() == ["A", "B"]


def test_what_is_urgent_waits_for_no_thread(place: Place) -> None:
    """Beside a listener too: it comes rarely, and others wait for what follows."""
    is_file = place.ward.database.dialect == "sqlite"
    assert place.do("A", urgent=True) == [LOOP if is_file else THREAD]


def test_who_loses_a_race_is_tried_again(place: Place) -> None:
    """In a thread, with nothing kept of what was undone."""
    tried = place.do("A", fail=Conflict("key"))
    assert tried == [place.here, THREAD]
    assert place.feed() == ["A"]


def test_a_refusal_is_told_once(place: Place) -> None:
    """Nothing is tried again for it, and nothing kept."""
    with pytest.raises(EngineError):
        place.do("A", fail=ReportNotFound())
    assert place.feed() == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_nobody_is_waited_for(place: Place) -> None:
    """Where a thread writes just then, another waits for it."""
    writing, enough = threading.Event(), threading.Event()

    def write() -> None:
        with place.ward.database.write():
            writing.set()
            enough.wait(10)

    other = threading.Thread(target=write)
    other.start()
    writing.wait(10)
    threading.Timer(0.1, enough.set).start()
    assert place.do("A") == [THREAD]
    other.join()
    assert place.do("B") == [place.here]
