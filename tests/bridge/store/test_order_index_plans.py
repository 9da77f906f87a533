"""PostgreSQL finds orders by the right index in a table without statistics."""

from typing import Any

import pytest
from sqlalchemy import Connection, text

from bridge.store.database import Database
from bridge.store.postgresql.connection import binary_arrays
from bridge.store.records.order_index import ORDER_NUMBERS

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]

_ORDERS = """
    INSERT INTO bridge_order (site, mrn, accession, state, placer, filler, tags, echo, report_id,
        first_message, place, last_message)
    SELECT 'S', 'M' || n, 'A' || n, 'placed', 'P' || n, '', '{}', '[]', '', n, 0, n
    FROM generate_series(1, :count) AS n
"""


def explain_orders(
    connection: Connection, patients: list[str], how: str = ""
) -> list[tuple[Any, ...]]:
    (array,) = binary_arrays(("text",), [(each,) for each in patients])
    statement = f"{how} {ORDER_NUMBERS.postgres}"
    rows = connection.exec_driver_sql(statement, {"site": "S", "mrns": array})
    return [tuple(row) for row in rows]


@pytest.mark.parametrize("count", [500, 5000])
@pytest.mark.parametrize("many", [3, 30])
def test_the_orders_of_patients_in_a_new_table(database: Database, count: int, many: int) -> None:
    """Orders are searched by patient, not by site, which has an index too."""
    patients = [f"M{number}" for number in range(1, count, count // many)]
    with database.write() as connection:
        connection.execute(text("ALTER TABLE bridge_order SET (autovacuum_enabled = off)"))
        connection.execute(text(_ORDERS), {"count": count})
    with database.read() as connection:
        plan = "\n".join(row[0] for row in explain_orders(connection, patients, "EXPLAIN"))
        found = explain_orders(connection, patients)
    assert "ix_bridge_order_patient" in plan
    assert "Seq Scan" not in plan
    assert sorted(row[1] for row in found) == sorted(f"P{each[1:]}" for each in patients)
