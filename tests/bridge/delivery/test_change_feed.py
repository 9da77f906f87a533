"""The change feed is read from its cursor, and each change is processed once."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import text
from typing_extensions import override

from bridge.contract import OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import (
    ChangeBody,
    ChangesResponse,
    ReleaseBody,
    StatusRecordBody,
)
from bridge.delivery.change_feed import ChangeFeedReader, ChangeProcessor, released_reports
from bridge.delivery.destinations import events_of_change, plan_deliveries
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.metrics import Metrics
from bridge.queue.outbox import Outbox
from bridge.store.database import Database
from mappings.outbound.results import ResultEvent
from tests.bridge.delivery.fixtures import SITE, destination
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import eventually_async

_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


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


async def test_the_changes_of_a_report_are_kept(tmp_path: Path, database: Database) -> None:
    """Who opened and signed it, and its release: each once, with the status after it."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Text.")
        while await hospital.feed_reader.read_page():
            pass
        rows = hospital.rows("SELECT event, status, actor <> '' FROM report_event ORDER BY at, id")
        names = [row[0] for row in rows]
        assert [name for name in names if name != "report_created"] == [
            "report_opened",
            "report_signed",
            "report_finalized",
        ]
        assert rows[-1][1:] == (ReportStatus.FINAL.value, True)


class ScriptedFeed:
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
    ) -> ChangesResponse:
        self.cursors.append(after)
        if self.failures:
            raise self.failures.pop(0)
        await asyncio.sleep(0.01)
        return ChangesResponse(changes=(), cursor=after)


def reader(
    service: ScriptedFeed, database: Database, processor: ChangeProcessor | None = None
) -> ChangeFeedReader:
    processor = processor or ChangeProcessor(database, Outbox(database, "test"), [], lambda: 0)
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


class FailingProcessor(ChangeProcessor):
    """A processor whose first restart fails."""

    restarts = 0

    @override
    def restart(self, feed: str, refused: int, code: str) -> None:
        self.restarts += 1
        if self.restarts == 1:
            raise ZeroDivisionError
        super().restart(feed, refused, code)


async def test_a_restart_that_fails(database: Database) -> None:
    """The reader restarts the feed when the service refuses its cursor again."""
    refusal = EngineFailure("changes", FailureKind.PERMANENT, ErrorCode.CURSOR_BEYOND_END, 409)
    processor = FailingProcessor(database, Outbox(database, "test"), [], lambda: 0)
    made = reader(ScriptedFeed(refusal, refusal), database, processor)
    made.start()
    await eventually_async(lambda: made.supported is True)
    await made.stop()
    assert processor.restarts == 2


async def test_a_stop_that_is_cancelled(database: Database) -> None:
    made = reader(ScriptedFeed(), database)
    made.start()
    await eventually_async(lambda: made.supported is True)
    stopping = asyncio.create_task(made.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping


def released(number: int, kind: str, sequence: int, report: str = "R1") -> ChangeBody:
    """Return the change of a release; `number` is its cursor."""
    key = OrderKey(SITE, "M1", "A1")
    record = StatusRecordBody(
        report_id=report,
        status=ReportStatus.ADDENDUM,
        user_email="",
        unsign_until=None,
        orders=(key,),
        has_content=None,
        addendum_unsign_until=None,
    )
    return ChangeBody(
        cursor=number,
        at=number,
        event="",
        report_id=report,
        record=record,
        orders=(key.tags(),),
        release=ReleaseBody(kind=kind, sequence=sequence),
    )


@pytest.mark.parametrize("pages", [1, 6], ids=["one page", "several pages"])
async def test_results_count_the_released_addenda(database: Database, pages: int) -> None:
    """A result has the addenda released before it: of its own report, without retracted ones."""
    outbox = Outbox(database, "test")
    processor = ChangeProcessor(database, outbox, [destination()], lambda: 0)
    changes = [
        released(1, "addendum", 1),
        released(2, "final", 1),
        released(3, "retraction", 1),
        released(4, "final", 2),
        released(5, "addendum", 2),
        released(6, "final", 1, "R2"),
    ]
    for first in range(0, 6, 6 // pages):
        page = tuple(changes[first : first + 6 // pages])
        processor.process("changes", ChangesResponse(changes=page, cursor=page[-1].cursor))
    with database.read() as connection:
        rows = connection.execute(text("SELECT orders FROM delivery ORDER BY id")).scalars()
        assert [json.loads(row)["addenda"] for row in rows] == [1, 1, 1, 0, 2, 0]


def test_a_release_keeps_its_key_after_a_merge() -> None:
    """A page that is read again after the patient was merged queues nothing twice."""
    before = released(1, "final", 1)
    after = before.model_copy(update={"orders": ({**before.orders[0], "PatientMRN": "M2"},)})
    plans = [plan_deliveries(events_of_change(e, 0), [destination()]) for e in (before, after)]
    assert len({event.release_key for plan in plans for event in plan}) == 1


async def test_a_retracted_report_is_not_known_as_released(database: Database) -> None:
    """The reconciler must find its next release, if the feed loses it."""
    processor = ChangeProcessor(database, Outbox(database, "test"), [destination()], lambda: 0)
    story = [("final", {"R1"}), ("retraction", set()), ("final", {"R1"})]
    for number, (kind, known) in enumerate(story, start=1):
        processor.process(
            "changes", ChangesResponse(changes=(released(number, kind, number),), cursor=number)
        )
        with database.read() as connection:
            assert released_reports(connection, [OrderKey(SITE, "M1", "A1")]) == known


async def test_a_page_that_is_read_again_changes_no_count(database: Database) -> None:
    """Another node has processed the next page meanwhile: its addendum still counts."""
    processor = ChangeProcessor(database, Outbox(database, "test"), [destination()], lambda: 0)
    addenda = tuple(released(number, "addendum", number) for number in (1, 2))
    processor.process("changes", ChangesResponse(changes=addenda, cursor=2))
    processor.process("changes", ChangesResponse(changes=addenda[:1], cursor=1))
    processor.process("changes", ChangesResponse(changes=(released(3, "final", 1),), cursor=3))
    with database.read() as connection:
        rows = connection.execute(text("SELECT orders FROM delivery ORDER BY id")).scalars()
        assert [json.loads(row)["addenda"] for row in rows] == [1, 2, 2]


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_two_nodes_process_one_feed(database: Database) -> None:
    """The second node waits until the first one has processed its page."""
    processor = ChangeProcessor(database, Outbox(database, "test"), [], lambda: 0)

    def is_waiting() -> bool:
        with database.read() as connection:
            return bool(connection.execute(_WAITING).scalar_one())

    with database.write() as connection:
        database.serialize(connection, "feed changes")
        second = asyncio.create_task(
            asyncio.to_thread(processor.process, "changes", ChangesResponse(changes=(), cursor=7))
        )
        await eventually_async(lambda: second.done() or is_waiting())
        assert not second.done()
    await second
    assert processor.cursor("changes") == 7


@pytest.mark.parametrize(
    ("events", "queued"),
    [
        ([ResultEvent.FINAL], ["final"]),
        ([ResultEvent.ORDER_STATUS], ["order-status"]),
        ([ResultEvent.FINAL, ResultEvent.ORDER_STATUS], ["final"]),
    ],
)
async def test_a_result_implies_the_status(
    database: Database, events: list[ResultEvent], queued: list[str]
) -> None:
    """A destination that gets the result does not get the status of the order as well."""
    receiver = destination(events=frozenset(events))
    processor = ChangeProcessor(database, Outbox(database, "test"), [receiver], lambda: 0)
    processor.process("changes", ChangesResponse(changes=(released(1, "final", 1),), cursor=1))
    with database.read() as connection:
        assert list(connection.execute(text("SELECT event FROM delivery")).scalars()) == queued


class FailoverFeed(ScriptedFeed):
    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database

    @override
    async def changes(self, after: int, *rest: Any, **named: Any) -> ChangesResponse:
        with self.database.write() as connection:
            connection.execute(text("UPDATE feed_cursor SET cursor = 5, marked = NULL"))
        return ChangesResponse(changes=(), cursor=after + 5)


async def test_a_failover_during_a_call(database: Database) -> None:
    """The reader passes the cursor of its call, so that the page after it is ignored."""
    processor = ChangeProcessor(database, Outbox(database, "test"), [], lambda: 0)
    processor.process("changes", ChangesResponse(changes=(), cursor=7))
    await reader(FailoverFeed(database), database).read_page()
    assert processor.cursor("changes") == 5


async def test_the_cursor_never_decreases(database: Database) -> None:
    """Two nodes that read one feed do not undo each other's progress."""
    processor = ChangeProcessor(database, Outbox(database, "test"), [], lambda: 0)
    processor.process("changes", ChangesResponse(changes=(), cursor=7))
    processor.process("changes", ChangesResponse(changes=(), cursor=5))
    assert processor.cursor("changes") == 7
    assert processor.cursor("changes SITE2") == 0


async def test_a_failover_skips_no_changes(database: Database) -> None:
    """The reader ignores a page requested before the database was restored to an earlier state."""
    processor = ChangeProcessor(database, Outbox(database, "test"), [], lambda: 0)
    processor.process("changes", ChangesResponse(changes=(), cursor=7))
    processor.process("changes", ChangesResponse(changes=(), cursor=12), after=9)
    assert processor.cursor("changes") == 7
    processor.process("changes", ChangesResponse(changes=(), cursor=12), after=7)
    assert processor.cursor("changes") == 12
