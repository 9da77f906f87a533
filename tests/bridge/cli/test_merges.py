"""`bridge merges` lists merged numbers and undoes a wrong merge."""

import json
from pathlib import Path

from bridge.engine.records.tables import PatientPointer
from bridge.engine.service.work import ActorRef, transaction
from bridge.store.databases import bridge_database
from bridge.store.records import identifier_changes, patient_records
from tests.bridge.cli.home import Home


def merged(home: Home, site: str, prior: str, survivor: str) -> None:
    """Add a site with a merge, in the bridge and in the engine, as an A40 stores it."""
    with bridge_database(home.folder) as database, database.write() as connection:
        identifier_changes.add_merge(connection, site, prior, survivor, 1, None)
        patient_records.merge(connection, site, prior, survivor, now=1)
    home.ok("site", "add", site)
    database = home.database()
    with transaction(database, ActorRef(), 1) as work:
        work.session.add(PatientPointer(site_id=site, prior_mrn=prior, mrn=survivor, merged_at=1))
    database.dispose()


def pointers(home: Home) -> list[tuple[str, str]]:
    """Return the pointers of the engine. Assert that the command lists those of the bridge."""
    with home.database().read() as connection:
        rows = connection.exec_driver_sql("SELECT prior_mrn, mrn FROM engine_patient_pointer")
        found = sorted((prior, mrn) for prior, mrn in rows)
    listed = json.loads(home.ok("merges", "list", "--json"))
    assert sorted((row["prior_mrn"], row["mrn"]) for row in listed) == found
    return found


def test_a_wrong_merge_is_undone(tmp_path: Path) -> None:
    """The pointer is removed on both sides. The audit trail has the reason, and no number."""
    home = Home(tmp_path / "home")
    home.init()
    merged(home, "SITE1", "7021", "7020")
    merged(home, "SITE2", "7031", "7030")
    (row,) = json.loads(home.ok("merges", "list", "--number", "7021", "--json"))
    assert (row["prior_mrn"], row["mrn"], row["merged_into"]) == ("7021", "7020", "7020")
    output = home.ok("merges", "undo", "7021", "--reason", "registration error")
    assert row["reference"] in output
    assert pointers(home) == [("7031", "7030")]
    (event,) = json.loads(home.ok("audit", "list", "--action", "undo merge", "--json"))
    assert event["target"] == {"type": "merge", "id": row["reference"]}
    assert event["details"]["reason"] == "registration error"
    assert "7021" not in json.dumps(event)


def test_what_a_merge_moved_is_shown_and_corrected(tmp_path: Path) -> None:
    """A merge in force is shown with a preview; one that was undone is listed and corrected."""
    home = Home(tmp_path / "home")
    home.init()
    merged(home, "SITE1", "7021", "7020")
    assert "7021 into 7020 of site SITE1" in home.ok("merges", "show", "7021")
    shown = json.loads(home.ok("merges", "show", "7021", "--json"))
    assert (shown["mrn"], shown["orders"], shown["undone_at"]) == ("7020", [], None)
    home.ok("merges", "correct", "7021", "--reason", "in force", expect=1)
    home.ok("merges", "undo", "7021", "--reason", "registration error", "--include-signed")
    (row,) = json.loads(home.ok("merges", "list", "--undone", "--json"))
    assert (row["prior_mrn"], row["mrn"], row["orders"]) == ("7021", "7020", 0)
    assert json.loads(home.ok("merges", "show", "7021", "--json"))["undone_at"]
    assert "nothing to correct" in home.ok("merges", "correct", "7021", "--reason", "two people")
    events = json.loads(home.ok("audit", "list", "--action", "correct results", "--json"))
    assert {event["target"]["id"] for event in events} == {row["reference"]}
    assert "7021" not in json.dumps(events)
    home.ok("merges", "show", "7020", expect=1)


def test_what_cannot_be_undone(tmp_path: Path) -> None:
    """A number without a merge, a number of two sites, and a missing reason are refused."""
    home = Home(tmp_path / "home")
    home.init()
    merged(home, "SITE1", "7021", "7020")
    merged(home, "SITE2", "7021", "7029")
    home.ok("merges", "undo", "7020", "--reason", "no merge", expect=1)
    home.ok("merges", "undo", "7021", "--reason", "which site", expect=1)
    home.ok("merges", "undo", "7021", "--site", "SITE1", "--reason", " ", expect=1)
    home.ok("merges", "undo", "7021", "--site", "SITE1", expect=2)
    assert pointers(home) == [("7021", "7020"), ("7021", "7029")]
    home.ok("merges", "undo", "7021", "--site", "SITE2", "--reason", "two people")
    assert pointers(home) == [("7021", "7020")]
