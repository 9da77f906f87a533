"""Observations of readers and receivers, as events for the history checker."""

from collections.abc import Iterable, Iterator, Mapping

from tests.acceptance.house import House
from tests.acceptance.wire import control_id
from tests.history import Event, Kind

VERSIONS = {"F": 1, "C": 2}
"""The version of a report by OBR-25: its final text, and one addendum."""


def listed(house: House, steps: Mapping[str, int]) -> list[Event]:
    """Read the worklist; `steps` by title, 0 for any other title."""
    return [
        Event(Kind.LISTED, order["Accession"], steps.get(order.get("StudyDescription", ""), 0))
        for row in house.worklist()
        for order in row["orders"]
    ]


def delivered(messages: Iterable[bytes]) -> Iterator[Event]:
    """Return the results that a receiver got, in their order."""
    for message in messages:
        accession, status = release(message)
        name = control_id(message).decode()
        yield Event(Kind.DELIVERED, accession, VERSIONS[status], name, message)


def release(message: bytes) -> tuple[str, str]:
    """Return the release that a result is about: accession and result status."""
    obr = next(line for line in message.decode().split("\r") if line.startswith("OBR|"))
    fields = obr.split("|")
    return fields[18], fields[25]
