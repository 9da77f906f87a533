"""The lists of deliveries, orders and attention items: filters, sites, and columns."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidContent, PermissionDenied
from bridge.admin.lists import attention, deliveries, listing, orders
from bridge.admin.lists.deliveries import DeliveryList, add_sites
from bridge.admin.lists.listing import UNLIMITED, Access, ListRequest
from bridge.admin.lists.orders import OrderList, OrderRow
from bridge.index_key import keyed64
from bridge.queue.sites import sites_hash
from bridge.store.database import Database
from bridge.store.records import exceptions
from bridge.store.records.exceptions import ExceptionSubject
from tests.bridge.admin.lists.filled_lists import START, all_pages, ids, page_of

COUNT = 40
DELIVERIES, ORDERS = DeliveryList(), OrderList()
_DELIVERY = text("""
    INSERT INTO delivery (id, destination, lane, report_id, release_key, event, orders, control_id,
        release_at, created_at, state, code, detail, sent_at, acknowledged_at, sites_hash)
    VALUES (:n, :destination, :lane, :report, :n, 'final', :orders, :control, 0, :at, :state, :code,
        '', :at, :accepted, :sites)
""")
_LANE = text("INSERT INTO delivery_lane (lane, delivery_id, claimed) VALUES (:lane, :n, 0)")
_ORDER = text("""
    INSERT INTO bridge_order (id, site, mrn, accession, state, placer, filler, tags, echo,
        report_id, first_message, place, last_message)
    VALUES (:n, :site, :mrn, :accession, :state, :placer, '', :tags, '[]', :report, :n, 1, :n)
""")
_KNOWN = text("""
    INSERT INTO known_report (site, accession, mrn, report_id, status, final, addenda, changed_at,
        check_at)
    VALUES (:site, :accession, :mrn, :report, 'Final', 1, 0, :at, :at)
""")
_MESSAGE = text("""
    INSERT INTO message (id, received_at, listener, identity, digest, edition, message_type,
        mapping, mapping_version, flags, ack_code, acknowledgment, error_code, error_place, state)
    VALUES (:n, :at, 'ris', :n, :n, 0, 'ORM^O01', 'orders', 'v1', 0, 'AA', 'delivered', '', '',
        'done')
""")


def site(n: int) -> str:
    return ("A", "A", "B")[n % 3]


def state(n: int) -> str:
    return ("done", "parked", "queued", "done")[n % 4]


def row(n: int) -> dict[str, Any]:
    tags = {"SiteID": site(n), "Accession": f"A{n}", "PatientName": "Müller^Jürgen"}
    tags |= {"PatientMRN": f"M{n % 5}"}
    return {
        "n": n,
        "destination": ("his", "ris")[n % 2],
        "lane": n % 7,
        "report": f"r{n % 10}",
        "orders": json.dumps({"orders": [tags]}),
        "control": f"RB{n}",
        "at": START + n * 1000,
        "accepted": START + n * 1000 + 40 if state(n) == "done" else None,
        "state": state(n),
        "code": "AE" if state(n) == "parked" else "",
        "sites": None if n <= 10 else keyed64(sites_hash([site(n)])),
        "site": site(n),
        "mrn": f"M{n % 5}",
        "accession": f"A{n}",
        "placer": f"P{n}^RIS",
        "tags": json.dumps(tags),
    }


@pytest.fixture
def filled(database: Database) -> Database:
    rows = [row(n) for n in range(1, COUNT + 1)]
    with database.write() as connection:
        connection.execute(_MESSAGE, rows)
        connection.execute(_DELIVERY, rows)
        connection.execute(_LANE, [one for one in rows if one["state"] == "queued"])
        connection.execute(_ORDER, rows)
        connection.execute(_KNOWN, [one for one in rows if one["n"] % 8 == 0])
        if database.dialect == "postgresql":
            connection.execute(text("SELECT setval('message_ids', :last)"), {"last": COUNT})
    return database


def expected(matches: Callable[[int], bool]) -> list[int]:
    return [n for n in range(COUNT, 0, -1) if matches(n)]


CASES: dict[str, tuple[dict[str, Any], Callable[[int], bool]]] = {
    "all": ({}, lambda _: True),
    "destination": ({"destination": "his"}, lambda n: n % 2 == 0),
    "state": ({"state": ["parked", "queued"]}, lambda n: state(n) in {"parked", "queued"}),
    "cause": (
        {"state": "parked", "cause": "AE", "destination": "ris"},
        lambda n: state(n) == "parked" and n % 2 == 1,
    ),
    "report": ({"report": ["r3", "r4"]}, lambda n: n % 10 in {3, 4}),
    "control id": ({"control_id": "RB7"}, lambda n: n == 7),
    "event": ({"event": "addendum"}, lambda _: False),
    "times": ({"since": START + 5000, "until": START + 9000}, lambda n: 5 <= n < 9),
    "accepted": (
        {"state": "done", "accepted_since": START + 20_000},
        lambda n: state(n) == "done" and n >= 20,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_deliveries_are_found_by_any_filters(
    filled: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each once, also if a page looks at few rows only."""
    filters, matches = CASES[name]
    for window, budget in ((listing.ID_WINDOW, listing.BUDGET), (7, 5)):
        monkeypatch.setattr(listing, "ID_WINDOW", window)
        monkeypatch.setattr(listing, "BUDGET", budget)
        assert all_pages(filled, DELIVERIES, ListRequest(filters, limit=4)) == expected(matches)


def test_a_limited_user_sees_deliveries_of_their_sites(filled: Database) -> None:
    """Those of an earlier release after their sites have been added."""
    access = Access(frozenset({"B"}))
    of_b = expected(lambda n: site(n) == "B")
    assert all_pages(filled, DELIVERIES, ListRequest(), access) == [n for n in of_b if n > 10]
    assert add_sites(filled) == 10
    assert add_sites(filled) == 0
    assert all_pages(filled, DELIVERIES, ListRequest(limit=3), access) == of_b
    many = Access(frozenset({"B", *map(str, range(9))}))
    assert all_pages(filled, DELIVERIES, ListRequest(), many) == of_b
    assert all_pages(filled, DELIVERIES, ListRequest(), Access(frozenset())) == []


def test_a_queued_delivery_names_the_one_that_it_waits_for(filled: Database) -> None:
    """The first one of its lane; latency is the time from sending to acceptance."""
    found = {listed.id: listed for listed in page_of(filled, DELIVERIES, ListRequest()).rows}
    queued = [n for n in range(1, COUNT + 1) if state(n) == "queued"]
    for n in queued:
        earlier = [other for other in queued if other < n and other % 7 == n % 7]
        assert found[n].waits_for == (min(earlier) if earlier else None)
    assert found[4].latency == 40
    assert found[1].latency is None


def test_columns_of_deliveries_and_orders_need_their_permissions(filled: Database) -> None:
    """Numbers need `find`, patients `bodies`; nothing of another site is returned."""
    finds = Access(frozenset({"B"}), frozenset({Permission.SEE, Permission.FIND}))
    for read in (deliveries.column_values, orders.column_values):
        assert read(filled, [2, 3], ["accession"], finds).values == {2: {"accession": "A2"}}
        with pytest.raises(PermissionDenied):
            read(filled, [2], ["name"], finds)
        with pytest.raises(InvalidContent):
            read(filled, [2], ["mood"], UNLIMITED)
        found = read(filled, [3], ["name", "patient", "tag:SiteID"], UNLIMITED).values
        assert found == {3: {"name": "Müller, Jürgen", "patient": "M3", "tag:SiteID": "A"}}


NOT_ACCEPTED = {n % 10 for n in range(1, COUNT + 1) if state(n) == "parked"}
"""The numbers of reports with a parked result."""
ORDER_CASES: dict[str, tuple[dict[str, Any], Callable[[int], bool]]] = {
    "all": ({}, lambda _: True),
    "site": ({"site": "B"}, lambda n: site(n) == "B"),
    "state": ({"state": "parked"}, lambda n: state(n) == "parked"),
    "report state": ({"report_status": "Final"}, lambda n: n % 8 == 0),
    "report not opened": ({"report_status": ["Ordered"]}, lambda n: n % 8 != 0),
    "a result not accepted": ({"waiting": "receiver"}, lambda n: n % 10 in NOT_ACCEPTED),
    "long": ({"waiting": ["long"]}, lambda _: False),
    "a result, or for a sender": (
        {"waiting": ["receiver", "sender"]},
        lambda n: n % 10 in NOT_ACCEPTED,
    ),
    "accession": ({"number": "a7"}, lambda n: n == 7),
    "patient": ({"number": "M2", "kind": "patient"}, lambda n: n % 5 == 2),
    "report": ({"report": "r4"}, lambda n: n % 10 == 4),
    "times": ({"since": START + 5000, "until": START + 9000}, lambda n: 5 <= n < 9),
}


@pytest.mark.parametrize("name", ORDER_CASES)
def test_orders_are_found_by_any_filters(filled: Database, name: str) -> None:
    filters, matches = ORDER_CASES[name]
    assert all_pages(filled, ORDERS, ListRequest(filters, limit=4)) == expected(matches)
    access = Access(frozenset({"A"}))
    own = [n for n in expected(matches) if site(n) == "A"]
    assert all_pages(filled, ORDERS, ListRequest(filters), access) == own
    with filled.read() as connection:
        assert ORDERS.count(connection, filters, access) == (len(own), True)
        assert ORDERS.ids_after(connection, filters, access, 0, COUNT, 100).ids == own[::-1]


def test_orders_that_wait(filled: Database) -> None:
    """For whom, as their sentences say; those of a day or more have waited long."""
    now = time.time_ns() // 1_000_000
    states = {7: "ordered", 11: "held", 13: "awaited", 16: "ordered", 17: "ordered", 40: "ordered"}
    with filled.write() as connection:
        connection.execute(text("UPDATE delivery SET state = 'done', code = ''"))
        connection.execute(text("UPDATE known_report SET status = 'Preliminary' WHERE mrn = 'M1'"))
        for n, name in states.items():
            values = {"n": n, "state": name}
            connection.execute(text("UPDATE bridge_order SET state = :state WHERE id = :n"), values)
        values = {"n": 17, "at": now - 1000}
        statement = "UPDATE message SET received_at = :at WHERE id >= :n"
        connection.execute(text(statement), values)

    def waiting(*names: str) -> dict[int, str]:
        rows = page_of(filled, ORDERS, ListRequest({"waiting": list(names)})).rows
        return {row.id: row.waits_for for row in rows}

    assert waiting("reader") == {17: "reader", 7: "reader"}
    assert waiting("reviewer") == {16: "reviewer"}
    assert waiting("sender") == {13: "sender", 11: "sender"}
    assert waiting("long") == {16: "reviewer", 7: "reader"}
    assert waiting("long", "sender") == {16: "reviewer", 13: "sender", 11: "sender", 7: "reader"}
    assert waiting("receiver") == {}
    with pytest.raises(InvalidContent):
        waiting("weather")


def test_the_sentence_of_an_order_in_the_list(filled: Database) -> None:
    """What its page says; results of orders of other sites are not named."""
    with filled.write() as connection:
        exceptions.add(connection, ExceptionSubject.ORDER, [(16, "no_report")], 1)
        statement = "UPDATE message SET state = 'parked', code = 'site_not_found' WHERE id = 24"
        connection.execute(text(statement))

    def listed(n: int, access: Access = UNLIMITED) -> OrderRow:
        with filled.read() as connection:
            return ORDERS.rows(connection, [n], access)[0]

    assert (listed(8).waits_for, listed(8).tone) == ("receiver", "info")
    assert listed(8).sentence.startswith("The report was signed")
    assert "The result is being sent to his" in listed(8).sentence
    assert "The report engine does not know the order" in listed(16).sentence
    assert "Message 24 of this order was parked" in listed(24).sentence
    assert (listed(24).waits_for, listed(24).tone) == ("person", "red")
    assert site(25) == "A"
    assert "parked" in listed(25).sentence
    with filled.write() as connection:
        connection.execute(text("UPDATE delivery SET sites_hash = 1"))
    assert "parked" not in listed(25, Access(frozenset({"A"}))).sentence


def test_an_order_names_its_report_and_its_last_delivery(filled: Database) -> None:
    listed = page_of(filled, ORDERS, ListRequest({"number": "A7"})).rows[0]
    assert (listed.first_at, listed.report.id) == (START + 7000, "r7")
    assert (listed.last_delivery, listed.last_delivery_state) == (37, state(37))


def test_orders_are_listed_for_those_who_may_search(filled: Database) -> None:
    """A patient's number needs `bodies`."""
    sees = Access(None, frozenset({Permission.SEE}))
    finds = Access(None, frozenset({Permission.SEE, Permission.FIND}))
    for access, filters in ((sees, {}), (finds, {"number": "M2", "kind": "patient"})):
        with pytest.raises(PermissionDenied):
            page_of(filled, ORDERS, ListRequest(filters), access)
    assert ids(page_of(filled, ORDERS, ListRequest({"number": "M2"}), finds).rows) == []


def test_attention_items_are_listed_until_they_are_seen(filled: Database) -> None:
    """Of the user's sites; feeds only for users of all sites."""
    noted = [
        (ExceptionSubject.ORDER, [(2, "merge_undone"), (3, "kept")]),
        (ExceptionSubject.DELIVERY, [(32, "AE")]),
        (ExceptionSubject.FEED, [(7, "feed_replaced")]),
    ]
    with filled.write() as connection:
        for number, (subject, codes) in enumerate(noted):
            exceptions.add(connection, subject, codes, START + number)

    def listed(access: Access = UNLIMITED, **filters: Any) -> list[tuple[str, int]]:
        with filled.read() as connection:
            page = attention.page(connection, ListRequest(filters), access)
            assert attention.count(connection, filters, access) == (len(page.rows), True)
        return [(item.subject, item.row_id) for item in page.rows]

    assert listed() == [("feed", 7), ("delivery", 32), ("order", 3), ("order", 2)]
    assert listed(Access(frozenset({"B"}))) == [("delivery", 32), ("order", 2)]
    assert listed(subject="order", code="kept") == [("order", 3)]
    exceptions.mark_seen(filled, [(ExceptionSubject.ORDER, 3)], START + 9, "ann")
    assert listed(subject="order") == [("order", 2)]
    assert listed(subject="order", seen="yes") == [("order", 3)]
    with pytest.raises(InvalidContent):
        listed(mood="x")
