"""`bridge orders return-to-unread` returns an order that is reported elsewhere."""

import json
from pathlib import Path

from bridge.contract import OrderKey
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.reports.elsewhere import mark_order
from bridge.engine.service.work import ActorRef, transaction
from bridge.orders.order import Order, OrderState
from bridge.store.databases import bridge_database
from bridge.store.records import order_index
from tests.bridge.cli.home import Home
from tests.bridge.engine.registrations import register

MESSAGE = {"at": 5, "sender": "ris", "status": "F"}


def reported(home: Home, site: str, number: str) -> None:
    """Add a site with an order that is reported elsewhere, as a status message stores it."""
    key = OrderKey(site, "7021", number)
    home.ok("site", "add", site)
    with bridge_database(home.folder) as database, database.write() as connection:
        order_index.save(connection, [Order(key, OrderState.REPORTED, 1, 1, placer=f"P{number}")])
    engine = home.database()
    with transaction(engine, ActorRef(), 1) as work:
        register(work, site, OrderInput(key.mrn, number))
        mark_order(work, key, MESSAGE)
    engine.dispose()


def states(home: Home) -> list[tuple[str, str, bool]]:
    """Return site, state in the bridge, and whether the engine has a mark, of each order."""
    with home.database().read() as connection:
        query = "SELECT site_id, elsewhere_since FROM engine_report_order ORDER BY site_id"
        marks = [(row[0], row[1] is not None) for row in connection.exec_driver_sql(query)]
    with bridge_database(home.folder) as database, database.read() as connection:
        query = "SELECT state FROM bridge_order ORDER BY site"
        found = [row[0] for row in connection.exec_driver_sql(query)]
    return [(site, state, mark) for (site, mark), state in zip(marks, found, strict=True)]


def test_it_returns_on_both_sides(tmp_path: Path) -> None:
    """The audit trail has the reason, and no number of the order."""
    home = Home(tmp_path / "home")
    home.init()
    reported(home, "SITE1", "A3401")
    reported(home, "SITE2", "A3402")
    home.ok("orders", "return-to-unread", "PA3401", "--reason", "second opinion")
    assert states(home) == [("SITE1", "ordered", False), ("SITE2", "reported", True)]
    (event,) = json.loads(home.ok("audit", "list", "--action", "return-to-unread", "--json"))
    assert event["details"]["reason"] == "second opinion"
    assert "A3401" not in json.dumps(event)


def test_what_is_refused(tmp_path: Path) -> None:
    """An unknown number, a number of two sites, and a missing reason."""
    home = Home(tmp_path / "home")
    home.init()
    reported(home, "SITE1", "A3401")
    reported(home, "SITE2", "A3401")
    home.ok("orders", "return-to-unread", "A1", "--reason", "unknown", expect=1)
    home.ok("orders", "return-to-unread", "A3401", "--reason", "which site", expect=1)
    home.ok("orders", "return-to-unread", "A3401", "--site", "SITE1", "--reason", " ", expect=1)
    assert {state for _, state, _ in states(home)} == {"reported"}
    home.ok("orders", "return-to-unread", "A3401", "--site", "SITE2", "--reason", "again")
    assert states(home) == [("SITE1", "reported", True), ("SITE2", "ordered", False)]
