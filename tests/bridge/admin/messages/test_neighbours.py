"""The neighbours of a message, and its differences to the one before, on both dialects."""

import re

import pytest
from sqlalchemy import text

from bridge.admin.items.neighbours import (
    Adjacent,
    differences_of,
    neighbours,
    previous_of_order,
)
from bridge.admin.messages.message_index import MessageIndexer, MessageOrigin
from bridge.errors import BridgeError
from bridge.queue import queries
from mappings.hl7.message import Message
from mappings.inbound.definition import Subjects
from tests.bridge.admin.messages.full_index import index_all
from tests.bridge.message_store import START, MessageStore
from tests.bridge.query_plans import plan_of, recorded_statements

NOBODY = frozenset[str]()


def subjects_of(origin: MessageOrigin) -> Subjects:
    """A definition that reads MRN and accession, and whose site is the listener's."""
    message = Message.parse(origin.payload)
    return Subjects(
        frozenset({origin.listener}),
        frozenset({message.value("PID-3.1")}),
        frozenset({message.value("OBR-18")}) - {""},
    )


def charset_of(listener: str) -> str:
    return "utf-8"


def indexed(store: MessageStore, *messages: tuple[str, str, str, str]) -> None:
    """Store messages of listener, MRN, accession and procedure, with the ids 1, 2, …"""
    store.fill(1, len(messages))
    with store.database.write() as connection:
        for number, (listener, mrn, accession, procedure) in enumerate(messages, start=1):
            payload = (
                f"MSH|^~\\&|RIS|HOSP|B|R|20260102||ORM^O01|C{number}|P|2.5.1\r"
                f"PID|1||{mrn}\rORC|NW\rOBR|1|||{procedure}||||||||||||||{accession}\r"
            ).encode()
            connection.execute(
                text("UPDATE message SET listener = :listener WHERE id = :id"),
                {"listener": listener, "id": number},
            )
            connection.execute(
                text("UPDATE message_body SET payload = :payload WHERE message_id = :id"),
                {"payload": payload, "id": number},
            )
    index_all(MessageIndexer(store.database, subjects_of, lambda: START))


MESSAGES = (
    ("north", "M1", "A1", "CT"),  # 1
    ("south", "M1", "A2", "MR"),  # 2
    ("north", "M2", "A3", "US"),  # 3
    ("north", "M1", "A1", "CT"),  # 4
    ("north", "m1", "A4", "CR"),  # 5: the same patient in lower case
    ("south", "M1", "A1", "MG"),  # 6
    ("north", "M1", "A1", "XR"),  # 7
)


def test_the_messages_before_and_after(store: MessageStore) -> None:
    """Of the same patient, order and listener; the order is found across listeners."""
    indexed(store, *MESSAGES)
    found = neighbours(store.database, subjects_of, 4, None)
    assert found.patient == Adjacent(2, 5)
    assert found.order == Adjacent(1, 6)
    assert found.sender == Adjacent(3, 5)
    assert neighbours(store.database, subjects_of, 3, None).patient == Adjacent(None, None)
    assert neighbours(store.database, subjects_of, 1, None).order == Adjacent(None, 4)
    assert neighbours(store.database, subjects_of, 7, None).order == Adjacent(6, None)


def test_messages_of_other_sites_are_passed_over(store: MessageStore) -> None:
    """A user sees the nearest message of the own sites, or none."""
    indexed(store, *MESSAGES)
    found = neighbours(store.database, subjects_of, 4, {"north"})
    assert (found.patient, found.order) == (Adjacent(1, 5), Adjacent(1, 7))
    found = neighbours(store.database, subjects_of, 2, {"south"})
    assert (found.patient, found.sender) == (Adjacent(None, 6), Adjacent(None, 6))
    found = neighbours(store.database, subjects_of, 4, NOBODY)
    assert {found.patient, found.order, found.sender} == {Adjacent(None, None)}


def test_the_fields_of_the_standard_apply_without_a_definition(store: MessageStore) -> None:
    """A message that no definition reads has neighbours by its own numbers."""
    indexed(store, *MESSAGES)
    found = neighbours(store.database, lambda origin: Subjects(), 4, None)
    assert (found.patient, found.order) == (Adjacent(2, 5), Adjacent(1, 6))


def test_the_difference_to_the_message_before_of_the_same_order(store: MessageStore) -> None:
    """It names the places, also across listeners, but not across sites that are hidden."""
    indexed(store, *MESSAGES)

    def found(message_id: int, sites: set[str] | None) -> tuple[int | None, list[str]]:
        previous = previous_of_order(store.database, subjects_of, message_id, sites)
        if previous is None:
            return None, []
        detail = queries.message(store.database, message_id)
        rows = differences_of(store.database, previous, detail, charset_of)
        return previous, [row.place for row in rows]

    assert found(4, None) == (1, ["MSH-10"])
    assert found(6, None) == (4, ["MSH-10", "OBR-4"])
    assert found(6, {"south"}) == (None, [])
    assert found(1, None) == (None, [])


def test_what_is_not_hl7_has_no_differences(store: MessageStore) -> None:
    indexed(store, *MESSAGES[:2])
    with store.database.write() as connection:
        connection.execute(
            text("UPDATE message_body SET payload = :payload WHERE message_id = 1"),
            {"payload": b"GET / HTTP/1.1"},
        )
    detail = queries.message(store.database, 2)
    assert list(differences_of(store.database, 1, detail, charset_of)) == []


def test_a_message_that_is_gone(store: MessageStore) -> None:
    with pytest.raises(BridgeError):
        neighbours(store.database, subjects_of, 99, None)


def test_each_lookup_is_a_search_by_number_and_id(store: MessageStore) -> None:
    """No statement reads all messages of a patient, or all messages."""
    indexed(store, *(("north", "M1", f"A{number}", "CT") for number in range(300)))
    with store.database.write() as connection:
        connection.execute(text("ANALYZE"))
    with recorded_statements(store.database) as statements:
        found = neighbours(store.database, subjects_of, 150, {"north"})
        assert found.patient == Adjacent(149, 151)
    assert statements
    with store.database.read() as connection:
        plans = [plan_of(connection, statement) for statement in statements]
    scans = [plan for plan in plans if re.search(r"SCAN message|Seq Scan on message\b", plan)]
    assert not scans, scans


def test_the_sites_of_a_bounded_number_of_messages_are_examined(store: MessageStore) -> None:
    """A neighbour beyond two hundred hidden messages is not searched for."""
    hidden = [("north", "M1", "A1", "CT")] * 200
    indexed(store, ("south", "M1", "A1", "CT"), *hidden, ("south", "M1", "A1", "CT"))
    found = neighbours(store.database, subjects_of, 202, {"south"})
    assert found.patient == Adjacent(None, None)
