"""The states of reports over time, as the change feed or the status poll told them."""

from typing import Final

from sqlalchemy import Connection, column, delete, exists, select, table
from sqlalchemy.dialects.postgresql import insert

from bridge.store.database import Database
from bridge.store.tables import REPORT_EVENTS

_BATCH: Final = 500
_EVENT: Final = REPORT_EVENTS.c
_DELIVERY: Final = table("delivery", column("report_id"), column("state"))
_UNFINISHED: Final = ("queued", "claimed", "parked")


def add(
    connection: Connection,
    site: str,
    report_id: str,
    at: int,
    event: str,
    status: str,
    actor: str = "",
) -> None:
    """Store a change of a report at a time (ms), unless it is stored already."""
    row = {"site": site, "report_id": report_id, "at": at, "event": event}
    statement = insert(REPORT_EVENTS).on_conflict_do_nothing()
    connection.execute(statement, {**row, "status": status, "actor": actor})


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
