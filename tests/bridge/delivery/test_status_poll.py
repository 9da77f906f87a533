"""What a status record means against what was known, and when to ask again."""

import pytest

from bridge.contract import ReportStatus
from bridge.delivery.known_reports import NEVER, KnownReport
from bridge.delivery.status_poll import (
    FORGET_AFTER,
    MAX_INTERVAL,
    MAX_INTERVAL_SIGNED,
    apply_record,
    events_from_record,
    is_released,
    released_addenda,
    reschedule_unknown,
)
from bridge.engine_client.models import OrderKey, StatusRecord
from bridge.store.records.order_index import OrderIndexKey
from mappings.outbound.results import ResultEvent

NOW = 10**12
EVERY = 5000
ORDERS = [OrderKey("S", "M", "A").tags()]


def record(
    status: ReportStatus, until: int | None = None, addendum_until: int | None = None
) -> StatusRecord:
    """Make a record of one order."""
    return StatusRecord("r", status, "", until, (OrderKey("S", "M", "A"),), None, addendum_until)


def seen(
    status: str = "Draft", *, final: bool = False, addenda: int = 0, changed: int = NOW
) -> KnownReport:
    """Make what was known."""
    return KnownReport(OrderIndexKey("S", "M", "A"), "r", status, final, addenda, changed)


Final, Addendum = ReportStatus.FINAL, ReportStatus.ADDENDUM
FINAL, ADDENDUM, STATUS = ResultEvent.FINAL, ResultEvent.ADDENDUM, ResultEvent.ORDER_STATUS

NEWS = {
    "nothing new": (seen(), record(ReportStatus.DRAFT), 0, []),
    "signed and out": (seen(), record(Final), 0, ["final:1"]),
    "signed, inside the delay": (seen(), record(Final, NOW + 1), 0, []),
    "the delay is over": (seen("Final"), record(Final, NOW), 0, ["final:1"]),
    "told before": (seen("Final", final=True), record(Final), 0, []),
    "taken back inside the delay": (
        seen("Final"),
        record(ReportStatus.DRAFT),
        0,
        [f"recall:{NOW}", f"order-status:{NOW}"],
    ),
    "preliminary": (
        seen(),
        record(ReportStatus.PRELIMINARY),
        0,
        [f"preliminary:{NOW}", f"order-status:{NOW}"],
    ),
    "the preliminary read is withdrawn": (
        seen("Preliminary"),
        record(ReportStatus.DRAFT),
        0,
        [f"cancellation:{NOW}", f"order-status:{NOW}"],
    ),
    "opened": (seen("Ordered"), record(ReportStatus.DRAFT), 0, [f"order-status:{NOW}"]),
    "never heard of before": (seen(""), record(ReportStatus.DRAFT), 0, []),
    "an addendum": (seen("Final", final=True), record(Addendum), 1, ["addendum:1"]),
    "report and addenda missed": (
        seen(),
        record(Addendum),
        2,
        ["final:1", "addendum:1", "addendum:2"],
    ),
    "a second addendum": (
        seen("Addendum", final=True, addenda=1),
        record(Addendum),
        2,
        ["addendum:2"],
    ),
}


@pytest.mark.parametrize(("known", "now", "addenda", "expected"), NEWS.values(), ids=NEWS)
def test_news(known: KnownReport, now: StatusRecord, addenda: int, expected: list[str]) -> None:
    """What is told, under names that the feed would give; releases come with their status."""
    told = [
        each
        for each in events_from_record(known, now, addenda, ORDERS, NOW)
        if each.implied_by is None
    ]
    assert [each.name for each in told] == expected


def test_addenda_that_cool_are_not_counted() -> None:
    """The latest addendum counts when its own delay is over."""
    assert released_addenda(record(Addendum), 2, NOW) == 2
    assert released_addenda(record(Addendum, None, NOW + 1), 2, NOW) == 1
    assert released_addenda(record(Addendum, None, NOW), 2, NOW) == 2


@pytest.mark.parametrize("status", ReportStatus)
def test_only_signed_reports_are_released(status: ReportStatus) -> None:
    """No other status ever is."""
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
def test_when_to_ask_again(status: ReportStatus, until: int | None, idle: int, wait: int) -> None:
    """Lately active: often. Long idle: seldom. The end of a delay: exactly then."""
    known = seen(status.value, final=True, changed=NOW - idle)
    assert apply_record(known, record(status, until), 0, NOW, EVERY).check_at - NOW == wait


def test_silence_is_asked_again_more_and_more_seldom() -> None:
    """An order that the service does not know may yet come."""
    assert reschedule_unknown(seen(changed=NOW - 10**8), NOW, EVERY).check_at == NOW + MAX_INTERVAL
    assert reschedule_unknown(seen(changed=0), NOW, EVERY).check_at == NOW + EVERY
