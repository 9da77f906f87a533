"""The hash chain detects each later change, by itself or with a stored head."""

from typing import Any

import pytest
from sqlalchemy import text

from bridge.audit.chain import BRIDGE_CHAIN, Chain
from bridge.audit.events import COLUMNS, GENESIS, AuditEvent, event_hash
from bridge.store.database import Database

_CHANGES = {
    "at": 5,
    "sequence": 77,
    "version": 1,
    "details": '{"count": 2}',
    "before": '{"role": "x"}',
    "after": '{"role": "y"}',
    "account_id": 9,
    "token_id": 9,
}


@pytest.fixture
def chain(database: Database) -> Chain:
    for number in range(4):
        event = AuditEvent(
            "user-update",
            "SITE1",
            actor="ann@site1.test",
            target=("user", f"{number}"),
            before={"role": "user"},
            event_id=f"e{number}",
        )
        append(database, event, number)
    return BRIDGE_CHAIN


def append(database: Database, event: AuditEvent, now: int) -> None:
    with database.write() as connection:
        BRIDGE_CHAIN.record(connection, database, [event], now)


def run(database: Database, statement: str, **values: Any) -> None:
    """Change the table without the chain."""
    with database.write() as connection:
        connection.execute(text(statement), values)


def broken(database: Database) -> int | None:
    with database.read() as connection:
        return BRIDGE_CHAIN.verify(connection).broken


@pytest.mark.parametrize("name", COLUMNS)
def test_a_changed_member_is_found(chain: Chain, database: Database, name: str) -> None:
    """The hash covers each member of an event, its number and its format."""
    assert broken(database) is None
    value = _CHANGES.get(name, "x")
    kind = "CAST(:value AS JSON)" if name in ("details", "before", "after") else ":value"
    if database.dialect == "sqlite":
        kind = ":value"
    statement = f"UPDATE audit_event SET {name} = {kind} WHERE sequence = 4"  # noqa: S608  # a column's name
    run(database, statement, value=value)
    assert broken(database) is not None


def test_a_missing_event_is_found(chain: Chain, database: Database) -> None:
    """The chain detects a removed event and two swapped events."""
    run(database, "DELETE FROM audit_event WHERE sequence = 2")
    assert broken(database) == 3


def test_a_stored_head(chain: Chain, database: Database) -> None:
    """A stored head detects a removed end, a removed table and a recomputed end."""
    with database.read() as connection:
        sequence, head = chain.head(connection)
        assert (sequence, chain.contains(connection, head, sequence)) == (4, True)
        assert not chain.contains(connection, head, 3)
    run(database, "DELETE FROM audit_event WHERE sequence = 4")
    assert broken(database) is None
    append(database, AuditEvent("other", event_id="e9"), 3)
    with database.read() as connection:
        assert chain.verify(connection).broken is None
        assert not chain.contains(connection, head)
    run(database, "DELETE FROM audit_event")
    with database.read() as connection:
        assert not chain.contains(connection, head)
        assert chain.head(connection) == (0, GENESIS)


def test_events_of_the_first_format(database: Database) -> None:
    """Events of the first format stay valid, and neither format passes for the other."""
    old: dict[str, Any] = {
        "at": 1,
        "site_id": None,
        "action": "login",
        "outcome": "success",
        "account_id": 1,
        "token_id": None,
        "report_id": None,
        "details": {},
        "previous_hash": GENESIS,
        "version": 1,
    }
    with database.write() as connection:
        row = {**old, "hash": event_hash(old), "sequence": 7}
        connection.execute(BRIDGE_CHAIN.table.insert().values(**row))
    append(database, AuditEvent("logout"), 2)
    assert broken(database) is None
    run(database, "UPDATE audit_event SET actor = 'x' WHERE sequence = 7")
    assert broken(database) == 7
