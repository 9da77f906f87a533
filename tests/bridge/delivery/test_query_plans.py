"""Statements of orders and results use indexes on growing tables, on both databases."""

import re
from pathlib import Path

from sqlalchemy import Connection

from bridge.store.database import Database
from tests.bridge.delivery.fixtures import destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.fixture import order
from tests.bridge.query_plans import Statement, plan_of, recorded_statements

GROWING = (
    "message", "message_body", "message_lane", "delivery", "delivery_body", "delivery_lane",
    "bridge_order", "order_signal", "known_report", "merged_patient",
)  # fmt: skip


def scanned_tables(connection: Connection, statement: Statement) -> list[str]:
    scan = r"(?:SCAN|Seq Scan on) (\w+)(?! USING (?:COVERING )?INDEX)"
    found = re.findall(scan, plan_of(connection, statement))
    tables = {re.sub(r"_(from_\d+|rest)$", "", partition) for partition in found}
    return sorted(tables & set(GROWING))


async def run_orders(hospital: Hospital) -> None:
    for number in range(1, 6):
        await hospital.send(order(f"ID{number}", f"A{number}"))
    await hospital.send(order("ID9", "A1"))
    for accession in ("A1", "A2"):
        await hospital.read_and_sign(accession, "Text.")
    await hospital.follow()
    await hospital.delivered(2)


async def test_no_statement_scans_a_growing_table(tmp_path: Path, database: Database) -> None:
    """Receiving, applying, composing and delivering use indexes."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        with recorded_statements(database) as statements:
            await run_orders(hospital)
        assert len({statement for statement, _ in statements}) > 20
        with database.write() as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            slow = {
                statement[0]: found
                for statement in statements
                if (found := scanned_tables(connection, statement))
            }
    assert slow.pop("SELECT state FROM message") == ["message"]  # the statement of the test itself
    assert slow == {}
