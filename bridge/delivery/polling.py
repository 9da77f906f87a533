"""
What a status record means against what was known: the change feed's work, where there is none.

Pure. Decides what is news, and when to ask again: reports that were active lately most often.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridge.contract import ReportStatus
from bridge.delivery.announcing import News, released
from bridge.delivery.seen import NEVER, Seen
from bridge.engine_client.models import SIGNED, StatusRecord
from mappings.results import ResultEvent

SLOWEST = 600_000  # ms between two looks at a report that is still open
SLOWEST_SIGNED = 3_600_000  # ms; an addendum may still come
FORGET_AFTER = 90 * 86_400_000  # ms after the last change of a signed report
_WITHOUT_READ = frozenset({ReportStatus.DRAFT, ReportStatus.ORDERED})
"""Statuses of a report that has no preliminary read: it was withdrawn, reset or discarded."""
SHARE = 10  # a report unchanged for n seconds is asked for every n / SHARE


def is_released(record: StatusRecord, now: int) -> bool:
    """Whether a report is signed and its sign delay is over."""
    return record.status in SIGNED and (record.unsign_until is None or record.unsign_until <= now)


def released_addenda(record: StatusRecord, count: int, now: int) -> int:
    """Of `count` signed addenda, how many are beyond their sign delay."""
    cooling = record.addendum_unsign_until
    return count - 1 if count and cooling is not None and cooling > now else count


def news_from(
    seen: Seen, record: StatusRecord, addenda: int, orders: Sequence[Mapping[str, Any]], now: int
) -> list[News]:
    """
    Compare a record with what was known; `addenda` of the report are released by now.

    A release has the name that the feed would give it, so that the two never both send it.
    """
    common: dict[str, Any] = {
        "report_id": record.report_id,
        "status": record.status.value,
        "orders": orders,
        "at": now,
    }
    news: list[News] = []
    if seen.status != record.status:
        news += [
            News(event, name=f"{event}:{now}", addenda=seen.addenda, **common)
            for event in _progress(seen.status, record.status)
        ]
    if not is_released(record, now):
        return news
    if not seen.final:
        news += released(News(ResultEvent.FINAL, name="final:1", addenda=seen.addenda, **common))
    for number in range(seen.addenda + 1, addenda + 1):
        news += released(
            News(ResultEvent.ADDENDUM, name=f"addendum:{number}", addenda=number, **common)
        )
    return news


def _progress(before: str, after: ReportStatus) -> list[ResultEvent]:
    signed = {status.value for status in SIGNED}
    if after is ReportStatus.PRELIMINARY and before not in signed:
        return [ResultEvent.PRELIMINARY, ResultEvent.ORDER_STATUS]
    if before in signed and after not in SIGNED:
        return [ResultEvent.RECALL, ResultEvent.ORDER_STATUS]
    if before == ReportStatus.PRELIMINARY.value and after in _WITHOUT_READ:
        return [ResultEvent.CANCELLATION, ResultEvent.ORDER_STATUS]
    # Signed, and perhaps to be taken back: only its release tells of it.
    return [ResultEvent.ORDER_STATUS] if before and after not in SIGNED else []


def after_record(seen: Seen, record: StatusRecord, addenda: int, now: int, every: int) -> Seen:
    """Give what is known now, and when to ask again; `every` is the quickest pace in ms."""
    released = is_released(record, now)
    changed = seen.status != record.status or (released and addenda > seen.addenda)
    changed_at = now if changed or not seen.changed_at else seen.changed_at
    after = replace(
        seen,
        report_id=record.report_id,
        status=record.status.value,
        final=seen.final or released,
        addenda=max(seen.addenda, addenda) if released else seen.addenda,
        changed_at=changed_at,
    )
    return replace(after, check_at=_next_look(record, changed_at, now, every))


def _next_look(record: StatusRecord, changed_at: int, now: int, every: int) -> int:
    windows = (record.unsign_until, record.addendum_unsign_until)
    ends = [each for each in windows if each is not None and each > now]
    if ends:
        return min([*ends, now + every])
    idle = now - changed_at
    signed = record.status in SIGNED
    if signed and idle > FORGET_AFTER:
        return NEVER
    return now + min(max(every, idle // SHARE), SLOWEST_SIGNED if signed else SLOWEST)


def after_silence(seen: Seen, now: int, every: int) -> Seen:
    """Give when to ask again for an order that the service did not speak of."""
    idle = now - seen.changed_at if seen.changed_at else 0
    return replace(seen, check_at=now + min(max(every, idle // SHARE), SLOWEST))
