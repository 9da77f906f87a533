"""Shadow runs of a definition that writes results, on the results that a destination got."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import sink

TEXT = "No acute finding."
KNOWN = "- ZPI: {1: {value: $order.PatientMRN, codes: known, unknown: refuse}}"
"""A segment that only results of patients in a code table have; others are parked."""


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A service that has sent two results to `ris`."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgresql" else ""
    with sink() as ris:
        house = House(tmp_path / "home", database=url)
        house.destination("ris", ris.port)
        house.make()
        house.start()
        try:
            for number in (1, 2):
                house.send(order(number))
                house.draft(f"M{number}", f"A{number}", TEXT)
                house.sign(f"M{number}", f"A{number}")
            ris.wait(2)
            yield house
        finally:
            house.stop()
            house.kill()


def shadow(house: House, expect: int) -> dict[str, Any]:
    printed = house.bridge("mapping", "shadow", "results", "--json", expect=expect)
    found: dict[str, Any] = json.loads(printed)
    return found


def change(house: House) -> None:
    """Send the interpreter as XCN, and only results of M1."""
    folder = house.home / "mappings"
    (folder / "codes" / "known.csv").write_text("code,value\nM1,yes\n", "utf-8")
    file = folder / "results.yaml"
    text = file.read_text("utf-8").replace("interpreter: ndl", "interpreter: xcn")
    file.write_text(text.replace("  - ZDS: echo", f"  - ZDS: echo\n  {KNOWN}"), "utf-8")


def test_a_change_is_proved_on_past_results(house: House) -> None:
    """Results that are no longer sent come first, then each field with its name."""
    assert shadow(house, 0)["differ"] == 0
    change(house)
    found = shadow(house, 1)
    assert (found["list"], found["compared"], found["differ"]) == ("deliveries", 2, 2)
    first, *fields = found["fields"]
    assert (first["field"], first["kind"], first["count"]) == ("sent_to_not_sent", "outcome", 1)
    assert {(entry["field"], entry["name"], entry["count"]) for entry in fields} == {
        ("OBR-32", "Principal result interpreter", 1),
        ("ZPI", "", 1),
    }
    assert "DOE" not in json.dumps(found)
    printed = house.bridge("mapping", "shadow", "results", expect=1)
    assert "2 of 2 results differ" in printed
