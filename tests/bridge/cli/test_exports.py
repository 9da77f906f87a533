"""`bridge deliveries export` writes the results that match to a file."""

import csv
import json
import zipfile
from pathlib import Path

from sqlalchemy import text

from bridge.store.databases import bridge_database
from tests.bridge.cli.home import Home

_DELIVERY = text("""
    INSERT INTO delivery (id, destination, lane, report_id, release_key, event, orders, control_id,
        release_at, created_at, state, code, detail)
    VALUES (:n, :to, :n, 'r1', :n, 'final', '{"orders": []}', 'C', 0, :n, :state, '', '')
""")


def test_deliveries_are_exported_as_a_table(tmp_path: Path) -> None:
    """Those that match, oldest first; the file is new, and the export is an event."""
    home = Home(tmp_path / "home")
    home.init()
    with bridge_database(home.folder) as database, database.write() as connection:
        rows = [
            {"n": 1, "to": "ris", "state": "parked"},
            {"n": 2, "to": "his", "state": "parked"},
            {"n": 3, "to": "ris", "state": "done"},
            {"n": 4, "to": "ris", "state": "parked"},
        ]
        connection.execute(_DELIVERY, rows)
    file, some = tmp_path / "table.csv", ("--state", "parked", "--destination", "ris")
    printed = home.ok("deliveries", "export", str(file), "--csv", "--columns", "id,event", *some)
    assert printed == f"2 deliveries exported to {file}\n"
    found = list(csv.DictReader(file.read_text("utf-8-sig").splitlines()))
    assert found == [{"id": "1", "event": "final"}, {"id": "4", "event": "final"}]
    home.ok("deliveries", "export", str(file), "--csv", expect=1)
    home.ok("deliveries", "export", str(tmp_path / "other"), "--csv", "--raw", expect=2)
    events = json.loads(home.ok("audit", "list", "--action", "export", "--json"))
    assert [event["outcome"] for event in events if event["target"]] != []


def test_deliveries_that_were_not_sent_are_left_out_of_raw_files(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.init()
    with bridge_database(home.folder) as database, database.write() as connection:
        connection.execute(_DELIVERY, [{"n": 1, "to": "ris", "state": "queued"}])
    file = tmp_path / "results.zip"
    printed = home.ok("deliveries", "export", str(file), "--raw", "--limit", "5")
    assert printed.startswith(f"0 deliveries exported to {file}\n")
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == ["index.csv"]
