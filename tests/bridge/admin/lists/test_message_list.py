"""The list of messages: any filters together, in pages that lose no row, at a bounded cost."""

from collections.abc import Callable
from typing import Any

import pytest

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import InvalidContent, PermissionDenied
from bridge.admin.lists import listing
from bridge.admin.lists.listing import UNLIMITED, Access, ListRequest
from bridge.admin.lists.messages import MessageList
from tests.bridge.admin.lists.filled_lists import (
    START,
    FilledLists,
    Sample,
    all_pages,
    ids,
    page_of,
)

MESSAGES = MessageList()
CASES: dict[str, tuple[dict[str, Any], Callable[[Sample], bool]]] = {
    "all": ({}, lambda item: True),
    "channel": ({"channel": "his"}, lambda item: item.channel == "his"),
    "channels": ({"channel": ["his", "ris"]}, lambda item: True),
    "type": ({"type": "ADT^A40"}, lambda item: item.type == "ADT^A40"),
    "state": ({"state": "parked"}, lambda item: item.state == "parked"),
    "states": ({"state": ["failed"]}, lambda item: item.state in {"parked", "refused"}),
    "open": ({"state": "open"}, lambda item: item.state == "queued"),
    "retrying": (
        {"state": ["retrying", "parked"]},
        lambda item: item.state == "parked" or (item.state == "queued" and item.attempts > 0),
    ),
    "cause": ({"cause": "207"}, lambda item: item.code == "207"),
    "cause of a channel": (
        {"cause": "207", "state": "parked", "channel": "ris"},
        lambda item: (item.code, item.state, item.channel) == ("207", "parked", "ris"),
    ),
    "order number": ({"number": "p7", "kind": "order"}, lambda item: item.n == 7),
    "any number": ({"number": " C12 "}, lambda item: item.n == 12),
    "patient": ({"number": "M1", "kind": "patient"}, lambda item: item.n % 3 == 1),
    "name": ({"name": "muller JÜRGEN"}, lambda item: item.n % 3 == 0),
    "one word of a name": ({"name": "Anna"}, lambda item: item.n % 3 == 1),
    "sender": ({"sender": "ris|RIS1|HOSP"}, lambda item: item.n % 2 == 1 and item.channel == "ris"),
    "absent": ({"absent": "Modality"}, lambda item: not item.has_modality),
    "absent of a channel": (
        {"absent": ["Modality"], "channel": "his", "type": "ORM^O01"},
        lambda item: not item.has_modality and item.channel == "his" and item.type == "ORM^O01",
    ),
    "flags": ({"flags": ["reused id"]}, lambda item: item.n % 6 == 0),
    "text": ({"text": "locked 100%"}, lambda item: item.n % 2 == 1),
    "a percent sign is a literal": ({"text": "k%d"}, lambda item: False),
    "definition": ({"definition": "orders", "version": "v2"}, lambda item: False),
    "times": (
        {"since": START + 20_000, "until": START + 60_000},
        lambda item: 20 <= item.n < 60,
    ),
    "everything": (
        {
            "since": START + 20_000,
            "channel": "ris",
            "type": ["ORM^O01", "OMI^O23"],
            "state": ["done", "parked"],
            "text": "locked",
        },
        lambda item: (
            item.n >= 20
            and item.channel == "ris"
            and item.type in {"ORM^O01", "OMI^O23"}
            and item.state in {"done", "parked"}
            and item.n % 2 == 1
        ),
    ),
    "no number": ({"number": " "}, lambda item: False),
}


SMALL = {"ID_WINDOW": 7, "BUDGET": 5, "ABSENT_WINDOW": 9, "_SAMPLE": 3, "_SAMPLE_WINDOW": 5}


@pytest.mark.parametrize("small", [False, True], ids=["", "small budgets"])
def test_pages_have_each_matching_row_once(
    lists: FilledLists, monkeypatch: pytest.MonkeyPatch, *, small: bool
) -> None:
    """For each filter, newest and oldest first, also if a page looks at few rows only."""
    if small:
        for name, value in SMALL.items():
            monkeypatch.setattr(listing, name, value)
    for name, (filters, matches) in CASES.items():
        wanted = lists.expected(matches)
        for limit in (4, 200):
            found = all_pages(lists.database, MESSAGES, ListRequest(filters, limit=limit))
            assert (name, found) == (name, wanted)
            oldest = ListRequest(filters, descending=False, limit=limit)
            assert (name, all_pages(lists.database, MESSAGES, oldest)) == (name, wanted[::-1])


def test_a_job_gets_the_ids_in_ascending_order(
    lists: FilledLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All up to the newest id at its start; each call has a bounded cost."""
    monkeypatch.setattr(listing, "ID_WINDOW", 10)
    for filters, matches in CASES.values():
        cursor, complete = 0, False
        found: list[int] = []
        while not complete:
            with lists.database.read() as connection:
                page = MESSAGES.ids_after(connection, filters, UNLIMITED, cursor, 100, 3)
            assert page.cursor >= cursor
            cursor, complete = page.cursor, page.complete
            found += page.ids
        assert found == [n for n in reversed(lists.expected(matches)) if n <= 100]


def test_the_number_of_matches_is_counted_up_to_a_limit(lists: FilledLists) -> None:
    for filters, matches in CASES.values():
        wanted = len(lists.expected(matches))
        with lists.database.read() as connection:
            assert MESSAGES.count(connection, filters, UNLIMITED) == (wanted, True)
            if wanted > 3:
                assert MESSAGES.count(connection, filters, UNLIMITED, 3) == (3, False)


def test_rows_are_counted_across_gaps(lists: FilledLists, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap of ids, larger than the window of a page, does not end the count."""
    monkeypatch.setattr(listing, "ID_WINDOW", 20)
    with lists.database.write() as connection:
        connection.exec_driver_sql("DELETE FROM message WHERE id BETWEEN 11 AND 110")
    with lists.database.read() as connection:
        assert MESSAGES.count(connection, {}, UNLIMITED) == (20, True)


def test_an_incomplete_page_says_how_far_it_has_looked(
    lists: FilledLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "ID_WINDOW", 30)
    page = page_of(lists.database, MESSAGES, ListRequest({"text": "k%d"}))
    assert (ids(page.rows), page.next, page.complete) == ([], 91, False)
    assert page.examined_to == START + 91_000
    whole = page_of(lists.database, MESSAGES, ListRequest({"channel": "his"}))
    assert (whole.complete, whole.next, whole.examined_to) == (True, None, None)


def test_new_rows_are_asked_for_without_losing_the_place(lists: FilledLists) -> None:
    """Rows after the newest that is shown, oldest first."""
    lists.fill(121, 140)
    found = page_of(lists.database, MESSAGES, ListRequest({"channel": "his"}, after=119))
    assert ids(found.rows) == [123, 127, 131, 135, 139]
    some = page_of(lists.database, MESSAGES, ListRequest({}, after=119, limit=3))
    assert (ids(some.rows), some.next) == ([120, 121, 122], 122)


def test_few_rows_are_sorted_by_a_column(
    lists: FilledLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pages; if more rows match than can be sorted, they are listed by time."""
    request = ListRequest({"channel": "ris"}, sort="attempts", limit=10)
    wanted = sorted(
        lists.expected(lambda item: item.channel == "ris"), key=lambda n: (-(n % 3), -n)
    )
    assert all_pages(lists.database, MESSAGES, request) == wanted
    page = page_of(lists.database, MESSAGES, request)
    assert page.sortable
    monkeypatch.setattr(listing, "SORTABLE", 20)
    page = page_of(lists.database, MESSAGES, request)
    assert not page.sortable
    assert ids(page.rows) == lists.expected(lambda item: item.channel == "ris")[:10]


@pytest.mark.parametrize(
    "filters", [{}, {"state": "parked"}, {"number": "M1"}, {"type": "ORM^O01"}]
)
def test_a_limited_user_sees_only_messages_of_their_sites(
    lists: FilledLists, filters: dict[str, Any]
) -> None:
    """In pages, counts, ids and by id; a user without sites sees nothing."""
    every = all_pages(lists.database, MESSAGES, ListRequest(filters))
    of_b = set(lists.expected(lambda item: item.site == "B"))
    access = Access(frozenset({"B"}))
    found = all_pages(lists.database, MESSAGES, ListRequest(filters, limit=5), access)
    assert found == [n for n in every if n in of_b]
    many = Access(frozenset({"B", *map(str, range(12))}))
    assert all_pages(lists.database, MESSAGES, ListRequest(filters), many) == found
    with lists.database.read() as connection:
        assert MESSAGES.count(connection, filters, access) == (len(found), True)
        assert ids(MESSAGES.rows(connection, range(1, 121), access)) == sorted(of_b, reverse=True)
    assert all_pages(lists.database, MESSAGES, ListRequest(filters), Access(frozenset())) == []


def test_a_search_needs_the_permission_for_what_it_searches(lists: FilledLists) -> None:
    """A number needs `find`, a patient's number and name also `bodies`; any number finds less."""
    sees = Access(None, frozenset({Permission.SEE}))
    finds = Access(None, frozenset({Permission.SEE, Permission.FIND}))
    for access, filters in (
        (sees, {"number": "P7"}),
        (finds, {"name": "Anna"}),
        (finds, {"number": "M1", "kind": "patient"}),
    ):
        with pytest.raises(PermissionDenied):
            page_of(lists.database, MESSAGES, ListRequest(filters), access)
    assert all_pages(lists.database, MESSAGES, ListRequest({"number": "P7"}), finds) == [7]
    assert all_pages(lists.database, MESSAGES, ListRequest({"number": "M1"}), finds) == []


def test_stored_filters_contain_no_number_and_no_name(lists: FilledLists) -> None:
    """They find the same messages."""
    for filters in ({"number": "M1", "channel": "ris"}, {"name": "Anna Rossi"}):
        sealed = MESSAGES.sealed(filters, UNLIMITED)
        assert not {"number", "name"} & sealed.keys()
        assert "M1" not in str(sealed)
        assert "rossi" not in str(sealed).lower()
        assert all_pages(lists.database, MESSAGES, ListRequest(sealed)) == all_pages(
            lists.database, MESSAGES, ListRequest(filters)
        )
    finds = Access(None, frozenset({Permission.SEE, Permission.FIND}))
    with pytest.raises(PermissionDenied):
        MESSAGES.sealed({"name": "Rossi"}, finds)


@pytest.mark.parametrize(
    "filters",
    [
        {"patient": "x"},
        {"state": "finished"},
        {"channel": 7},
        {"channel": []},
        {"channel": ["x"] * 65},
        {"type": "x" * 201},
        {"since": "yesterday"},
        {"absent": "Mood"},
        {"hashes": "1"},
    ],
)
def test_an_unknown_filter_or_value_is_refused(lists: FilledLists, filters: dict[str, Any]) -> None:
    with pytest.raises(InvalidContent):
        page_of(lists.database, MESSAGES, ListRequest(filters))


def test_ids_below_the_oldest_row_are_not_searched(
    lists: FilledLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After retention the least id is large: the last page is complete."""
    monkeypatch.setattr(listing, "ID_WINDOW", 40)
    with lists.database.write() as connection:
        connection.exec_driver_sql("DELETE FROM message WHERE id < 90")
    page = page_of(lists.database, MESSAGES, ListRequest({"text": "k%d"}))
    assert page.complete
