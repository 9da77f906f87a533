"""What one person reads of one item within five minutes is one event."""

from bridge.console.readings import READING_MS, Readings

MINE = ("ada@site1.test", "127.0.0.1", "read", "message 1")


def test_parts_that_are_read_together_have_one_event() -> None:
    readings = Readings()
    first = readings.event_id(MINE, 1_000)
    assert readings.event_id(MINE, 1_000 + READING_MS - 1) == first
    assert readings.event_id(MINE, 1_000 + READING_MS) != first


def test_other_items_persons_and_addresses_have_their_own() -> None:
    readings = Readings()
    others = [
        ("bob@site1.test", "127.0.0.1", "read", "message 1"),
        ("ada@site1.test", "10.0.0.1", "read", "message 1"),
        ("ada@site1.test", "127.0.0.1", "read", "message 2"),
    ]
    assert len({readings.event_id(reading, 5) for reading in (MINE, *others)}) == 4


def test_a_clock_that_was_set_back_begins_a_new_reading() -> None:
    readings = Readings()
    first = readings.event_id(MINE, 10_000)
    assert readings.event_id(MINE, 9_000) != first


def test_their_number_is_limited() -> None:
    """Strangers cannot make it grow; a forgotten reading begins anew."""
    readings = Readings()
    first = readings.event_id(MINE, 1)
    for number in range(10_001):
        readings.event_id(("bob", "", "read", f"message {number}"), 1)
    assert readings.event_id(MINE, 2) != first
