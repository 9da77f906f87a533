"""The audit outbox: an event commits with its change, and is appended to the chain exactly once."""

import threading
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import text

from bridge.audit import outbox
from bridge.audit.chain import BRIDGE_CHAIN
from bridge.audit.events import AuditEvent
from bridge.errors import BridgeError
from bridge.store.database import Database


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
    assert [each.action for each in chained(database)] == ["pause"]


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
    assert [each.action for each in chained(database)] == ["replay", "read"]


def test_relays_that_run_at_once_append_once(database: Database) -> None:
    """Two nodes relay one outbox: the chain has each event once, in order."""
    with database.write() as connection:
        for number in range(300):
            outbox.add(connection, AuditEvent("pause", target=("n", str(number))), number)
    threads = [
        threading.Thread(target=outbox.relay, args=(database, BRIDGE_CHAIN, database))
        for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [row.target_id for row in chained(database)] == [str(number) for number in range(300)]
    assert outbox.pending(database) == 0
