"""The hash chain detects each later change, by itself or with a stored head."""

import threading
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import text

from bridge.audit import outbox
from bridge.audit.chain import BRIDGE_CHAIN, Chain
from bridge.audit.events import COLUMNS, GENESIS, AuditEvent, event_hash
from bridge.errors import BridgeError
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


class RefusalError(BridgeError):
    code = "no_way"


def chained(database: Database) -> list[Any]:
    outbox.relay(database, BRIDGE_CHAIN, database)
    with database.read() as connection:
        assert BRIDGE_CHAIN.verify(connection).broken is None
        query = BRIDGE_CHAIN.table.select().order_by(BRIDGE_CHAIN.table.c.sequence)
        return list(connection.execute(query).all())


def test_an_event_commits_with_its_change(database: Database) -> None:
    event = AuditEvent("pause", target=("listener", "a"))
    with outbox.recorded(database, event, 5) as recording, database.write() as connection:
        connection.execute(text("SELECT 1"))
        recording.describe(before={"paused": False}, after={"paused": True})
    (row,) = chained(database)
    assert (row.action, row.at, row.target_type, row.target_id) == ("pause", 5, "listener", "a")
    assert (row.before, row.after) == ({"paused": False}, {"paused": True})


def test_a_change_that_commits_before_a_crash_has_its_event(database: Database) -> None:
    with (
        suppress(SystemExit),
        outbox.recorded(database, AuditEvent("pause"), 5),
    ):
        with database.write() as connection:
            connection.execute(text("DELETE FROM channel"))
        raise SystemExit  # the code after the change does not run
    assert [event.action for event in chained(database)] == ["pause"]


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [(RefusalError("x"), "refused", "no_way"), (ValueError("patient"), "failed", "internal_error")],
)
def test_a_refusal_is_an_event_without_the_change(
    database: Database, error: Exception, outcome: str, code: str
) -> None:
    """A rolled back action leaves an event with its code, and without the text of the error."""

    def act() -> None:
        with (
            outbox.recorded(database, AuditEvent("pause"), 5),
            database.write() as connection,
        ):
            connection.execute(text("DELETE FROM channel"))
            raise error

    with pytest.raises(type(error)):
        act()
    (row,) = chained(database)
    assert (row.outcome, row.details) == (outcome, {"code": code})


def test_several_transactions_are_one_event(database: Database) -> None:
    """An action with several commits is one event. An action that only reads is one too."""
    with outbox.recorded(database, AuditEvent("replay"), 5):
        for _ in range(3):
            with database.write() as connection:
                connection.execute(text("DELETE FROM channel"))
            outbox.relay(database, BRIDGE_CHAIN, database)
    with outbox.recorded(database, AuditEvent("read"), 6), database.read():
        pass
    assert [event.action for event in chained(database)] == ["replay", "read"]


def test_relays_that_run_at_once_append_once(database: Database) -> None:
    """Two nodes relay one outbox: the chain has each event once, in order."""
    with database.write() as connection:
        for number in range(300):
            outbox.add(connection, AuditEvent("pause", target=("n", str(number))), number)
    threads = [
        threading.Thread(target=outbox.relay, args=(database, BRIDGE_CHAIN, database))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for item in threads:
        item.join()
    assert [row.target_id for row in chained(database)] == [str(number) for number in range(300)]
    assert outbox.pending(database) == 0
