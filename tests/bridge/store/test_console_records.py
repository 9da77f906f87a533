"""Migration 0032 keeps data, and old background jobs and report events are removed."""

from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import TableClause, text

from bridge.queue import statements
from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.postgresql import partitions
from bridge.store.records import background_jobs, report_events
from bridge.store.records.background_jobs import KEEP_MS
from bridge.store.records.report_events import ReportEventRow

NOW = 1_800_000_000_000
DAY = 86_400_000


def _job(database: Database, state: str, finished_at: int | None) -> int:
    row = {"state": state, "at": finished_at}
    with database.write() as connection:
        job_id = connection.execute(
            text(
                "INSERT INTO background_job (kind, title, selection, options, actor, account_id,"
                " reason, state, created_at, finished_at) VALUES ('export', '', '{}', '{}', '', '',"
                " '', :state, 1, :at) RETURNING id"
            ),
            row,
        ).scalar_one()
        connection.execute(
            text("INSERT INTO background_job_part VALUES (:id, 0, :content)"),
            {"id": job_id, "content": b"x"},
        )
        connection.execute(
            text("INSERT INTO background_job_row VALUES (:id, 7, 'done', '')"), {"id": job_id}
        )
    return int(job_id)


def _ids(database: Database, table: str, column: str = "job_id") -> set[int]:
    with database.read() as connection:
        return set(connection.execute(text(f"SELECT {column} FROM {table}")).scalars())  # noqa: S608  # our own names


def test_files_of_exports_are_deleted_before_their_jobs(database: Database) -> None:
    """A file a day after its end, a job and its rows after 90 days; open jobs stay."""
    waiting = _job(database, "waiting", None)
    lately = _job(database, "done", NOW - DAY // 2)
    yesterday = _job(database, "done", NOW - DAY - 1)
    long_ago = _job(database, "failed", NOW - KEEP_MS - 1)
    background_jobs.prune(database, NOW, DAY)
    assert _ids(database, "background_job_part") == {waiting, lately}
    assert _ids(database, "background_job_row") == {waiting, lately, yesterday}
    assert long_ago not in _ids(database, "background_job", "id")


def test_events_of_a_report_stay_until_its_result_is_delivered(database: Database) -> None:
    """Old events are deleted; an event is stored once."""
    with database.write() as connection:
        for report, at in (("waits", NOW - DAY), ("sent", NOW - DAY), ("sent", NOW)):
            for _ in range(2):
                event = ReportEventRow("S", report, at, "report_signed", "Final")
                report_events.add(connection, [event])
        connection.execute(
            text(
                "INSERT INTO delivery (destination, lane, report_id, release_key, event, orders,"
                " release_at, created_at, state)"
                " VALUES ('d', 1, 'waits', '1', 'final', '{}', 1, 1, 'parked'),"
                " ('d', 1, 'sent', '2', 'final', '{}', 1, 1, 'done')"
            )
        )
    report_events.delete_old(database, NOW - 1)
    with database.read() as connection:
        left = connection.execute(text("SELECT report_id, at FROM report_event ORDER BY at")).all()
    assert [tuple(row) for row in left] == [("waits", NOW - DAY), ("sent", NOW)]


def test_the_tables_of_the_queues_have_the_columns_of_their_statements(database: Database) -> None:
    """The tables without classes, too: each declared column exists in the migrated schema."""
    tables = [item for item in vars(statements).values() if isinstance(item, TableClause)]
    assert "message_entry" in {item.name for item in tables}
    with database.read() as connection:
        inspected = sqlalchemy.inspect(connection)
        for item in tables:
            found = {column["name"] for column in inspected.get_columns(item.name)}
            assert {column.name for column in item.c} <= found, item.name


@pytest.fixture
def empty(database: Database, tmp_path: Path) -> Database:
    if database.dialect == "sqlite":
        return Database(f"sqlite:///{tmp_path / 'empty.db'}")
    with database.write() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    return database


def test_an_upgrade_keeps_rows_and_partitions(empty: Database) -> None:
    """
    Deliveries of 0031 have no site hash; entries get the partitions of messages, and indexed
    messages are indexed again.
    """
    upgrade(empty, target="0031")
    with empty.write() as connection:
        if empty.dialect == "postgresql":
            partitions.create(connection, 1_000_000, 2_000_000)
        connection.execute(
            text(
                "INSERT INTO delivery (destination, lane, report_id, release_key, event, orders,"
                " release_at, created_at, state) VALUES ('d', 1, 'r', '1', 'final', '{}', 1, 1,"
                " 'done')"
            )
        )
        connection.execute(text("INSERT INTO message_number_cursor VALUES ('console', 9)"))
    upgrade(empty)
    with empty.read() as connection:
        cursors = connection.execute(text("SELECT name, message_id FROM message_number_cursor"))
        assert {tuple(row) for row in cursors} == {("console", 9), ("older", 9)}
        row = connection.execute(text("SELECT report_id, sites_hash FROM delivery")).one()
        assert tuple(row) == ("r", None)
        if empty.dialect == "postgresql":
            children = text(
                "SELECT inhrelid::regclass::text FROM pg_inherits"
                " WHERE inhparent = 'message_entry'::regclass"
            )
            found = set(connection.execute(children).scalars())
            names = ("from_0", "from_1000000", "rest")
            assert found == {f"message_entry_{name}" for name in names}
