"""
Background jobs: the retention of their rows, and their end in a test copy.

`bridge.admin.background` creates and runs them.
"""

from typing import Final

from sqlalchemy import Connection, delete, select, update

from bridge.store.database import Database
from bridge.store.tables import BACKGROUND_JOB_PARTS, BACKGROUND_JOB_ROWS, BACKGROUND_JOBS

OPEN_STATES: Final = ("waiting", "running", "stopping")
KEEP_MS: Final = 90 * 86_400_000
"""How long a finished job and its results by row are kept, in milliseconds."""
_BATCH: Final = 1000
_JOB, _ROW, _PART = BACKGROUND_JOBS.c, BACKGROUND_JOB_ROWS.c, BACKGROUND_JOB_PARTS.c


def stop_open(connection: Connection, now: int) -> None:
    """Mark all unfinished jobs as stopped."""
    ended = update(BACKGROUND_JOBS).where(_JOB.state.in_(OPEN_STATES))
    connection.execute(ended.values(state="stopped", finished_at=now, owner=None, lease_until=None))


def prune(database: Database, now: int, keep_exports: int) -> None:
    """
    Delete the files of exports that ended `keep_exports` ms ago, and jobs that ended long ago.

    In short transactions: a job has up to 100,000 rows, and a file up to 256 MiB.
    """
    with database.read() as connection:
        ended = select(_JOB.id).where(_JOB.finished_at < now - keep_exports)
        ids = list(connection.scalars(ended.where(_JOB.id.in_(select(_PART.job_id)))))
        old = list(connection.scalars(select(_JOB.id).where(_JOB.finished_at < now - KEEP_MS)))
    for job_id in {*ids, *old}:
        delete_parts(database, job_id)
    for job_id in old:
        _delete_rows(database, job_id)
        with database.delete_without_sync() as connection:
            connection.execute(delete(BACKGROUND_JOBS).where(_JOB.id == job_id))


def delete_parts(database: Database, job_id: int) -> None:
    """Delete the file of an export."""
    found = True
    while found:
        with database.delete_without_sync() as connection:
            some = select(_PART.number).where(_PART.job_id == job_id).limit(_BATCH // 100)
            numbers = list(connection.scalars(some))
            gone = delete(BACKGROUND_JOB_PARTS).where(_PART.job_id == job_id)
            connection.execute(gone.where(_PART.number.in_(numbers)))
        found = bool(numbers)


def _delete_rows(database: Database, job_id: int) -> None:
    found = True
    while found:
        with database.delete_without_sync() as connection:
            some = select(_ROW.row_id).where(_ROW.job_id == job_id).limit(_BATCH)
            ids = list(connection.scalars(some))
            gone = delete(BACKGROUND_JOB_ROWS).where(_ROW.job_id == job_id)
            connection.execute(gone.where(_ROW.row_id.in_(ids)))
        found = bool(ids)
