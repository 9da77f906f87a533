"""Messages are indexed, and found by number, state, time and text, on both dialects."""

from typing import Any

import pytest
from sqlalchemy import text

from bridge.admin.lists import listing
from bridge.admin.lists.listing import Access, ListPage, ListRequest
from bridge.admin.lists.messages import MessageList
from bridge.admin.messages.message_index import (
    BATCH,
    MISSING_ID_MS,
    MessageIndexer,
    MessageOrigin,
    NumberKind,
    indexed_from,
    number_hash,
    read_numbers,
)
from bridge.queue.listing_rows import MessageRow
from bridge.queue.retention.policy import prune
from bridge.queue.retention.rows import id_at
from bridge.queue.statements import MESSAGE
from mappings.inbound.definition import Subjects
from tests.bridge.admin.messages.full_index import index_all
from tests.bridge.message_store import START, MessageStore


def ids(store: MessageStore, limit: int = 100, **filters: Any) -> list[int]:
    """Return the ids of the first page; `sites` limits the user."""
    return [row.id for row in page(store, limit, **filters).rows]


def page(
    store: MessageStore, limit: int = 100, before: int | None = None, **filters: Any
) -> ListPage[MessageRow]:
    access = Access(filters.pop("sites", None))
    with store.database.read() as connection:
        return MessageList().page(
            connection, ListRequest(filters, before=before, limit=limit), access
        )


def site_by_listener(origin: MessageOrigin) -> Subjects:
    return Subjects(frozenset({origin.listener}))


def test_times_become_ids_by_bisection(store: MessageStore) -> None:
    """The first message at a time or later, also before the first and after the last message."""
    store.fill(1, 50)
    with store.database.write() as connection:
        connection.execute(text("DELETE FROM message WHERE id BETWEEN 20 AND 29"))
    with store.database.read() as connection:
        for second, wanted in ((0, 1), (10, 10), (19, 19), (20, 20), (25, 20), (50, 50), (99, 51)):
            found = id_at(connection, MESSAGE, "received_at", START + second * 1000)
            assert (second, found) == (second, wanted)
    assert ids(store, since=START + 18_000, until=START + 31_000) == [30, 19, 18]


def test_a_page_continues_where_the_previous_one_ended(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row is missing or repeated, also across windows without a match."""
    monkeypatch.setattr(listing, "ID_WINDOW", 10)
    store.fill(1, 3, detail="Table is locked")
    store.fill(4, 40)
    store.fill(41, 45, detail="table is LOCKED again")
    assert all_pages(store, text="locked table", limit=2) == [
        45,
        44,
        43,
        42,
        41,
        3,
        2,
        1,
    ]


def test_a_page_examines_a_bounded_number_of_indexed_rows(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By state and by number: the following pages examine the rest."""
    monkeypatch.setattr(listing, "BUDGET", 10)
    store.fill(1, 3, state="parked", detail="Table is locked")
    store.fill(4, 40, state="parked")
    index_all(MessageIndexer(store.database, site_by_listener, lambda: START))
    first = page(store, state="parked", text="locked")
    assert (first.rows, first.next) == ([], 31)
    assert all_pages(store, state="parked", text="locked") == [3, 2, 1]
    assert page(store, kind="patient", number="M1", text="locked").rows == []
    assert all_pages(store, kind="patient", number="M1", text="locked") == [1]


def all_pages(store: MessageStore, limit: int = 100, **filters: Any) -> list[int]:
    found: list[int] = []
    before = None
    for _ in range(20):
        one = page(store, limit, before, **filters)
        found += [row.id for row in one.rows]
        if (before := one.next) is None:
            break
    return found


def test_parked_messages_are_found_at_any_age(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have an index, so the id window does not apply. A percent sign is a literal."""
    monkeypatch.setattr(listing, "ID_WINDOW", 10)
    store.fill(1, 2, state="parked", detail="100% full")
    store.fill(3, 40)
    assert ids(store, state="parked") == [2, 1]
    assert ids(store, state="parked", text="%") == [2, 1]
    assert ids(store, state="parked", text="0_%") == []
    assert ids(store, state="parked", channel="odd") == [1]


def test_each_message_is_indexed_once_also_if_it_commits_late(store: MessageStore) -> None:
    """More messages than a batch; an id that is committed after greater ids."""
    last = 26 * BATCH
    store.fill(1, last)
    with store.database.write() as connection:
        late = connection.execute(text("DELETE FROM message WHERE id = 515")).rowcount
        connection.execute(text("DELETE FROM message_body WHERE message_id = 515"))
    assert late == 1
    now = [START]
    indexer = MessageIndexer(store.database, site_by_listener, lambda: now[0])
    assert index_all(indexer) == last - 1
    assert index_all(indexer) == 0
    assert ids(store, kind="order", number="P7") == [7]
    assert ids(store, kind="patient", number="M1", limit=2) == [
        last,
        last - 3,
    ]
    with store.database.write() as connection:
        row = "id, received_at, listener, identity, digest, edition, message_type, mapping"
        more = "mapping_version, flags, ack_code, acknowledgment, error_code, error_place, state"
        connection.execute(
            text(
                f"INSERT INTO message ({row}, {more}) SELECT 515, {START + 515_000}, listener, "  # noqa: S608  # names of ours
                f"515, 515, edition, message_type, mapping, {more} FROM message WHERE id = 1"
            )
        )
        connection.execute(
            text(
                "INSERT INTO message_body SELECT 515, payload, ack FROM message_body "
                "WHERE message_id = 1"
            )
        )
    assert index_all(indexer) == 1
    assert index_all(MessageIndexer(store.database, site_by_listener, lambda: now[0])) <= last - 514
    now[0] += MISSING_ID_MS
    assert index_all(indexer) == 0
    assert ids(store, kind="order", number="P1") == [515, 1]


def test_older_messages_are_indexed_again_after_an_upgrade(store: MessageStore) -> None:
    """From the newest to the oldest; new messages are indexed first."""
    store.fill(1, 6)
    with store.database.write() as connection:
        for name in ("console", "older"):
            row = {"name": name, "last": 4}
            connection.execute(text("INSERT INTO message_number_cursor VALUES (:name, :last)"), row)
    indexer = MessageIndexer(store.database, site_by_listener, lambda: START)
    assert index_all(indexer) == 2
    assert ids(store, number="P6") == [6]
    assert ids(store, number="P4") == []
    with store.database.read() as connection:
        assert indexed_from(connection) == START + 5000
    assert indexer.index_older_batch(3) == 3
    assert (ids(store, number="P2"), ids(store, number="P1")) == ([2], [])
    with store.database.read() as connection:
        assert indexed_from(connection) == START + 2000
    assert [indexer.index_older_batch(3) for _ in range(3)] == [1, 0, 0]
    assert ids(store, number="P1") == [1]
    with store.database.read() as connection:
        assert indexed_from(connection) is None


def test_retention_removes_the_index_entries(store: MessageStore) -> None:
    store.fill(1, 10)
    index_all(MessageIndexer(store.database, site_by_listener, lambda: START))
    prune(store.database, START + 5000)
    with store.database.read() as connection:
        left = connection.execute(text("SELECT DISTINCT message_id FROM message_number")).scalars()
        assert set(left) == set(range(5, 11))


def test_a_limited_user_finds_only_messages_of_their_sites(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By time, state and number. A message without site is visible only to unlimited users."""
    monkeypatch.setattr(listing, "ID_WINDOW", 10)
    store.fill(1, 3, state="parked")
    store.fill(4, 12)

    def some(origin: MessageOrigin) -> Subjects:
        return Subjects() if b"|C12|" in origin.payload else site_by_listener(origin)

    index_all(MessageIndexer(store.database, some, lambda: START))
    even = frozenset({"even"})
    assert ids(store, sites=even) == [10, 8, 6, 4, 2]
    assert ids(store, sites=even, state="parked") == [2]
    assert ids(store, sites=even, kind="patient", number="M1") == [10, 4]
    assert ids(store, sites=frozenset({"odd", "even"}), limit=2) == [11, 10]
    assert ids(store, sites=frozenset()) == []


def test_a_message_of_two_sites_needs_access_to_both(store: MessageStore) -> None:
    """A user limited to one of them does not find it."""
    store.fill(1, 1)
    both = frozenset({"A", "B"})
    index_all(MessageIndexer(store.database, lambda _: Subjects(both), lambda: START))
    assert ids(store, sites=frozenset({"A"})) == []
    assert ids(store, sites=frozenset({"A", "B", "C"})) == [1]


INDEXED = (
    b"MSH|^~\\&|RIS|HOSP|BRIDGE|RAD|20260102||ORM^O01|C1|P|2.5.1\r"
    b"PID|1||M1^^^HOSP^MR~N2^^^NHS||DOE^JANE\r"
    b"ORC|NW|P1|F1\rOBR|1|P1|F1|71250^CT\rOBR|2|P2|F2|71260^CT|||||||||||||||A2\r"
)


def test_all_numbers_of_a_message_are_found() -> None:
    """All repetitions of PID-3, and all orders of the message."""
    found = read_numbers(INDEXED)
    assert found.control == {"C1"}
    assert found.patient == {"M1", "N2"}
    assert found.order == {"P1", "F1", "P2", "F2", "A2"}


def test_data_that_is_not_hl7_has_no_numbers() -> None:
    """Time and state still find it."""
    assert list(read_numbers(b"not HL7").hashes()) == []


def test_the_kind_is_part_of_the_hash() -> None:
    """Equal digits of different kinds have different hashes; surrounding blanks are ignored."""
    assert len({number_hash(kind, "4711") for kind in NumberKind}) == len(NumberKind)
    assert number_hash(NumberKind.ORDER, " 4711 ") == number_hash(NumberKind.ORDER, "4711")
