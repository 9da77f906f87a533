"""The events of a status record, the time of the next poll, and the size of its batches."""

from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from bridge.contract import OrderKey, ReportStatus
from bridge.contract.responses import StatusRecordBody
from bridge.delivery.change_feed import NEVER, ChangeProcessor, KnownReport
from bridge.delivery.status_poll import (
    FORGET_AFTER,
    MAX_BATCH,
    MAX_BLOCKING_SECONDS,
    MAX_INTERVAL,
    MAX_INTERVAL_SIGNED,
    MIN_BATCH,
    BatchSize,
    StatusPoller,
    apply_record,
    events_from_record,
    is_released,
    released_addenda,
    reschedule,
)
from bridge.engine_client.client import AccessTokens, EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.store.database import Database
from mappings.outbound.results import ResultEvent
from tests.bridge.delivery.fixtures import EVERYTHING, SITE, TOKEN, destination
from tests.bridge.delivery.test_order_to_result import sign_addendum, texts
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order
from tests.bridge.intake.process.test_order_processor import group, message

NOW = 10**12
EVERY = 5000
ORDERS = [OrderKey("S", "M", "A").tags()]


def record(
    status: ReportStatus, until: int | None = None, addendum_until: int | None = None
) -> StatusRecordBody:
    return StatusRecordBody(
        report_id="r",
        status=status,
        user_email="",
        unsign_until=until,
        orders=(OrderKey("S", "M", "A"),),
        has_content=None,
        addendum_unsign_until=addendum_until,
    )


def known_report(
    status: str = "Draft", *, final: bool = False, addenda: int = 0, changed: int = NOW
) -> KnownReport:
    return KnownReport(OrderKey("S", "M", "A"), "r", status, final, addenda, changed)


Final, Addendum = ReportStatus.FINAL, ReportStatus.ADDENDUM
FINAL, ADDENDUM, STATUS = ResultEvent.FINAL, ResultEvent.ADDENDUM, ResultEvent.ORDER_STATUS

NEWS = {
    "nothing new": (known_report(), record(ReportStatus.DRAFT), 0, []),
    "signed and released": (known_report(), record(Final), 0, ["final:1"]),
    "signed, inside the delay": (known_report(), record(Final, NOW + 1), 0, []),
    "the delay is over": (known_report("Final"), record(Final, NOW), 0, ["final:1"]),
    "sent before": (known_report("Final", final=True), record(Final), 0, []),
    "recalled inside the delay": (
        known_report("Final"),
        record(ReportStatus.DRAFT),
        0,
        [f"recall:{NOW}", f"order-status:{NOW}"],
    ),
    "recalled to the preliminary read": (
        known_report("Final"),
        record(ReportStatus.PRELIMINARY),
        0,
        [f"recall:{NOW}", f"order-status:{NOW}", f"restored:{NOW}"],
    ),
    "preliminary": (
        known_report(),
        record(ReportStatus.PRELIMINARY),
        0,
        [f"preliminary:{NOW}", f"order-status:{NOW}"],
    ),
    "the preliminary read is withdrawn": (
        known_report("Preliminary"),
        record(ReportStatus.DRAFT),
        0,
        [f"cancellation:{NOW}", f"order-status:{NOW}"],
    ),
    "opened": (known_report("Ordered"), record(ReportStatus.DRAFT), 0, [f"order-status:{NOW}"]),
    "unknown before": (known_report(""), record(ReportStatus.DRAFT), 0, []),
    "an addendum": (known_report("Final", final=True), record(Addendum), 1, ["addendum:1"]),
    "report and addenda missed": (
        known_report(),
        record(Addendum),
        2,
        ["final:1", "addendum:1", "addendum:2"],
    ),
    "a second addendum": (
        known_report("Addendum", final=True, addenda=1),
        record(Addendum),
        2,
        ["addendum:2"],
    ),
}


@pytest.mark.parametrize(("known", "now", "addenda", "expected"), NEWS.values(), ids=NEWS)
def test_events(
    known: KnownReport, now: StatusRecordBody, addenda: int, expected: list[str]
) -> None:
    """Events have the names of the change feed."""
    events = [
        event
        for event in events_from_record(known, now, addenda, ORDERS, NOW)
        if event.implied_by is None
    ]
    assert [event.name for event in events] == expected


def test_addenda_in_their_sign_delay_are_not_counted() -> None:
    """Each addendum counts after its own delay; the record has the end of the last one."""
    delay = 1000
    ages = {"released": NOW - delay, "cooling": NOW - 1, "just now": NOW}

    def released(*names: str) -> int:
        signed = [ages[name] for name in names]
        ends = max(signed) + delay
        return released_addenda(record(Addendum, None, ends), signed, NOW)

    assert released_addenda(record(Addendum), [1, 2], NOW) == 2
    assert released_addenda(record(Addendum), [], NOW) == 0
    assert released("released", "cooling") == 1
    assert released("cooling") == 0
    assert released("cooling", "just now") == 0, "two addenda in their delay"
    assert released("released", "cooling", "just now") == 1
    assert released("released", "released") == 2
    assert released("cooling", "released") == 0, "an addendum never comes before an earlier one"


@pytest.mark.parametrize("status", ReportStatus)
def test_only_signed_reports_are_released(status: ReportStatus) -> None:
    assert is_released(record(status), NOW) is (status in {Final, Addendum})


@pytest.mark.parametrize(
    ("status", "until", "idle", "wait"),
    [
        (ReportStatus.DRAFT, None, 0, EVERY),
        (ReportStatus.DRAFT, None, 100_000, 10_000),
        (ReportStatus.DRAFT, None, 10**9, MAX_INTERVAL),
        (Final, NOW + 1000, 0, 1000),
        (Final, NOW + 60_000, 0, EVERY),
        (Final, None, 10**9, MAX_INTERVAL_SIGNED),
        (Final, None, FORGET_AFTER + 1, NEVER - NOW),
    ],
)
def test_the_next_poll(status: ReportStatus, until: int | None, idle: int, wait: int) -> None:
    """A recent change is polled often, an old one rarely, and a sign delay exactly at its end."""
    known = known_report(status.value, final=True, changed=NOW - idle)
    assert apply_record(known, record(status, until), 0, NOW, EVERY).check_at - NOW == wait


def test_unknown_orders_are_polled_less_often() -> None:
    assert reschedule(known_report(changed=NOW - 10**8), NOW, EVERY).check_at == NOW + MAX_INTERVAL
    assert reschedule(known_report(changed=0), NOW, EVERY).check_at == NOW + EVERY


async def test_an_order_that_is_committed_late(tmp_path: Path, database: Database) -> None:
    """An order is polled although an order with a higher id was polled before."""
    row = (
        "INSERT INTO bridge_order (id, site, mrn, accession, state, placer, filler, tags, echo,"
        " report_id, first_message, place, last_message) VALUES (:id, 'S', 'M', :accession,"
        " 'ordered', '', '', '{}', '[]', '', 1, 0, 1)"
    )
    async with open_hospital(tmp_path, database) as hospital:
        for number in (7, 5):
            with database.write() as connection:
                connection.execute(text(row), {"id": number, "accession": f"A{number}"})
            await hospital.poller.poll()
        seen = "SELECT accession FROM known_report ORDER BY accession"
        assert hospital.rows(seen) == [("A5",), ("A7",)]


async def test_a_site_with_a_wrong_token(tmp_path: Path, database: Database) -> None:
    """Its orders are postponed and the refusal is reported; other sites are polled."""
    row = (
        "INSERT INTO known_report (site, accession, mrn, report_id, status, final, addenda,"
        " changed_at, check_at) VALUES ('SITE2', 'B1', 'M2', '', '', 0, 0, 1, 0)"
    )
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Text.")
        with database.write() as connection:
            connection.execute(text(row))
        client = EngineClient(hospital.http, AccessTokens(TOKEN, {"SITE2": "wrong"}))
        processor = ChangeProcessor(database, hospital.outbox, [destination()], hospital.time)
        with pytest.raises(EngineFailure, match="401"):
            await StatusPoller(client, processor, hospital.couriers[0].notify).poll()
        await hospital.delivered(1)
        due = f"SELECT accession FROM known_report WHERE check_at <= {hospital.time()}"  # noqa: S608  # a number
        assert hospital.rows(due) == []


async def test_a_report_that_cannot_be_exported(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its addenda are not counted until its export succeeds; other reports are processed."""
    send, broken = httpx.ASGITransport.handle_async_request, [True]

    async def answer(self: httpx.ASGITransport, request: httpx.Request) -> httpx.Response:
        if broken and request.url.path == "/api/report/export/json" and b'"A1"' in request.content:
            return httpx.Response(500, json={"code": "internal"})
        return await send(self, request)

    monkeypatch.setattr(httpx.ASGITransport, "handle_async_request", answer)
    async with open_hospital(tmp_path, database, destination()) as hospital:
        for number in "12":
            await hospital.send(order(f"ID{number}", f"A{number}", f"M{number}"))
            page = await hospital.read_and_sign(f"A{number}", f"Text {number}.", f"M{number}")
            await sign_addendum(page, f"More {number}.")
        with pytest.raises(EngineFailure, match="500"):
            await hospital.poller.poll()
        sent = await hospital.delivered(2)
        assert all("Text 2." in texts(item) for item in sent)
        broken.clear()
        hospital.time.leap += MAX_INTERVAL_SIGNED
        await hospital.poller.poll()
        sent = await hospital.delivered(4)
        assert "More 1." in texts(sent[-1])


async def test_the_states_that_a_poll_has_seen_are_kept(tmp_path: Path, database: Database) -> None:
    """Without the change feed: each status once, with the reader."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.poller.poll()
        await hospital.read_and_sign("A1", "Text.")
        hospital.time.leap += MAX_INTERVAL_SIGNED
        await hospital.poller.poll()
        hospital.time.leap += MAX_INTERVAL_SIGNED
        await hospital.poller.poll()
        rows = hospital.rows("SELECT event, status, actor FROM report_event ORDER BY id")
        assert [row[:2] for row in rows] == [("status", "Ordered"), ("status", "Final")]
        assert "@" in rows[-1][2]


async def test_linked_orders_that_are_due_at_different_times(
    tmp_path: Path, database: Database
) -> None:
    """Each order of the report gets one message of each event."""
    later = text("UPDATE known_report SET check_at = :later WHERE accession = 'A2'")
    ris = destination(events=EVERYTHING)
    async with open_hospital(tmp_path, database, ris) as hospital:
        await hospital.send(message(group("A1"), group("A2")))
        await hospital.poller.poll()
        page = await hospital.page("A1")
        await page("save", text="Read.")
        await hospital.client.prelim(OrderKey(SITE, "M1", "A1"), "Residents", "R1")
        with database.write() as connection:
            connection.execute(later, {"later": hospital.time() + MAX_INTERVAL})
        for leap in (MAX_INTERVAL // 2, 2 * MAX_INTERVAL):
            hospital.time.leap += leap
            await hospital.poller.poll()
        counts = "SELECT event, count(*) FROM delivery GROUP BY event ORDER BY event"
        assert hospital.rows(counts) == [("order-status", 2), ("preliminary", 2)]


def last_sizes(way: float, per_report: float, rounds: int = 200) -> list[int]:
    """Return the last batch sizes for a service with these response times (seconds)."""
    pace = BatchSize()
    sizes = []
    for _ in range(rounds):
        sizes.append(pace.size)
        pace.record(pace.size, way + per_report * pace.size)
    return sizes[-10:]


@pytest.mark.parametrize("way", [0.0, 0.001, 0.05])
def test_the_work_of_the_service_is_limited(way: float) -> None:
    """Only the work of the service counts, not the round trip."""
    sizes = last_sizes(way, 0.00002)
    assert max(sizes) * 0.00002 == pytest.approx(MAX_BLOCKING_SECONDS, rel=0.02)


def test_a_fast_service_gets_the_largest_batches() -> None:
    """The size is the maximum, and sometimes less to measure the time per report."""
    sizes = last_sizes(0.001, 0.000001)
    assert max(sizes) == MAX_BATCH
    assert min(sizes) > MAX_BATCH / 2


def test_a_slow_service_gets_the_smallest_batches() -> None:
    """A lower bound lets a round end."""
    assert max(last_sizes(0.001, 0.001)) == MIN_BATCH


def test_one_slow_response_is_forgotten() -> None:
    """One slow response has no lasting effect."""
    pace = BatchSize()
    for item in [0.0005] * 50 + [0.000005] * 200:
        pace.record(pace.size, 0.001 + item * pace.size)
    assert pace.size > MAX_BATCH / 2
