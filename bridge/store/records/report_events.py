"""The states of reports over time, as the change feed or the status poll reported them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, column, delete, exists, select, table
from sqlalchemy.dialects.postgresql import insert

from bridge.store.database import Database
from bridge.store.tables import REPORT_EVENTS

_BATCH: Final = 500
_EVENT: Final = REPORT_EVENTS.c
_DELIVERY: Final = table("delivery", column("report_id"), column("state"))
_UNFINISHED: Final = ("queued", "claimed", "parked")


@dataclass(frozen=True, slots=True)
class ReportEventRow:
    """
    A change of a report at a time (ms).

    `event` is the name in the change feed, or `status` if a status poll saw another status.
    `status` is the one after the change; `actor` is the e-mail address of the report's reader.
    """

    site: str
    report_id: str
    at: int
    event: str
    status: str
    actor: str = ""


STATUS_SEEN: Final = "status"
"""The event of a status that a poll has seen; the service has no change feed."""
_ADD: Final = insert(REPORT_EVENTS).on_conflict_do_nothing()


def add(connection: Connection, events: Iterable[ReportEventRow]) -> None:
    """Store changes of reports; those that are stored already stay as they are."""
    rows = [asdict(event) for event in events]
    if rows:
        connection.execute(_ADD, rows)


def of_report(connection: Connection, report_id: str, limit: int) -> Sequence[Row[Any]]:
    """Return the newest changes of a report, oldest first."""
    own = select(REPORT_EVENTS).where(_EVENT.report_id == report_id)
    newest = own.order_by(_EVENT.at.desc(), _EVENT.id.desc()).limit(limit)
    return list(reversed(connection.execute(newest).all()))


_RELEASES: Final = ("report_signed", "report_finalized", "report_prelimed", "addendum_signed")


def released_since(connection: Connection, reports: Collection[str], since: int) -> set[str]:
    """Return which of these reports had a text signed or read preliminarily since a time (ms)."""
    released = select(_EVENT.report_id).where(_EVENT.report_id.in_(reports), _EVENT.at >= since)
    return set(connection.scalars(released.where(_EVENT.event.in_(_RELEASES))))


def delete_old(database: Database, before: int) -> None:
    """Delete events before a time (ms), except of reports with an unfinished delivery."""
    unfinished = exists().where(
        _DELIVERY.c.report_id == _EVENT.report_id, _DELIVERY.c.state.in_(_UNFINISHED)
    )
    after = 0
    while True:  # by id: events that are kept are passed once
        with database.delete_without_sync() as connection:
            some = select(_EVENT.id, _EVENT.at, unfinished.label("kept")).where(_EVENT.id > after)
            rows = connection.execute(some.order_by(_EVENT.id).limit(_BATCH)).all()
            old = [row.id for row in rows if row.at < before and not row.kept]
            connection.execute(delete(REPORT_EVENTS).where(_EVENT.id.in_(old)))
        if not rows or rows[-1].at >= before:  # ids ascend with time, except of late changes
            return
        after = rows[-1].id
