"""Records executed statements, and reads their query plans."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event

from bridge.store.database import Database

Statement = tuple[str, Any]


@contextmanager
def recorded_statements(database: Database) -> Iterator[list[Statement]]:
    """Record the executed statements, each with its first parameters."""
    statements: list[Statement] = []

    def record(_: Any, __: Any, statement: str, values: Any, ___: Any, many: bool) -> None:
        if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "INSERT", "WITH")):
            statements.append((statement, values[0] if many else values))

    event.listen(database.engine, "before_cursor_execute", record)
    try:
        yield statements
    finally:
        event.remove(database.engine, "before_cursor_execute", record)


def plan_of(connection: Connection, statement: Statement) -> str:
    explain = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
    rows = connection.exec_driver_sql(f"{explain} {statement[0]}", statement[1]).all()
    return "\n".join(str(row[-1]) for row in rows)
