"""`bridge concerns` lists what needs attention until an operator acknowledges it."""

import json
from pathlib import Path

from typer.testing import CliRunner

from bridge.cli.application import application
from bridge.store.records import exceptions, reconcile_rounds
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.reconcile_rounds import ReconcileRound
from bridge.wiring.stores import bridge_database


def command(*arguments: str, expect: int = 0) -> str:
    """Run a command."""
    result = CliRunner().invoke(application, list(arguments))
    assert result.exit_code == expect, (result.output, result.exception)
    return result.stdout


def test_list_and_acknowledge(tmp_path: Path) -> None:
    """Exceptions are acknowledged by message, by order, by feed, or all."""
    home = str(tmp_path / "home")
    command("init", home)
    with bridge_database(tmp_path / "home") as database, database.write() as connection:
        exceptions.add(
            connection, ExceptionSubject.MESSAGE, [(7, "report_kept"), (8, "report_kept")], 1
        )
        exceptions.add(connection, ExceptionSubject.ORDER, [(7, "no_report")], 2)
        exceptions.add(connection, ExceptionSubject.FEED, [(3, "cursor_beyond_end")], 3)

    def listed() -> list[tuple[str, int]]:
        found = json.loads(command("concerns", "list", "--json", "--home", home))
        return [(each["kind"], each["row_id"]) for each in found]

    assert listed() == [("feed", 3), ("order", 7), ("message", 8), ("message", 7)]
    assert "report_kept" in command("exceptions", "list", "--home", home)
    assert command("concerns", "seen", "--feed", "3", "--home", home) == "seen: 1\n"
    assert command("concerns", "seen", "--message", "7", "--home", home) == "seen: 1\n"
    assert listed() == [("order", 7), ("message", 8)]
    command("concerns", "seen", "--home", home, expect=2)
    assert command("concerns", "seen", "--all", "--home", home) == "seen: 2\n"
    assert listed() == []


def test_the_report_of_the_reconcile_job(tmp_path: Path) -> None:
    """The report has the orders compared by the last round, and the orders left out."""
    home = str(tmp_path / "home")
    command("init", home)
    assert "there was none yet" in command("concerns", "report", "--home", home)
    done = ReconcileRound(began_at=1000, ended_at=2000, orders=3, not_asked={"forbidden": 2})
    with bridge_database(tmp_path / "home") as database, database.write() as connection:
        reconcile_rounds.save_round(connection, done, 2000)
    report = json.loads(command("concerns", "report", "--json", "--home", home))
    assert report["last"]["ended_at"] == "1970-01-01T00:00:02.000+00:00"
    assert (report["last"]["orders"], report["last"]["not_asked"]) == (3, {"forbidden": 2})
    assert (report["running"]["orders"], report["running"]["ended_at"]) == (0, None)
    assert report["never_compared"]


def test_a_round_without_a_service(tmp_path: Path) -> None:
    """Without a service the round is requested but not done. Later the report shows it."""
    home = str(tmp_path / "home")
    command("init", home)
    output = command("concerns", "reconcile", "--wait", "0.1", "--home", home, expect=1)
    assert "there was none yet" in output
    with bridge_database(tmp_path / "home") as database, database.write() as connection:
        wished = reconcile_rounds.requested_since(connection)
        assert wished
        reconcile_rounds.save_round(
            connection, ReconcileRound(began_at=wished, ended_at=wished), wished
        )
        assert reconcile_rounds.requested_since(connection) == 0
