"""Result formats that `bridge.toml` selects, from the signature to the bytes at a receiver."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import group_of, order
from tests.acceptance.radiologist import addendum
from tests.acceptance.wire import Sink, control_id
from tests.conformance.parsers import agree, structure_errors

TEXT = "FINDINGS:\nNo nodule.\n\nIMPRESSION: normal."
FORMATS: dict[str, dict[str, Any]] = {
    "old": {"version": "2.3", "interpreter": "xcn", "times": "local"},
    "block": {"version": "2.3.1", "layout": "formatted", "addenda": "newest"},
    "sections": {"version": "2.4", "sections": "loinc", "layout": "repetitions"},
    "codes": {"sections": "dicom", "echo": "whole", "time_zone": "Europe/Zurich"},
    "child": {"addenda": "child"},
    "files": {"content": ["text", "pdf", "rtf"], "metadata": {"*": "NTE", "Extra": "OBR-21"}},
    "combined": {"orders": "combined"},
    "grouped": {"orders": "grouped"},
}


@dataclass(frozen=True, slots=True)
class Receivers:
    """A running service, and a sink for each result format."""

    house: House
    sinks: dict[str, Sink]


@pytest.fixture(scope="module")
def receivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receivers]:
    """A service that has released a report with an addendum and a report of two orders."""
    house = House(tmp_path_factory.mktemp("renderings") / "home")
    sinks = {name: Sink() for name in FORMATS}
    for name, settings in FORMATS.items():
        house.destination(name, sinks[name].port, **settings)
    house.make()
    house.start()
    house.send(order(1, extra="NTE|1||Allergic\r"))
    house.draft("M1", "A1", TEXT, Metadata={"Extra": "seven"})
    house.sign("M1", "A1")
    addendum(house, "M1", "A1", "One more thing.")
    house.send(order(2, extra=group_of(3)))
    house.draft("M2", "A2", TEXT)
    house.sign("M2", "A2")
    yield Receivers(house, sinks)
    house.kill()
    for each in sinks.values():
        each.stop()


@pytest.mark.parametrize("name", FORMATS)
def test_the_preview_is_what_is_sent(receivers: Receivers, name: str) -> None:
    """`mapping try` composes the releases of a destination again; only MSH-7 differs."""
    sent = {control_id(message): message for message in receivers.sinks[name].about("|A1|", 2)}
    for message in sent.values():
        assert not structure_errors(message)
        assert agree(message)
    options = ("--destination", name, "--last", "20", "--json")
    previews = json.loads(receivers.house.bridge("mapping", "try", "results", *options))

    composed = [text.encode() for each in previews for text in each["hl7"]]
    again = {control_id(each.replace(b"\n", b"\r")): each for each in composed}
    assert sent.keys() <= again.keys()
    for number, message in sent.items():
        expected = message.strip(b"\r").replace(b"\r", b"\n")
        if name != "files":  # a PDF has the time at which it was made
            assert _without_time(again[number]) == _without_time(expected)
        else:
            assert again[number].count(b"\nOBX|") == expected.count(b"\nOBX|")
            assert b"Base64^JVBERi0" in again[number]


def _without_time(message: bytes) -> list[bytes]:
    """Return the fields of the header without MSH-7, and the other segments."""
    header, *others = message.split(b"\n")
    fields = header.split(b"|")
    return [*fields[:6], *fields[7:], *others]
