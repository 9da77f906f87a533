"""`bridge exceptions` lists what needs attention until an operator acknowledges it."""

import json
from pathlib import Path

from bridge.store.databases import bridge_database
from bridge.store.records import exceptions, reconcile_rounds
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.reconcile_rounds import ReconcileRound
from tests.bridge.cli.home import Home


def test_list_and_acknowledge(tmp_path: Path) -> None:
    """Exceptions are acknowledged by message, by order, by feed, or all."""
    home = Home(tmp_path / "home")
    home.init()
    with bridge_database(tmp_path / "home") as database, database.write() as connection:
        exceptions.add(
            connection, ExceptionSubject.MESSAGE, [(7, "report_kept"), (8, "report_kept")], 1
        )
        exceptions.add(connection, ExceptionSubject.ORDER, [(7, "no_report")], 2)
        exceptions.add(connection, ExceptionSubject.FEED, [(3, "cursor_beyond_end")], 3)

    def listed() -> list[tuple[str, int]]:
        found = json.loads(home.ok("exceptions", "list", "--json"))
        return [(row["kind"], row["row_id"]) for row in found]

    assert listed() == [("feed", 3), ("order", 7), ("message", 8), ("message", 7)]
    assert "report_kept" in home.ok("concerns", "list"), "the former name"
    assert home.ok("exceptions", "seen", "--feed", "3") == "seen: 1\n"
    assert home.ok("exceptions", "seen", "--message", "7") == "seen: 1\n"
    assert listed() == [("order", 7), ("message", 8)]
    home.ok("exceptions", "seen", expect=2)
    assert home.ok("exceptions", "seen", "--all") == "seen: 2\n"
    assert listed() == []


def test_the_report_of_the_reconcile_job(tmp_path: Path) -> None:
    """The report has the orders compared by the last round, and the orders left out."""
    home = Home(tmp_path / "home")
    home.init()
    assert "none yet" in home.ok("exceptions", "report")
    done = ReconcileRound(began_at=1000, ended_at=2000, orders=3, not_asked={"forbidden": 2})
    with bridge_database(tmp_path / "home") as database, database.write() as connection:
        reconcile_rounds.save_round(connection, done, 2000)
    report = json.loads(home.ok("exceptions", "report", "--json"))
    assert report["last"]["ended_at"] == "1970-01-01T00:00:02.000+00:00"
    assert (report["last"]["orders"], report["last"]["not_asked"]) == (3, {"forbidden": 2})
    assert (report["running"]["orders"], report["running"]["ended_at"]) == (0, None)
    assert report["never_compared"]


def test_a_round_without_a_service(tmp_path: Path) -> None:
    """Without a service the round is requested but not done. Later the report shows it."""
    home = Home(tmp_path / "home")
    home.init()
    output = home.ok("exceptions", "reconcile", "--wait", "0.1", expect=1)
    assert "none yet" in output
    with bridge_database(tmp_path / "home") as database, database.write() as connection:
        requested_at = reconcile_rounds.requested_since(connection)
        assert requested_at
        reconcile_rounds.save_round(
            connection, ReconcileRound(began_at=requested_at, ended_at=requested_at), requested_at
        )
        assert reconcile_rounds.requested_since(connection) == 0
